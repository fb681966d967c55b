//! Hard cases from the bug reports of load-testing tools, each named after its number: times are
//! exact, on the virtual clock. This file: accuracy of timing, overload, and what plans promise.

use plimsoll_core::plan::{LatePolicy, Load, Operation, Plan};
use plimsoll_core::{Failure, Outcome, Sample, Span, Template, Timestamp};
use plimsoll_sim::plans::closed;
use plimsoll_sim::queue::{Queue, Service};
use plimsoll_sim::server::{Answers, OK};
use plimsoll_sim::testing::{
    Door, Log, after, assert_all_arrived, at_ms, closed_count, count, even, even_over, failures, ms, run,
    silent, simulate,
};
use plimsoll_sim::{Acceptance, Net, Run, Server, Simulation, Wire};

#[test]
fn tim_01_latency_begins_when_a_request_is_due_and_not_when_somebody_waits_for_his_turn() {
    let run = simulate(even_over(100, "10/s", ms(5_000)), after(ms(1)));
    assert_eq!(count(&run, |sample| sample.response() == ms(1) && sample.service() == Some(ms(1))), 50);
}

/// Takes `service` a request, and stands still from 2 s to 3 s.
fn stalls_once(service: Span) -> impl Server {
    Answers(move |now: Timestamp, connection, net: &mut Net| {
        let stalled = (at_ms(2_000)..at_ms(3_000)).contains(&now);
        net.send(if stalled { at_ms(3_000) } else { now } + service, connection, OK);
    })
}

#[test]
fn tim_03_a_stall_is_one_long_service_and_fifty_long_responses() {
    // The request due at 2 s + k · 10 ms is answered, with a service of S, at 3 s + (k + 1) · S. Its
    // response is above 500 ms while 1 s + S − k · (10 ms − S) is: without service time for k < 50,
    // with 1 ms for k ≤ 55, since the backlog also takes its time.
    for (service, long_responses) in [(Span::ZERO, 50), (ms(1), 56)] {
        let run = simulate(even_over(1, "100/s", ms(5_000)), stalls_once(service));
        assert_eq!(count(&run, |sample| sample.service() > Some(ms(500))), 1);
        assert_eq!(count(&run, |sample| sample.response() > ms(500)), long_responses);
        assert_eq!(run.recorder.counts().ok, 500);
    }
}

#[test]
fn tim_05_an_answer_before_the_body_was_sent_leaves_no_negative_phase() {
    let head = b"POST / HTTP/1.1\r\nHost: sim\r\nContent-Length: 1000000\r\n\r\n".to_vec();
    let mut plan = closed_count(1, 3);
    let bytes = Template::parse(&[head, vec![b'x'; 1_000_000]].concat(), &[]);
    plan.operations[0] = Operation::http1("post", bytes);
    let wire = Wire { write_bytes: 65_536, write_pause: ms(1), delay: ms(2), ..Wire::default() };
    let run = run(Simulation::new(plan, after(Span::ZERO)).over(wire));
    assert_eq!(run.recorder.counts().ok, 3);
    for sample in &run.samples {
        let spans = sample.schedule_lag() + sample.blocked() + sample.service().unwrap();
        assert_eq!(sample.response(), spans);
        assert_eq!(sample.service(), Some(ms(4)), "there and back, long before the body's last byte");
    }
}

#[test]
fn tim_06_a_request_without_an_answer_has_no_timing_for_what_did_not_happen() {
    let mut requests = 0;
    let server = Answers(move |now, connection, net: &mut Net| {
        requests += 1;
        match requests % 3 {
            0 => net.close(now + ms(5), connection),
            _ => net.send(now + ms(5), connection, OK),
        }
    });
    let run = simulate(closed_count(1, 30), server);
    assert_eq!((run.recorder.counts().failed, run.recorder.counts().ok), (10, 20));
    for sample in run.samples.iter().filter(|sample| sample.outcome != Outcome::Ok) {
        assert_eq!((sample.first_byte, sample.read, sample.status), (None, None, None));
        assert_eq!(sample.service(), Some(ms(5)));
    }
    let total = run.recorder.total();
    assert_eq!((total.first_byte.count(), total.read_lag.count()), (20, 20));
    for histogram in [&total.response_ok, &total.response_failed, &total.service, &total.first_byte] {
        assert_eq!((histogram.min(), histogram.max()), (Some(ms(5)), Some(ms(5))));
    }
}

