//! After its start a worker takes no memory for a request: not to send it, not to read its answer, not to
//! record it.

use std::alloc::{GlobalAlloc, Layout, System as Machine};
use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;

use plimsoll_core::dispatch::{Action, Dispatcher};
use plimsoll_core::plan::{Load, Operation, Plan, Target, WaitStrategy};
use plimsoll_core::share::{Share, Times, dispatcher};
use plimsoll_core::value::{ValueLaw, Variable};
use plimsoll_core::{Sample, Span, Template, Timestamp};
use plimsoll_engine::os::{Calibration, Os, monotonic_ns};
use plimsoll_engine::pool::{Pool, PoolLimits, TargetSetup};
use plimsoll_engine::session::SessionSetup;
use plimsoll_engine::system::Address;
use plimsoll_engine::worker::{Rules, Turn, Worker};
use plimsoll_stats::{Recorder, RecorderConfig};

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// The machine's allocator, and a count of what each thread has taken.
struct Counting;

// SAFETY: every call goes to the machine's allocator with the arguments it was made with; counting
// touches a cell of this thread that needs no memory of its own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is passed on unchanged.
        unsafe { Machine.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, which is passed on unchanged.
        unsafe { Machine.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        // SAFETY: the caller keeps the contract of `realloc`, which is passed on unchanged.
        unsafe { Machine.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CLIENTS: u32 = 8;
const REQUESTS: u64 = 20_000;
/// By then every connection, buffer and slot has been used.
const SETTLED: u64 = 5_000;

/// Notes how much this thread had taken when the requests `SETTLED` and `REQUESTS` ended.
struct Tap {
    inner: Box<dyn Dispatcher + Send>,
    ended: u64,
    taken: Rc<RefCell<Vec<u64>>>,
}

impl Dispatcher for Tap {
    fn poll(&mut self, now: Timestamp) -> Action {
        self.inner.poll(now)
    }

    fn on_end(&mut self, sample: &Sample) {
        self.ended += 1;
        if self.ended == SETTLED || self.ended == REQUESTS {
            self.taken.borrow_mut().push(TAKEN.get());
        }
        self.inner.on_end(sample);
    }

    fn stop(&mut self, at: Timestamp) {
        self.inner.stop(at);
    }
}

fn answer_everything(mut stream: TcpStream) {
    let (mut buffer, mut held) = ([0; 4096], Vec::new());
    while let Ok(count) = stream.read(&mut buffer) {
        if count == 0 {
            return;
        }
        held.extend_from_slice(&buffer[..count]);
        while let Some(end) = held.windows(4).position(|four| four == b"\r\n\r\n") {
            held.drain(..end + 4);
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    }
}

#[test]
fn a_settled_worker_takes_no_memory() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(CLIENTS as usize) {
            let stream = stream.unwrap();
            std::thread::spawn(move || answer_everything(stream));
        }
    });
    let variables = vec![Variable::new("id", ValueLaw::Uniform { start: 0, end: 1_000_000 }, 1)];
    let request = Template::parse(b"GET /${id} HTTP/1.1\r\nHost: a\r\n\r\n", &variables);
    let load = Load::Closed { clients: CLIENTS, duration: None, requests: Some(REQUESTS) };
    let patient = Span::from_secs(60);
    let plan = Plan {
        timeout: patient,
        connect_timeout: patient,
        drain: patient,
        wait: WaitStrategy::Sleep,
        variables,
        ..Plan::new(load, Target::tcp("a", 0), Operation::http1("a", request))
    };
    let times = Times::of(&plan);
    // One window for the whole run: a new one takes memory once in 100 ms or 1 s, by design.
    let config = RecorderConfig {
        operations: 1,
        start: times.start,
        window_end: times.end,
        window_length: Span::from_secs(3600),
    };
    let os = Os::new(plan.wait, Calibration::measure().unwrap(), true).unwrap();
    let limits = PoolLimits {
        connections: CLIENTS as usize,
        connect_timeout: plan.connect_timeout,
        timeout: plan.timeout,
    };
    let targets =
        [TargetSetup { addresses: vec![Address::Tcp(address)], tls: None, session: SessionSetup::Http1 }];
    let taken = Rc::new(RefCell::new(Vec::with_capacity(2)));
    let tap = Tap { inner: dispatcher(&plan, Share::WHOLE), ended: 0, taken: Rc::clone(&taken) };
    let rules = Rules::new(&plan, times.end, u64::MAX);
    let mut worker = Worker::new(os, Pool::new(&plan, &targets, limits), tap, Recorder::new(config), rules);
    worker.system().set_origin(monotonic_ns());
    while worker.turn().unwrap() == Turn::Going {}
    let counts = worker.into_recorder().counts();
    assert_eq!(counts.ok, REQUESTS, "{counts:?}");
    let taken = taken.take();
    // A latency never seen before may need a page of the histograms that no request touched yet; that
    // ends with the range of latencies, and does not grow with the number of requests.
    let pages = 40;
    assert!(taken[1] - taken[0] <= pages, "{} times in {} requests", taken[1] - taken[0], REQUESTS - SETTLED);
}
