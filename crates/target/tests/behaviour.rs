//! What the running target does by its laws: order, bounds, stalls, things that go wrong, truth.

mod support;

use std::io;

use plimsoll_core::Span;
use plimsoll_target::law::{Fate, Fates};
use plimsoll_target::{Ratio, Running, Stall, TargetConfig, Workers};
use support::{Client, GET, read, start};

/// The truth by `GET /truth` on a connection of its own.
fn truth(running: &Running) -> serde_json::Value {
    let answer = Client::connect(running.address()).ask("GET /truth HTTP/1.1\r\nHost: target\r\n\r\n");
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("application/json")));
    serde_json::from_slice(&answer.body).expect("JSON")
}

/// Waits until the target has read `requests` more requests than in the accounts taken so far.
fn wait_for_arrivals(running: &Running, requests: u64) {
    let mut arrivals = 0;
    while arrivals < requests {
        arrivals += running.truth().expect("a running target").arrivals;
        std::thread::yield_now();
    }
}

#[test]
fn requests_are_answered_in_the_order_they_came() {
    let running = start(TargetConfig { service: read("fixed:5ms"), ..TargetConfig::default() });
    let mut clients: Vec<_> = (0..6).map(|_| Client::connect(running.address())).collect();
    for client in &mut clients {
        client.send(GET);
        wait_for_arrivals(&running, 1);
    }
    // When an answer is here, those to the requests before it are here already.
    for last in [2, 5] {
        assert_eq!(clients[last].answer(false).expect("an answer").status, 200);
        for client in &mut clients[last - 2..last] {
            client.socket().set_nonblocking(true).expect("an open socket");
            assert_eq!(client.answer(false).expect("an answer without waiting").status, 200);
        }
    }
}

#[test]
fn one_worker_makes_each_of_a_batch_wait_for_those_before_it() {
    let running = start(TargetConfig { service: read("fixed:2ms"), ..TargetConfig::default() });
    let mut client = Client::connect(running.address());
    client.send(GET.repeat(5));
    for _ in 0..5 {
        assert_eq!(client.answer(false).expect("an answer").status, 200);
    }
    // One write is one segment and one read: all five arrive at one moment.
    let sojourn = running.truth().expect("a running target").computed_sojourn_ns.expect("five answers");
    assert_eq!((sojourn.count, sojourn.mean, sojourn.max), (5, 6e6, 10_000_000));
}

#[test]
fn with_workers_enough_nobody_waits() {
    let running = start(TargetConfig {
        service: read("fixed:2ms"),
        workers: Workers::UNLIMITED,
        ..TargetConfig::default()
    });
    let mut client = Client::connect(running.address());
    client.send(GET.repeat(50));
    for _ in 0..50 {
        assert_eq!(client.answer(false).expect("an answer").status, 200);
    }
    let sojourn = running.truth().expect("a running target").computed_sojourn_ns.expect("fifty answers");
    assert_eq!((sojourn.count, sojourn.max), (50, 2_000_000));
}

#[test]
fn answers_on_one_connection_keep_its_order_when_later_ones_are_done_first() {
    // Lengths by the seed: some later request is done before an earlier one.
    let running = start(TargetConfig {
        service: read("bimodal:0s,20ms,p=50%"),
        workers: Workers::UNLIMITED,
        error: read("50%"),
        seed: 3,
        ..TargetConfig::default()
    });
    let fates = Fates::new(3, read("50%"), Ratio::ZERO, Ratio::ZERO);
    let mut client = Client::connect(running.address());
    client.send(GET.repeat(40));
    for number in 0..40 {
        let expected = if fates.fate(number) == Fate::Error { 500 } else { 200 };
        assert_eq!(client.answer(false).expect("an answer").status, expected, "request {number}");
    }
}

#[test]
fn beyond_the_queue_requests_are_turned_away_with_503() {
    let running = start(TargetConfig { service: read("fixed:20ms"), queue: 2, ..TargetConfig::default() });
    let mut client = Client::connect(running.address());
    client.send(GET.repeat(9));
    for number in 0..9 {
        let expected = if number < 3 { 200 } else { 503 };
        assert_eq!(client.answer(false).expect("an answer").status, expected);
    }
    let truth = running.truth().expect("a running target");
    assert_eq!((truth.arrivals, truth.status.ok, truth.status.unavailable), (9, 3, 6));
    assert_eq!((truth.rejected, truth.in_system), (6, 0));
    assert_eq!(truth.sojourn_ns.expect("three answers").count, 3);
}

#[test]
fn work_stands_still_in_a_stall() {
    // Active for 20 ms of every 60. A request of 50 ms needs three active stretches, so two or
    // three stalls lie inside of its time, wherever it begins.
    let stall = Stall::new(Span::from_ms(60), Span::from_ms(40)).expect("40 of 60");
    let running =
        start(TargetConfig { service: read("fixed:50ms"), stall: Some(stall), ..TargetConfig::default() });
    let mut client = Client::connect(running.address());
    let mut exact = 0;
    for _ in 0..6 {
        assert_eq!(client.ask(GET).status, 200);
        let sojourn = running.truth().expect("a running target").computed_sojourn_ns.expect("one answer");
        // A read may end just inside of a stall; then the rest of the stall comes on top of two.
        assert!((130_000_000..=170_000_000).contains(&sojourn.max), "{sojourn:?}");
        exact += u32::from([130_000_000, 170_000_000].contains(&sojourn.max));
    }
    assert!(exact > 0, "no request arrived in an active moment");
}