#[test]
fn tim_08_timeouts_are_counted_when_they_expire_and_connections_replaced() {
    let plan = Plan { timeout: ms(500), ..closed(4, ms(3_000)) };
    let run = simulate(plan, silent());
    let counts = run.recorder.counts();
    assert_eq!((counts.timed_out, counts.answered, counts.due), (24, 0, 24));
    assert_eq!(run.recorder.total().service_censored.least, ms(500));
    assert_eq!((run.world.connections(), run.world.open_connections()), (24, 0));
    assert_eq!(run.finished, at_ms(3_000));
}

#[test]
fn tim_11_service_and_response_are_told_apart_when_the_rate_is_not_met() {
    let run = simulate(even_over(1, "5/s", ms(10_000)), after(ms(1_000)));
    for sample in run.by_seq() {
        assert_eq!(sample.service(), Some(ms(1_000)));
        assert_eq!(sample.response(), ms(1_000 + 800 * sample.seq));
    }
    // Answers at 1, 2 … 9 s lie inside the window, the one at 10 s no longer does.
    let counts = run.recorder.counts();
    assert_eq!((counts.due, counts.sent_in_window, counts.answered_in_window), (50, 10, 9));
    assert_eq!(counts.offered_ratio(), Some(0.2));
}

#[test]
fn tim_13_an_overloaded_run_of_many_workers_lasts_its_time_and_claims_no_more_than_the_server() {
    let plan = Plan { workers: 8, drain: ms(1_000), ..even_over(8, "100000/s", ms(2_000)) };
    let run = simulate(plan, after(ms(1)));
    assert_eq!(run.finished, at_ms(3_000), "the schedule and the whole drain");
    let counts = run.recorder.counts();
    // Each worker's connection answers once a millisecond from 1 ms on; at 2 s the window is over.
    assert_eq!(counts.answered_in_window, 8 * 1_999);
    assert!(counts.answered <= run.world.requests());
    assert_eq!(counts.due, 200_000);
    assert_all_arrived(&run);
}

#[test]
fn tim_16_resets_inside_answers_leave_no_impossible_times() {
    let mut requests = 0;
    let server = Answers(move |now, connection, net: &mut Net| {
        requests += 1;
        if requests % 100 == 0 {
            net.send(now + ms(1), connection, &OK[..20]);
            net.reset(now + ms(2), connection);
        } else {
            net.send(now + ms(3), connection, OK);
        }
    });
    let run = simulate(closed_count(200, 20_000), server);
    assert_eq!(failures(&run), [(Failure::Reset, 200)]);
    assert_eq!(run.recorder.counts().ok, 19_800);
    assert_eq!(run.recorder.total().response_ok.min(), Some(ms(3)));
    assert_eq!(run.recorder.total().response_failed.min(), Some(ms(2)));
    assert!(run.samples.iter().all(|sample| sample.read.is_none_or(|read| read >= sample.end)));
}

#[test]
fn tim_20_a_slow_set_up_is_in_no_rate() {
    struct SlowDoor;
    impl Server for SlowDoor {
        fn connect(&mut self, _: Timestamp, _: usize, _: usize) -> Acceptance {
            Acceptance::Later(ms(2_000))
        }
        fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
            net.send(now + ms(999), connection, OK);
        }
    }
    let run = simulate(closed(100, ms(2_000)), SlowDoor);
    assert_eq!(run.opened_ahead, 100);
    assert_eq!(run.recorder.counts().answered_in_window, 200, "100/s for 2 s");
    assert_eq!(run.by_seq()[0].sent, Some(Timestamp::ZERO));
}

