//! Runs made by hand, for the tests of what is shown of them.

#![allow(dead_code, reason = "every test program uses a part of it")]

use std::time::{Duration, SystemTime};

use plimsoll_core::plan::{Load, Operation, RequestFacts, Target};
use plimsoll_core::value::Key;
use plimsoll_core::{
    ArrivalLaw, DropReason, Failure, Outcome, Phase, Plan, Rate, RateProfile, Sample, Span, Template,
    Timestamp,
};
use plimsoll_report::RunV1;
use plimsoll_stats::{ConnectionFacts, HostFacts, Objective, Recorder, RecorderConfig, RunFacts};

pub(crate) const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

pub(crate) fn operation(name: &str) -> Operation {
    Operation {
        facts: RequestFacts {
            url: format!("http://127.0.0.1:8080{}", name.trim_start_matches("GET ")),
            protocol: "http/1.1".to_owned(),
            method: "GET".to_owned(),
            sql: Vec::new(),
            headers: vec![("accept".to_owned(), "*/*".to_owned())],
            body_bytes: 0,
        },
        ..Operation::http1(name, Template::default())
    }
}

pub(crate) fn open_plan(rate: u64, length: Span) -> Plan {
    let profile = RateProfile::constant(Rate::per_second(rate), length).unwrap();
    let load = Load::Open { profile, arrivals: ArrivalLaw::Even, requests: None };
    Plan::new(load, Target::tcp("127.0.0.1", 8080), operation("GET /"))
}

pub(crate) fn closed_plan(clients: u32, length: Span) -> Plan {
    let load = Load::Closed { clients, duration: Some(length), requests: None };
    Plan { load, ..open_plan(1, length) }
}

pub(crate) fn facts(window: Span) -> RunFacts {
    RunFacts {
        started_at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
        elapsed: window + Span::from_ms(3),
        window,
        interrupted: false,
        wait_strategy: "auto",
        receive_clock: "kernel",
        cpu_user: Span::from_ms(812),
        cpu_system: Span::from_ms(1_344),
        busy_ratio: Some(0.25),
        max_rss_bytes: Some(9_412_608),
        connections: ConnectionFacts { wanted: None, established: 0, peak: 12, opened: 12 },
        addresses: vec![("127.0.0.1:8080".to_owned(), 12)],
        workers: 1,
        notes: Vec::new(),
        host: HostFacts {
            os: "linux".to_owned(),
            kernel: "6.1.0".to_owned(),
            cpus: 2,
            cpu_model: None,
            memory_bytes: Some(8_000_000_000),
        },
    }
}

pub(crate) fn recorder(plan: &Plan, window: Span) -> Recorder {
    Recorder::new(RecorderConfig {
        operations: plan.operations.len(),
        start: Timestamp::ZERO,
        window_end: Timestamp::ZERO + window,
        window_length: Span::from_ms(100),
    })
}

/// A request due at `due`, sent `lag` later, ended `service` after that.
pub(crate) fn sample(due: Span, lag: Span, service: Span, outcome: Outcome) -> Sample {
    let due = Timestamp::ZERO + due;
    let ready = due + lag;
    let unsent = matches!(
        outcome,
        Outcome::Dropped(_) | Outcome::Failed(Failure::ConnectRefused | Failure::DescriptorLimit)
    );
    let end = ready + service;
    let status = match outcome {
        Outcome::Ok => Some(200),
        Outcome::Failed(Failure::Status(status)) => Some(status),
        _ => None,
    };
    Sample {
        seq: 0,
        key: Key::Seq(0),
        operation: 0,
        phase: Phase::Measure,
        due,
        ready,
        sent: (!unsent).then_some(ready),
        first_byte: status.map(|_| end),
        end,
        read: status.map(|_| end + Span::from_us(3)),
        outcome,
        status,
        waited_for_connection: false,
    }
}

pub(crate) fn record(recorder: &mut Recorder, sample: Sample) {
    if sample.sent.is_some() {
        recorder.on_attempt(sample.phase, sample.operation);
        recorder.on_bytes(57, if sample.status.is_some() { 238 } else { 0 });
    }
    recorder.record(&sample);
}

fn objectives(expressions: &[&str]) -> Vec<Objective> {
    expressions.iter().map(|text| text.parse().unwrap()).collect()
}

/// 1,000/s for 10 s against a server that answers in 1 to 2 ms.
pub(crate) fn healthy() -> RunV1 {
    let window = Span::from_secs(10);
    let plan = open_plan(1_000, window);
    let mut recorder = recorder(&plan, window);
    recorder.on_in_flight(3);
    (0..12).for_each(|i| recorder.on_connect(Span::from_us(120 + i)));
    for i in 0..10_000 {
        let noise = i * 7_919 % 1_000;
        let service = Span::from_us(1_000 + noise);
        record(
            &mut recorder,
            sample(Span::from_ms(i), Span::from_ns(400 + noise * 20), service, Outcome::Ok),
        );
    }
    let objectives = objectives(&["p99 < 150ms", "success >= 99%", "rate >= 95%"]);
    RunV1::new(&plan, &facts(window), &recorder, &QUANTILES, &objectives)
}