#[test]
fn in_a_stall_nothing_is_read_and_the_truth_is_told_in_process() {
    // Stalled but for the first 300 ms of an hour; 300 ms are enough to connect in.
    let stall = Stall::new(Span::from_secs(3600), Span::from_ns(3_599_700_000_000)).expect("shorter");
    let running = start(TargetConfig { stall: Some(stall), ..TargetConfig::default() });
    let mut client = Client::connect(running.address());
    std::thread::sleep(std::time::Duration::from_millis(400));
    client.send(GET);
    client.socket().set_read_timeout(Some(std::time::Duration::from_millis(200))).expect("above zero");
    let error = client.answer(false).expect_err("no answer in a stall");
    assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{error}");
    assert_eq!(running.truth().expect("a running target").arrivals, 0);
    running.stop().expect("it stops in a stall");
}

#[test]
fn errors_closes_and_resets_come_by_the_seed_exactly() {
    let (error, close, reset): (Ratio, Ratio, Ratio) = (read("20%"), read("10%"), read("10%"));
    let running = start(TargetConfig { error, close, reset, seed: 11, ..TargetConfig::default() });
    let fates = Fates::new(11, error, close, reset);
    let mut counts = [0u64; 4];
    let mut client = Client::connect(running.address());
    for number in 0..200 {
        client.send(GET);
        let answer = client.answer(false);
        match fates.fate(number) {
            Fate::Answer => assert_eq!(answer.expect("an answer").status, 200),
            Fate::Error => assert_eq!(answer.expect("an answer").status, 500),
            Fate::Close => assert_eq!(answer.expect_err("an end").kind(), io::ErrorKind::UnexpectedEof),
            Fate::Reset => assert_eq!(answer.expect_err("a reset").kind(), io::ErrorKind::ConnectionReset),
        }
        counts[fates.fate(number) as usize] += 1;
        if matches!(fates.fate(number), Fate::Close | Fate::Reset) {
            client = Client::connect(running.address());
        }
    }
    let truth = running.truth().expect("a running target");
    assert_eq!([truth.status.ok, truth.status.error, truth.closes, truth.resets], counts);
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}

#[test]
fn the_truth_is_told_once_and_asking_is_not_in_it() {
    let running = start(TargetConfig { service: read("fixed:1ms"), ..TargetConfig::default() });
    let mut client = Client::connect(running.address());
    for _ in 0..20 {
        client.ask(GET);
    }
    let first = truth(&running);
    assert_eq!(first["schema"], "plimsoll-truth/1");
    assert_eq!((&first["arrivals"], &first["status"]["200"]), (&20.into(), &20.into()));
    assert_eq!(first["connections_accepted"], 1);
    assert_eq!(first["computed_sojourn_ns"]["p99.9"], 1_000_000);
    assert!(first["sojourn_ns"]["p50"].as_u64() >= Some(1_000_000));
    assert_eq!(first["lateness_ns"]["count"], 20);
    assert!(first["rate_per_s"].as_f64().is_some_and(|rate| rate > 0.0 && rate <= 1000.0));
    let second = truth(&running);
    assert_eq!((&second["arrivals"], &second["connections_accepted"]), (&0.into(), &0.into()));
    assert!(second["sojourn_ns"].is_null());
    client.ask(GET);
    assert_eq!(truth(&running)["arrivals"], 1);
}

#[test]
fn a_client_that_leaves_while_it_waits_is_counted() {
    let running = start(TargetConfig { service: read("fixed:100ms"), ..TargetConfig::default() });
    let mut client = Client::connect(running.address());
    client.send(GET);
    wait_for_arrivals(&running, 1);
    reset(client);
    let mut gone = 0;
    while gone == 0 {
        gone = running.truth().expect("a running target").client_gone;
        std::thread::yield_now();
    }
    assert_eq!(gone, 1);
}

/// Resets a connection from the client's side.
fn reset(client: Client<std::net::TcpStream>) {
    let zero = Some(std::time::Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(client.socket(), zero).expect("a TCP socket");
}

#[test]
fn a_busy_target_keeps_the_law_of_its_service_times() {
    let running = start(TargetConfig { service: read("fixed:3ms"), busy: true, ..TargetConfig::default() });
    let mut client = Client::connect(running.address());
    for _ in 0..5 {
        client.ask(GET);
    }
    let truth = running.truth().expect("a running target");
    assert_eq!(truth.computed_sojourn_ns.map(|sojourn| sojourn.max), Some(3_000_000));
}

#[test]
fn a_target_serves_in_the_foreground_until_its_flag_is_set() {
    let stop = std::sync::atomic::AtomicBool::new(false);
    let served = plimsoll_target::serve(TargetConfig::default(), &stop, |running| {
        assert_eq!(Client::connect(running.address()).ask(GET).status, 200);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    served.expect("served");
}

#[test]
fn what_keeps_a_target_from_starting_is_told_with_a_remedy() {
    let first = start(TargetConfig::default());
    let taken = TargetConfig { listen: first.address(), ..TargetConfig::default() };
    let error = plimsoll_target::Target::start(taken).expect_err("the port is taken").to_string();
    assert!(error.contains(&first.address().to_string()) && error.contains("--listen"), "{error}");
    let faulty = TargetConfig { error: read("60%"), close: read("60%"), ..TargetConfig::default() };
    let error = plimsoll_target::Target::start(faulty).expect_err("above 100%").to_string();
    assert!(error.contains("60%"), "{error}");
}