#[test]
fn ovl_02_what_no_connection_could_carry_is_listed_as_not_sent() {
    let plan = Plan { timeout: Span::MAX, ..even_over(5, "5/s", ms(10_000)) };
    let run = simulate(plan, after(ms(10_000)));
    let counts = run.recorder.counts();
    assert_eq!((counts.due, counts.sent, counts.unfinished_unsent), (50, 10, 40));
    assert_eq!((counts.ok, counts.offered_ratio()), (5, Some(0.1)));
}

#[test]
fn ovl_03_requests_beyond_the_most_in_flight_are_counted_as_dropped() {
    let plan = Plan { max_in_flight: Some(1), ..even("100/s", ms(5_000)) };
    let run = simulate(plan, after(ms(500)));
    let counts = run.recorder.counts();
    assert_eq!((counts.ok, counts.dropped_total()), (10, 490));
    assert_eq!(counts.offered_ratio(), Some(10.0 / 500.0));
}

/// Sends in each second, from the recorder's windows of 100 ms.
fn sends_by_second(run: &Run) -> Vec<u64> {
    let rows: Vec<u64> = run.recorder.windows().rows().map(|row| row.sent()).collect();
    rows.chunks(10).map(|second| second.iter().sum()).collect()
}

#[test]
fn ovl_05_catching_up_follows_the_policy_and_shows_in_the_windows() {
    // 50/s on one connection; the server stands still from 3 s to 5 s.
    let stalls = || {
        Answers(|now: Timestamp, connection, net: &mut Net| {
            let stalled = (at_ms(3_000)..at_ms(5_000)).contains(&now);
            net.send(if stalled { at_ms(5_000) } else { now }, connection, OK);
        })
    };
    let plan = even_over(1, "50/s", ms(8_000));
    // Sent when it is possible again: 99 late requests at once, and the 50 of that second.
    let run = simulate(plan.clone(), stalls());
    assert_eq!(sends_by_second(&run), [50, 50, 50, 1, 0, 149, 50, 50]);
    assert_eq!(run.recorder.counts().ok, 400);
    // Skipped when later than 100 ms: those due from 4.90 s on are still in time at 5 s.
    let run = simulate(Plan { late: LatePolicy::Skip(ms(100)), ..plan }, stalls());
    assert_eq!(sends_by_second(&run), [50, 50, 50, 1, 0, 55, 50, 50]);
    assert_eq!((run.recorder.counts().ok, run.recorder.counts().dropped), (306, [94, 0]));
}

#[test]
fn ovl_06_rates_whose_interval_is_no_whole_millisecond_hold() {
    for rate in [667, 1_500, 2_500, 3_333, 7_777] {
        let run = simulate(even(&format!("{rate}/s"), ms(5_000)), after(Span::ZERO));
        assert_eq!((run.recorder.counts().due, run.recorder.counts().ok_in_window), (rate * 5, rate * 5));
        for Sample { seq, due, sent, .. } in run.by_seq() {
            let exact = u128::from(seq) * 1_000_000_000 / u128::from(rate);
            assert!(u128::from(due.as_ns()).abs_diff(exact) <= 1, "{rate}/s: {seq} at {due:?}");
            assert_eq!(sent, Some(due));
        }
    }
}

#[test]
fn ovl_08_a_schedule_has_the_same_number_of_requests_every_time() {
    for _ in 0..20 {
        let run = simulate(even("30/s", ms(3_000)), after(ms(1)));
        assert_eq!((run.recorder.counts().due, run.world.requests()), (90, 90), "0 s in, 3 s out");
    }
    assert_eq!(simulate(even("0.1/s", ms(30_000)), after(ms(1))).recorder.counts().due, 3);
}

