//! The kernel's receive time stamps: an answer that lay unread is not called slow.

#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use plimsoll_core::plan::{Load, Operation, Plan, Target, WaitStrategy};
use plimsoll_core::share::{FIRST_WINDOW_LENGTH, Share, Times, dispatcher};
use plimsoll_core::{Span, Template, Timestamp};
use plimsoll_engine::os::{Calibration, Os};
use plimsoll_engine::pool::{Pool, PoolLimits, TargetSetup};
use plimsoll_engine::session::SessionSetup;
use plimsoll_engine::system::{Address, Received, System};
use plimsoll_engine::worker::{Rules, Turn, Worker};
use plimsoll_stats::{Recorder, RecorderConfig};

/// How long answers are left unread; a little more than is asserted, for the clocks' reading.
const UNREAD: Duration = Duration::from_millis(6);
const AT_LEAST: Span = Span::from_ms(5);
/// A guard against hanging.
const HANG: Duration = Duration::from_secs(60);
const HANG_SPAN: Span = Span::from_secs(60);

fn machine() -> Os {
    Os::new(WaitStrategy::Sleep, Calibration::measure().expect("it can sleep"), true).expect("a poller")
}

/// An established connection of `os` to `address`.
fn connect(os: &mut Os, address: &Address) -> <Os as System>::Socket {
    const KEY: u64 = 7;
    let socket = os.connect(address, KEY).expect("it listens");
    let begun = Instant::now();
    loop {
        let timer = os.now().saturating_add(Span::from_ms(100));
        os.wait(Timestamp::MAX, timer).expect("it can wait");
        while let Some(ready) = os.next_ready() {
            if ready.key == KEY && ready.writable {
                os.connected(&socket).expect("it accepts");
                return socket;
            }
        }
        assert!(begun.elapsed() < HANG);
    }
}

fn receive(os: &mut Os, socket: &mut <Os as System>::Socket) -> Received {
    let mut buffer = [0; 64];
    let begun = Instant::now();
    loop {
        match os.receive(socket, &mut buffer) {
            Ok(received) => return received,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        assert!(begun.elapsed() < HANG);
    }
}

#[test]
fn bytes_left_unread_bear_the_moment_they_came() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut os = machine();
    let mut socket = connect(&mut os, &Address::Tcp(listener.local_addr().expect("bound")));
    let (mut server, _) = listener.accept().expect("a connection");
    // The kernel begins to stamp a moment after it was asked to.
    let begun = Instant::now();
    loop {
        server.write_all(b"first").expect("it is read");
        if receive(&mut os, &mut socket).stamp.is_some() {
            break;
        }
        assert!(begun.elapsed() < HANG, "no stamps come");
    }
    for _ in 0..20 {
        let before = os.now();
        server.write_all(b"more").expect("it is read");
        std::thread::sleep(UNREAD);
        let read = os.now();
        let received = receive(&mut os, &mut socket);
        let stamp = received.stamp.expect("stamps have begun");
        assert_eq!(received.bytes, 4);
        assert!(read.since(stamp) >= AT_LEAST, "came {stamp:?}, read {read:?}");
        // The two clocks are read apart, so they agree to some microseconds.
        assert!(stamp.saturating_add(Span::from_us(500)) >= before, "came {stamp:?}, sent {before:?}");
    }
    assert_eq!(os.has_stamps(), Some(true));
}

#[test]
fn a_socket_in_the_file_system_has_no_stamps() {
    let path = std::env::temp_dir().join(format!("plimsoll-stamps-{}", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a free name");
    let mut os = machine();
    let mut socket = connect(&mut os, &Address::Unix(path.clone()));
    std::fs::remove_file(&path).expect("it is there");
    let (mut server, _) = listener.accept().expect("a connection");
    server.write_all(b"more").expect("it is read");
    assert_eq!(receive(&mut os, &mut socket), Received { bytes: 4, stamp: None });
    assert_eq!(os.has_stamps(), Some(false));
}

/// Answers every request of one connection at once.
fn quick_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        let (mut stream, _): (TcpStream, _) = listener.accept().expect("a connection");
        stream.set_nodelay(true).expect("a TCP socket");
        let mut request = [0; 1024];
        while stream.read(&mut request).is_ok_and(|bytes| bytes > 0) {
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                break;
            }
        }
    });
    address
}

fn plan(address: SocketAddr, requests: u64) -> Plan {
    let load = Load::Closed { clients: 1, duration: None, requests: Some(requests) };
    let target = Target::tcp(&address.ip().to_string(), address.port());
    let request = Template::parse(b"GET / HTTP/1.1\r\nHost: quick\r\n\r\n", &[]);
    Plan {
        timeout: HANG_SPAN,
        connect_timeout: HANG_SPAN,
        drain: HANG_SPAN,
        wait: WaitStrategy::Sleep,
        ..Plan::new(load, target, Operation::http1("GET /", request))
    }
}

#[test]
fn an_answer_left_unread_is_not_reported_as_slow_and_read_lag_has_it() {
    const REQUESTS: u64 = 40;
    let address = quick_server();
    let plan = plan(address, REQUESTS);
    let times = Times::of(&plan);
    let recorder = Recorder::new(RecorderConfig {
        operations: 1,
        start: times.start,
        window_end: times.end,
        window_length: FIRST_WINDOW_LENGTH,
    });
    let limits = PoolLimits { connections: 1, connect_timeout: plan.connect_timeout, timeout: plan.timeout };
    let setup =
        TargetSetup { addresses: vec![Address::Tcp(address)], tls: None, session: SessionSetup::Http1 };
    let pool: Pool<Os> = Pool::new(&plan, &[setup], limits);
    let rules = Rules::new(&plan, times.end, u64::MAX);
    let mut worker = Worker::new(machine(), pool, dispatcher(&plan, Share::WHOLE), recorder, rules);
    // The worker sleeps where it should read: an answer comes at once, and lies.
    while let Some(wake) = worker.begin_turn() {
        std::thread::sleep(UNREAD);
        worker.system().wait(wake.due, wake.timer).expect("it can wait");
        worker.end_turn();
    }
    assert_eq!(worker.turn().expect("nothing is left to wait for"), Turn::Finished);
    assert_eq!(worker.system().has_stamps(), Some(true));
    let total = worker.into_recorder().total();
    assert_eq!(total.counts.ok, REQUESTS);
    let median = |histogram: &plimsoll_stats::Histogram| Span::from_ns(histogram.quantile(0.5).expect("40"));
    assert!(median(&total.read_lag) >= AT_LEAST, "read lag {}", median(&total.read_lag));
    // An answer takes microseconds; read as late as this one was, each would seem to take 6 ms.
    assert!(median(&total.service) < AT_LEAST, "service {}", median(&total.service));
}