/// A socket in the file system: the worker looks at it twice a millisecond.
pub(crate) fn without_stamps() -> RunV1 {
    let window = Span::from_secs(2);
    let plan = open_plan(1_000, window);
    let mut recorder = recorder(&plan, window);
    for i in 0..2_000 {
        let due = Span::from_ms(i);
        record(&mut recorder, sample(due, Span::from_us(2), Span::from_us(1_500 + i % 200), Outcome::Ok));
        recorder.on_poll_gap(Span::from_us(500), Timestamp::ZERO + due);
    }
    RunV1::new(&plan, &RunFacts { receive_clock: "user", ..facts(window) }, &recorder, &QUANTILES, &[])
}

/// Nobody listens: every connect is refused.
pub(crate) fn refused() -> RunV1 {
    let window = Span::from_secs(2);
    let plan = open_plan(50, window);
    let mut recorder = recorder(&plan, window);
    let failure = Failure::ConnectRefused;
    recorder.on_failure_text(failure, "127.0.0.1:8080: connection refused (os error 111)");
    for i in 0..100 {
        let due = Span::from_ms(20 * i);
        record(&mut recorder, sample(due, Span::from_us(1), Span::from_us(80), Outcome::Failed(failure)));
    }
    let mut facts = facts(window);
    facts.connections = ConnectionFacts::default();
    facts.addresses = Vec::new();
    RunV1::new(&plan, &facts, &recorder, &QUANTILES, &objectives(&["p99 < 150ms", "success >= 99%"]))
}

/// The server takes every request and answers none.
pub(crate) fn silent() -> RunV1 {
    let window = Span::from_secs(3);
    let plan = closed_plan(4, window);
    let mut recorder = recorder(&plan, window);
    recorder.on_in_flight(4);
    for i in 0..24 {
        let due = Span::from_ms(500 * (i / 4));
        record(&mut recorder, sample(due, Span::ZERO, Span::from_ms(500), Outcome::TimedOut));
    }
    let mut facts = facts(window);
    facts.connections = ConnectionFacts { wanted: Some(4), established: 4, peak: 4, opened: 28 };
    RunV1::new(&plan, &facts, &recorder, &QUANTILES, &objectives(&["p50 < 1s"]))
}

/// Too much for the server and for the generator: every kind of end, and every warning.
pub(crate) fn overloaded() -> RunV1 {
    let window = Span::from_secs(10);
    let mut plan = open_plan(1_000, window);
    plan.operations.push(operation("GET /search"));
    plan.warmup = Span::from_secs(2);
    plan.max_in_flight = Some(500);
    let mut recorder = recorder(&plan, window);
    recorder.on_failure_text(Failure::Status(503), "503 Service Unavailable");
    recorder.on_surplus(17);
    recorder.on_rows(3_000);
    recorder.on_in_flight(942);
    let warmup = Sample { phase: Phase::Warmup, ..sample(Span::ZERO, Span::ZERO, Span::ZERO, Outcome::Ok) };
    record(&mut recorder, warmup);
    for i in 0..10_000u64 {
        let outcome = match i % 100 {
            0..70 => Outcome::Ok,
            70..80 => Outcome::Failed(Failure::Status(503)),
            80..85 => Outcome::Failed(Failure::DescriptorLimit),
            85..90 => Outcome::TimedOut,
            90..95 => Outcome::Unfinished,
            _ => Outcome::Dropped(DropReason::MaxInFlight),
        };
        let service = match outcome {
            Outcome::Failed(_) => Span::from_us(900),
            Outcome::TimedOut => Span::from_secs(5),
            Outcome::Unfinished => Span::from_ms(15_000 - i),
            Outcome::Dropped(_) => Span::ZERO,
            Outcome::Ok => Span::from_us(2_000 + i),
        };
        let sample = sample(Span::from_ms(i), Span::from_us(i / 2), service, outcome);
        let waited_for_connection = i % 20 == 0;
        record(&mut recorder, Sample { operation: (i % 2) as u16, waited_for_connection, ..sample });
    }
    let mut facts = facts(window);
    facts.interrupted = true;
    facts.notes = vec!["The descriptor limit of 1024 reduced the connections to 960.".to_owned()];
    let objectives = objectives(&["p99 < 150ms", "p90 < 60s", "success >= 99%", "rate >= 95%"]);
    RunV1::new(&plan, &facts, &recorder, &QUANTILES, &objectives)
}

/// No request, no time.
pub(crate) fn empty() -> RunV1 {
    let plan = open_plan(1, Span::from_ms(1));
    let recorder = recorder(&plan, Span::ZERO);
    RunV1::new(&plan, &facts(Span::ZERO), &recorder, &QUANTILES, &objectives(&["p99 < 1s", "success >= 99%"]))
}

/// 100 ms, two requests: less than one window of a longer run.
pub(crate) fn short() -> RunV1 {
    let window = Span::from_ms(50);
    let plan = open_plan(40, window);
    let mut recorder = recorder(&plan, window);
    recorder.on_in_flight(1);
    for i in 0..2 {
        record(&mut recorder, sample(Span::from_ms(25 * i), Span::ZERO, Span::from_ms(1), Outcome::Ok));
    }
    RunV1::new(&plan, &facts(window), &recorder, &[0.5, 0.99, 0.99999], &[])
}

pub(crate) fn all() -> [(&'static str, RunV1); 6] {
    [
        ("healthy", healthy()),
        ("refused", refused()),
        ("silent", silent()),
        ("overloaded", overloaded()),
        ("empty", empty()),
        ("short", short()),
    ]
}
