//! Copies of unanswered requests: the first end of any copy decides, losing copies are read and
//! discarded, and copies take connections like everybody else.

use plimsoll_core::plan::{Plan, Retry};
use plimsoll_core::{Failure, Outcome, Span, Timestamp};
use plimsoll_sim::server::{Answers, OK};
use plimsoll_sim::testing::{
    Door, Log, answers_after, assert_all_arrived, at_ms, closed_count, count, even, even_over, ms, outcomes,
    run, silent, simulate,
};
use plimsoll_sim::{Acceptance, Net, Simulation, Wire};

fn retrying(plan: Plan, after: Span, copies: u32) -> Plan {
    Plan { retry: Some(Retry { after, copies }), ..plan }
}

/// One request, sent again after 100 ms, three copies in all.
fn one_request() -> Plan {
    retrying(even("1/s", ms(1000)), ms(100), 3)
}

#[test]
fn the_first_answer_to_any_copy_decides_and_the_losers_answer_is_discarded() {
    let run = simulate(one_request(), answers_after(&[ms(500), ms(50)]));
    let [sample] = run.samples[..] else { panic!("{:?}", run.samples) };
    assert_eq!((sample.outcome, sample.sent, sample.end), (Outcome::Ok, Some(at_ms(0)), at_ms(150)));
    assert_eq!(run.recorder.counts().attempts, 2, "the third copy was not needed");
    assert_eq!(run.recorder.bytes_received(), 2 * OK.len() as u64, "the loser's answer was read");
    assert_eq!(run.recorder.in_flight_max(), 1, "copies are one request");
    assert_eq!((run.world.connections(), run.world.open_connections()), (2, 2));
    assert_all_arrived(&run);
}

#[test]
fn each_copy_waits_for_the_one_before_and_no_more_go_out_than_allowed() {
    let log = Log::default();
    let run = simulate(one_request(), log.of_requests(silent()));
    assert_eq!(log.entries(), [(at_ms(0), 0), (at_ms(100), 1), (at_ms(200), 2)]);
    // Nobody answers: the end of the drain at 6 s is too late, the first copy's timeout decides.
    assert_eq!((run.samples[0].outcome, run.samples[0].end), (Outcome::TimedOut, at_ms(5000)));
    assert_eq!(run.finished, at_ms(5000), "losing copies keep no run alive");
}

#[test]
fn a_broken_connection_under_a_copy_decides_too() {
    let mut requests = 0;
    let server = Answers(move |now, connection, net: &mut Net| {
        requests += 1;
        match requests {
            1 => net.send(now + ms(300), connection, OK),
            _ => net.reset(now + ms(20), connection),
        }
    });
    let run = simulate(one_request(), server);
    assert_eq!(outcomes(&run), [Outcome::Failed(Failure::Reset)]);
    assert_eq!(run.samples[0].response(), ms(120));
    assert_eq!(run.recorder.counts().failed_unsent, 0);
}

#[test]
fn a_copy_in_line_is_not_sent_once_its_request_has_its_answer() {
    let door = |connection, _| if connection == 0 { Acceptance::Accept } else { Acceptance::Refuse };
    let mut plan = one_request();
    // The first copy stays on its connection: its answer would take longer than a copy's pause.
    let wire = Wire { delay: ms(80), ..Wire::default() };
    plan.timeout = ms(1000);
    let run = run(Simulation::new(plan, Door(door)).over(wire));
    let sample = run.samples[0];
    // Connected at 160 ms, the copy due at 260 ms is refused at 420 ms; the answer comes at 320 ms.
    assert_eq!((sample.outcome, sample.end), (Outcome::Ok, at_ms(320)));
    assert_eq!(run.recorder.counts().attempts, 1, "a copy in line for a connect was never sent");
}

#[test]
fn a_refused_copy_fails_a_request_that_was_sent() {
    let log = Log::default();
    struct FirstOnly;
    impl plimsoll_sim::Server for FirstOnly {
        fn connect(&mut self, _: Timestamp, connection: usize, _: usize) -> Acceptance {
            if connection == 0 { Acceptance::Accept } else { Acceptance::Refuse }
        }
        fn request(&mut self, _: Timestamp, _: usize, _: &[u8], _: &mut Net) {}
    }
    let run = simulate(one_request(), log.of_requests(FirstOnly));
    let sample = run.samples[0];
    assert_eq!(sample.outcome, Outcome::Failed(Failure::ConnectRefused));
    assert_eq!((sample.sent, sample.end), (Some(at_ms(0)), at_ms(100)));
    assert_eq!((run.recorder.counts().sent, run.recorder.counts().failed_unsent), (1, 0));
}