#[test]
fn ovl_10_a_blocked_connection_holds_up_nothing_but_its_own_request() {
    for workers in [1, 2] {
        let plan = Plan { workers, timeout: ms(1_000), ..even_over(4, "400/s", ms(3_000)) };
        let log = Log::default();
        let server = Answers(|now, connection, net: &mut Net| {
            if connection > 0 {
                net.send(now + ms(1), connection, OK);
            }
        });
        let run = simulate(plan, log.of_requests(server));
        let counts = run.recorder.counts();
        assert_eq!((counts.timed_out, counts.ok), (1, 1_199), "{workers} workers");
        assert_eq!(count(&run, |sample| sample.sent == Some(sample.due)), 1_200, "{workers} workers");
        for second in 0..3 {
            let within = at_ms(second * 1_000)..at_ms((second + 1) * 1_000);
            assert_eq!(log.entries().iter().filter(|(at, _)| within.contains(at)).count(), 400);
        }
    }
}

#[test]
fn ovl_12_a_number_of_requests_in_a_second_is_that_number() {
    for requests in [340, 7, 1_001] {
        let run = simulate(even(&format!("{requests}/s"), ms(1_000)), after(ms(1)));
        assert_eq!(run.world.requests(), requests);
    }
}

#[test]
fn ovl_13_connects_that_time_out_hold_up_no_others() {
    let plan = Plan { connect_timeout: ms(2_000), ..even("100/s", ms(5_000)) };
    let run = simulate(plan, Door(|_, _| Acceptance::Ignore));
    assert_eq!(failures(&run), [(Failure::ConnectTimeout, 500)]);
    assert_eq!(count(&run, |sample| sample.response() == ms(2_000)), 500, "each began when it was due");
    assert_eq!((run.finished, run.world.sockets()), (at_ms(6_990), 0));
}

#[test]
fn ovl_14_a_run_ends_with_its_drain_whatever_the_backlog() {
    let plan = Plan { drain: ms(2_000), timeout: Span::MAX, ..even_over(10, "100000/s", ms(3_000)) };
    let run = simulate(plan, Queue::new(Service::Fixed(ms(1_000)), 1, 1));
    assert_eq!(run.finished, at_ms(5_000));
    let counts = run.recorder.counts();
    assert_eq!((counts.due, counts.ok, counts.unfinished), (300_000, 5, 299_995));
}

#[test]
fn cli_03_whichever_limit_comes_first_ends_the_run() {
    let load = |requests| Load::Closed { clients: 1, duration: Some(ms(1_000)), requests: Some(requests) };
    let run = simulate(plimsoll_sim::plans::plan(load(1)), after(ms(10)));
    assert_eq!((run.world.requests(), run.finished), (1, at_ms(10)));
    let run = simulate(plimsoll_sim::plans::plan(load(1_000)), after(ms(10)));
    assert_eq!((run.world.requests(), run.finished), (100, at_ms(1_000)));
    let mut plan = even("100/s", ms(1_000));
    if let Load::Open { requests, .. } = &mut plan.load {
        *requests = Some(1);
    }
    let run = simulate(plan, after(ms(1)));
    assert_eq!((run.world.requests(), run.finished), (1, at_ms(1)));
}

#[test]
fn cli_04_a_request_has_one_outcome_and_late_bytes_answer_nobody() {
    let plan = Plan { timeout: ms(200), ..closed(4, ms(3_000)) };
    let run = simulate(plan, after(ms(300)));
    let counts = run.recorder.counts();
    assert_eq!((counts.ok, counts.timed_out, counts.due), (0, 60, 60));
    assert_eq!(run.recorder.bytes_received(), 0, "the connection was gone before the late bytes came");
}

#[test]
fn cli_09_a_rate_is_the_whole_runs_whatever_the_number_of_connections() {
    for (connections, workers) in [(1, 1), (50, 1), (50, 3)] {
        let plan = Plan { workers, ..even_over(connections, "10/s", ms(10_000)) };
        assert_eq!(simulate(plan, after(ms(1))).world.requests(), 100);
    }
}

#[test]
fn cli_10_any_rate_above_zero_works() {
    for (rate, seconds, requests) in [("0.1/s", 25, 3), ("1/s", 5, 5), ("7/s", 3, 21), ("0.5/s", 9, 5)] {
        let run = simulate(even(rate, Span::from_secs(seconds)), after(ms(1)));
        assert_eq!(run.world.requests(), requests, "{rate}");
    }
}
