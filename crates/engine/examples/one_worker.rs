//! One worker without the crew around it, every sample looked at: for figures that a run's result
//! does not hold (see bench/figures.py).
//!
//! `one_worker ADDRESS SECONDS closed CLIENTS [kernel|user]`
//! `one_worker ADDRESS SECONDS open RATE LAW auto|spin|sleep CONNECTIONS`
//!
//! Prints one JSON line: answers, processor time an answer, the distance from due to sent, the index
//! of dispersion of the sends in windows of 1, 10 and 100 ms, and what lay unread how long.
#![expect(clippy::print_stdout, reason = "this program's output is its purpose")]

use std::cell::RefCell;
use std::rc::Rc;

use plimsoll_core::dispatch::{Action, Dispatcher};
use plimsoll_core::plan::{Load, Operation, Plan, Target, WaitStrategy};
use plimsoll_core::share::{Share, Times, dispatcher};
use plimsoll_core::{RateProfile, Sample, Span, Template, Timestamp};
use plimsoll_engine::os::{Calibration, Os, limits, monotonic_ns};
use plimsoll_engine::pool::{Pool, PoolLimits, TargetSetup};
use plimsoll_engine::session::SessionSetup;
use plimsoll_engine::system::Address;
use plimsoll_engine::worker::{Rules, Turn, Worker};
use plimsoll_stats::{Recorder, RecorderConfig};

/// What is kept of a sample.
struct Kept {
    due_ns: u64,
    sent_ns: u64,
    response_ns: u64,
    read_lag_ns: u64,
}

/// A dispatcher that keeps what it is told of.
struct Tap {
    inner: Box<dyn Dispatcher + Send>,
    kept: Rc<RefCell<Vec<Kept>>>,
}

impl Dispatcher for Tap {
    fn poll(&mut self, now: Timestamp) -> Action {
        self.inner.poll(now)
    }

    fn on_end(&mut self, sample: &Sample) {
        if let (Some(sent), Some(read_lag)) = (sample.sent, sample.read_lag()) {
            assert!(sent >= sample.due, "sent before it was due");
            self.kept.borrow_mut().push(Kept {
                due_ns: sample.due.as_ns(),
                sent_ns: sent.as_ns(),
                response_ns: sample.response().as_ns(),
                read_lag_ns: read_lag.as_ns(),
            });
        }
        self.inner.on_end(sample);
    }

    fn stop(&mut self, at: Timestamp) {
        self.inner.stop(at);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (address, seconds, rest) = match arguments.as_slice() {
        [address, seconds, rest @ ..] => (*address, *seconds, rest),
        _ => panic!("one_worker ADDRESS SECONDS closed|open …"),
    };
    let length = Span::from_secs(seconds.parse().expect("whole seconds"));
    let mut stamps = true;
    let (load, connections, wait) = match rest {
        ["closed", clients, clock @ ..] => {
            stamps = clock != ["user"];
            let clients: u32 = clients.parse().expect("clients");
            (
                Load::Closed { clients, duration: Some(length), requests: None },
                u64::from(clients),
                WaitStrategy::Sleep,
            )
        }
        ["open", rate, law, wait, connections] => {
            let profile =
                RateProfile::constant(rate.parse().expect("a rate"), length).expect("a rate above zero");
            let wait = match *wait {
                "spin" => WaitStrategy::Spin,
                "sleep" => WaitStrategy::Sleep,
                _ => WaitStrategy::Auto,
            };
            let load = Load::Open { profile, arrivals: law.parse().expect("an arrival law"), requests: None };
            (load, connections.parse().expect("connections"), wait)
        }
        _ => panic!("closed CLIENTS [kernel|user], or open RATE LAW WAIT CONNECTIONS"),
    };
    let plan = plan(load, connections, wait, address);
    let times = Times::of(&plan);
    let config = RecorderConfig {
        operations: 1,
        start: times.start,
        window_end: times.end,
        window_length: Span::from_ms(100),
    };
    limits::raise_descriptor_limit();
    let os = Os::new(wait, Calibration::measure().expect("sleep"), stamps).expect("a poller");
    let targets = [TargetSetup {
        addresses: vec![Address::Tcp(address.parse().expect("an address"))],
        tls: None,
        session: SessionSetup::Http1,
    }];
    let pool_limits = PoolLimits {
        connections: connections as usize,
        connect_timeout: plan.connect_timeout,
        timeout: plan.timeout,
    };
    // Room for every sample before the start: growing would stop the worker for milliseconds.
    let kept = Rc::new(RefCell::new(Vec::with_capacity(8_000_000)));
    let tap = Tap { inner: dispatcher(&plan, Share::WHOLE), kept: Rc::clone(&kept) };
    let rules = Rules::new(&plan, times.end, u64::MAX);
    let mut worker =
        Worker::new(os, Pool::new(&plan, &targets, pool_limits), tap, Recorder::new(config), rules);
    let before = limits::process_usage();
    worker.system().set_origin(monotonic_ns());
    while worker.turn().expect("waiting works") == Turn::Going {}
    let after = limits::process_usage();
    let cpu_ns = (after.cpu_user + after.cpu_system).as_ns() - (before.cpu_user + before.cpu_system).as_ns();

    // The first second opens connections and warms caches; it is not looked at.
    let from_ns = 1_000_000_000;
    let all = kept.take();
    let looked_at: Vec<&Kept> = all.iter().filter(|kept| kept.due_ns >= from_ns).collect();
    let quantile = |of: fn(&Kept) -> u64, q: f64| {
        let mut values: Vec<u64> = looked_at.iter().map(|kept| of(kept)).collect();
        values.sort_unstable();
        values
            .get(((q * values.len() as f64).ceil() as usize).saturating_sub(1))
            .map_or(0.0, |ns| *ns as f64 / 1e3)
    };
    let dispersion = |window_ns: u64| {
        let mut counts = vec![0u64; ((length.as_ns() - from_ns) / window_ns) as usize];
        for kept in &looked_at {
            if let Some(count) = counts.get_mut(((kept.sent_ns - from_ns) / window_ns) as usize) {
                *count += 1;
            }
        }
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let variance = counts.iter().map(|n| (*n as f64 - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        variance / mean
    };
    let lag = |kept: &Kept| kept.sent_ns - kept.due_ns;
    println!(
        "{{\"answers\": {}, \"cpu_us\": {:.3}, \"lag_p50_us\": {:.2}, \"lag_p99_us\": {:.2}, \"lag_max_us\": {:.2}, \
         \"response_p50_us\": {:.2}, \"read_lag_p50_us\": {:.2}, \"read_lag_p99_us\": {:.2}, \
         \"dispersion_1ms\": {:.3}, \"dispersion_10ms\": {:.3}, \"dispersion_100ms\": {:.3}}}",
        all.len(),
        cpu_ns as f64 / 1e3 / all.len().max(1) as f64,
        quantile(lag, 0.5),
        quantile(lag, 0.99),
        quantile(lag, 1.0),
        quantile(|kept| kept.response_ns, 0.5),
        quantile(|kept| kept.read_lag_ns, 0.5),
        quantile(|kept| kept.read_lag_ns, 0.99),
        dispersion(1_000_000),
        dispersion(10_000_000),
        dispersion(100_000_000),
    );
}

fn plan(load: Load, connections: u64, wait: WaitStrategy, host: &str) -> Plan {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let operation = Operation::http1("GET /", Template::parse(request.as_bytes(), &[]));
    Plan { connections, wait, ..Plan::new(load, Target::tcp(host, 0), operation) }
}