#[test]
fn a_copy_that_finds_no_room_waits_and_goes_before_new_requests() {
    // Requests at 0, 500 and 1000 ms over two connections. The first one's copy is due at 600 ms and
    // gets the connection that the second one frees at 700 ms.
    let plan = retrying(even_over(2, "2/s", ms(1500)), ms(600), 2);
    let log = Log::default();
    let server = log.of_requests(answers_after(&[ms(2000), ms(200), ms(100), ms(1)]));
    let run = simulate(plan, server);
    assert_eq!(log.entries()[..3], [(at_ms(0), 0), (at_ms(500), 1), (at_ms(700), 1)]);
    assert_eq!(run.by_seq()[0].end, at_ms(800));
    assert_eq!(run.recorder.counts().attempts, 4);
    assert_eq!(count(&run, |sample| sample.outcome == Outcome::Ok), 3);
    assert_eq!(run.recorder.counts().waited_for_connection, 0, "a copy's wait is not its request's");
}

#[test]
fn a_copy_for_which_no_connection_ever_comes_is_never_sent() {
    let plan = retrying(even_over(1, "1/s", ms(1000)), ms(100), 3);
    let run = simulate(plan, answers_after(&[ms(500)]));
    assert_eq!((run.recorder.counts().attempts, run.samples[0].end), (1, at_ms(500)));
}

#[test]
fn copies_in_a_closed_loop_free_their_client_with_the_first_answer() {
    let mut plan = retrying(closed_count(1, 2), ms(100), 2);
    plan.connections = 2;
    let log = Log::default();
    let run = simulate(plan, log.of_requests(answers_after(&[ms(1000), ms(10), ms(5)])));
    // The second request is due with the copy's answer and leaves on the copy's connection, since
    // the losing copy still holds the other one.
    assert_eq!(log.entries(), [(at_ms(0), 0), (at_ms(100), 1), (at_ms(110), 1)]);
    let ends: Vec<Timestamp> = run.by_seq().iter().map(|sample| sample.end).collect();
    assert_eq!(ends, [at_ms(110), at_ms(115)]);
    assert_eq!((run.recorder.counts().attempts, run.recorder.counts().due), (3, 2));
    assert_eq!((run.recorder.in_flight_max(), run.finished), (1, at_ms(115)));
}

#[test]
fn a_losing_copy_holds_its_connection_until_its_own_timeout() {
    let mut plan = retrying(even_over(2, "1/s", ms(3000)), ms(100), 2);
    plan.timeout = ms(1500);
    // The first copy of the first request is never answered, everything else at once.
    let mut requests = 0;
    let server = Answers(move |now, connection, net: &mut Net| {
        requests += 1;
        if requests > 1 {
            net.send(now, connection, OK);
        }
    });
    let run = simulate(plan, server);
    assert_eq!(outcomes(&run), [Outcome::Ok; 3]);
    assert_eq!(run.recorder.counts().timed_out, 0, "the copy's timeout is nobody's end");
    assert_eq!(run.world.open_connections(), 1, "and closed its connection");
}

#[test]
fn a_copy_due_between_two_readings_of_the_clock_is_not_forgotten() {
    // Every reading takes 1 µs, so each turn lasts some. The first request's copy becomes due while
    // the second request, due at 1 ms, is being sent; nothing else happens before 2 ms.
    for after_ns in (980_000..1_020_000).step_by(250) {
        let after = Span::from_ns(after_ns);
        let plan = retrying(even("1000/s", ms(2)), after, 2);
        let log = Log::default();
        let wire = Wire { reading: Span::from_us(1), ..Wire::default() };
        run(Simulation::new(plan, log.of_requests(silent())).over(wire));
        let arrivals: Vec<Timestamp> = log.entries().iter().map(|(at, _)| *at).collect();
        assert_eq!(arrivals.len(), 4);
        let limit = arrivals[0] + after + Span::from_us(20);
        assert!(arrivals[2] <= limit.max(arrivals[1] + Span::from_us(20)), "{after}: {arrivals:?}");
    }
}
