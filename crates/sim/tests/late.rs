//! The generator's own lateness: what it costs, where it shows, and what it must never change.

use plimsoll_core::plan::{LatePolicy, Plan};
use plimsoll_core::{DropReason, Outcome, Span, Timestamp};
use plimsoll_sim::testing::{
    Door, after, answers_after, assert_all_arrived, at_ms, closed_count, count, even, even_over, ms,
    outcomes, run, silent, simulate,
};
use plimsoll_sim::{Acceptance, Run, Simulation, Wire};

/// Two requests of one client; the machine oversleeps the first answer by 5 ms.
fn late_reader(stamps: bool) -> Run {
    let wire = Wire { stamps, late_wakes: vec![(at_ms(10), ms(5))], ..Wire::default() };
    run(Simulation::new(closed_count(1, 2), after(ms(10))).over(wire))
}

#[test]
fn with_stamps_a_response_left_unread_for_5_ms_is_not_slow_and_read_lag_has_it() {
    let run = late_reader(true);
    let [first, second] = run.by_seq()[..] else { panic!("{:?}", run.samples) };
    assert_eq!((first.service(), first.read_lag()), (Some(ms(10)), Some(ms(5))));
    // In a closed loop the lateness comes back with the next request.
    assert_eq!((second.due, second.schedule_lag()), (at_ms(10), ms(5)));
    assert_eq!((second.service(), second.read_lag()), (Some(ms(10)), Some(Span::ZERO)));
}

#[test]
fn without_stamps_a_response_left_unread_for_5_ms_counts_as_service() {
    let run = late_reader(false);
    let [first, second] = run.by_seq()[..] else { panic!("{:?}", run.samples) };
    assert_eq!((first.service(), first.read_lag()), (Some(ms(15)), Some(Span::ZERO)));
    assert_eq!((second.due, second.schedule_lag()), (at_ms(15), Span::ZERO));
}

/// 20 clients and a clock whose every reading takes 1 µs: what a turn costs is the gap between two looks at
/// the sockets; the 10 ms that the server takes are not, nor is the warm-up.
#[test]
fn without_stamps_the_gaps_between_looks_at_the_sockets_are_recorded_and_sleep_is_none() {
    let gaps = |stamps, requests, server: Span| {
        let wire = Wire { stamps, reading: Span::from_us(1), ..Wire::default() };
        let plan = Plan { warmup: ms(100), ..closed_count(20, requests) };
        run(Simulation::new(plan, after(server)).over(wire)).recorder.poll_gap().clone()
    };
    assert_eq!(gaps(true, 200, ms(10)).count(), 0);
    let own = gaps(false, 200, ms(10));
    assert!(own.count() >= 10, "{}", own.count());
    let (least, most) = (own.min().unwrap(), own.max().unwrap());
    assert!(Span::from_us(2) <= least && most < ms(1), "{least} to {most}");
    // Twenty answers at once are taken up in one turn.
    assert!(most >= Span::from_us(20), "{most}");
}

#[test]
fn a_late_send_is_schedule_lag_and_nothing_else() {
    let wire = Wire { late_wakes: vec![(at_ms(100), ms(5))], ..Wire::default() };
    let run = run(Simulation::new(even("10/s", ms(300)), after(ms(1))).over(wire));
    let lags: Vec<Span> = run.by_seq().iter().map(|sample| sample.schedule_lag()).collect();
    assert_eq!(lags, [Span::ZERO, ms(5), Span::ZERO]);
    assert_eq!(run.by_seq()[1].response(), ms(6));
    assert_eq!(count(&run, |sample| sample.blocked() > Span::ZERO), 0);
}

#[test]
fn each_send_of_a_burst_reads_the_clock() {
    // Five requests are due when the machine wakes; every reading takes 1 µs.
    let late_wakes = vec![(at_ms(10), ms(40))];
    let wire = Wire { late_wakes, reading: Span::from_us(1), ..Wire::default() };
    let plan = even("100/s", ms(60));
    let run = run(Simulation::new(plan, after(ms(1))).over(wire));
    let sent: Vec<Timestamp> = run.by_seq().iter().map(|sample| sample.sent.unwrap()).collect();
    assert!(sent.windows(2).all(|pair| pair[0] < pair[1]), "{sent:?}");
    assert!(run.samples.iter().all(|sample| sample.sent >= Some(sample.due)));
}

#[test]
fn a_timeout_found_late_has_its_exact_moment() {
    let mut plan = closed_count(1, 2);
    plan.timeout = ms(10);
    let wire = Wire { late_wakes: vec![(at_ms(10), ms(5))], ..Wire::default() };
    let run = run(Simulation::new(plan, silent()).over(wire));
    let [first, second] = run.by_seq()[..] else { panic!("{:?}", run.samples) };
    assert_eq!((first.outcome, first.end), (Outcome::TimedOut, at_ms(10)));
    assert_eq!((second.due, second.sent, second.end), (at_ms(10), Some(at_ms(15)), at_ms(25)));
    assert_eq!(run.world.connections(), 2, "the connection was replaced");
}

#[test]
fn an_answer_that_came_before_the_deadline_is_taken_however_late_the_worker_is() {
    // The machine sleeps from 9 to 14 ms; the answer comes at 9.5 ms, the deadline at 10 ms.
    let mut plan = closed_count(1, 1);
    plan.timeout = ms(10);
    let wire = Wire { late_wakes: vec![(at_ms(9), ms(5))], ..Wire::default() };
    let log = answers_after(&[Span::from_us(9_500)]);
    let run = run(Simulation::new(plan, log).over(wire));
    assert_eq!(outcomes(&run), [Outcome::Ok]);
    assert_eq!(run.samples[0].service(), Some(Span::from_us(9_500)));
}

#[test]
fn an_answer_that_comes_between_the_last_look_and_the_deadline_is_taken() {
    for answer_ns in (9_990_000..10_000_000).step_by(100) {
        let mut plan = closed_count(1, 1);
        plan.timeout = ms(10);
        let wire = Wire { reading: Span::from_us(1), ..Wire::default() };
        let server = answers_after(&[Span::from_ns(answer_ns)]);
        let run = run(Simulation::new(plan, server).over(wire));
        assert_eq!(outcomes(&run), [Outcome::Ok], "{answer_ns}");
        assert_eq!(run.samples[0].service(), Some(Span::from_ns(answer_ns)));
    }
}

#[test]
fn a_late_worker_gives_the_next_address_the_whole_connect_timeout() {
    // The first address is a black hole. The machine sleeps through the end of its time and through
    // what would have been the second address's.
    let door = |_, address| if address == 0 { Acceptance::Ignore } else { Acceptance::Accept };
    let plan = Plan { connect_timeout: ms(100), ..even("1/s", ms(1000)) };
    let wire = Wire { delay: ms(1), late_wakes: vec![(at_ms(100), ms(500))], ..Wire::default() };
    let run = run(Simulation::new(plan, Door(door)).over(wire).with_addresses(2));
    assert_eq!(outcomes(&run), [Outcome::Ok]);
    assert_eq!(run.samples[0].blocked(), ms(602));
}

/// 1,000/s for 100 ms over 20 µs a reading: what that costs is seen inside the window, whatever comes
/// before and after it.
#[test]
fn a_worker_is_as_busy_as_in_its_rate_window_however_long_the_drain_and_the_warm_up() {
    let wire = || Wire { reading: Span::from_us(20), ..Wire::default() };
    let simulation = |plan, answer| Simulation::new(plan, after(answer)).over(wire());
    let busy = |plan, answer| simulation(plan, answer).run().busy_ratio;
    let busy_until = |plan, answer, at| simulation(plan, answer).interrupt_at(at).run().busy_ratio;
    let plan = || Plan { timeout: ms(60_000), drain: ms(60_000), ..even("1000/s", ms(100)) };
    let alone = busy(plan(), ms(1)).unwrap();
    assert!((0.05..0.95).contains(&alone), "{alone}");
    // The answers come after 10 s. Sending is in the window, each request on a connection of its own.
    let drained = busy(plan(), ms(10_000)).unwrap();
    assert!((0.5..2.0).contains(&(drained / alone)), "{drained}, {alone}");
    // Cut short half-way, with a drain of 1 s.
    let cut = busy_until(plan(), ms(10_000), at_ms(50)).unwrap();
    assert!((0.8..1.25).contains(&(cut / drained)), "{cut}, {drained}");
    // Idle until the measured part begins.
    let warmed = Plan { warmup: ms(5_000), ..closed_count(1, 100) };
    assert!(busy(warmed, ms(10)).unwrap() < 0.05);
    // Cut short before it: there is no window.
    let unbegun = Plan { warmup: ms(5_000), ..plan() };
    assert_eq!(busy_until(unbegun, ms(1), at_ms(1_000)), None);
}

fn skipping(plan: Plan, within: Span) -> Plan {
    Plan { late: LatePolicy::Skip(within), ..plan }
}

#[test]
fn a_request_that_cannot_be_sent_in_time_is_dropped_the_moment_it_is_late() {
    // 105 ms a request on one connection: the one due at 10 ms is 95 ms late when its turn comes.
    let plan = skipping(even_over(1, "100/s", ms(200)), ms(100));
    let run = simulate(plan, after(ms(105)));
    let late = Outcome::Dropped(DropReason::Late);
    for sample in &run.samples {
        match sample.outcome {
            Outcome::Ok => assert!(sample.sent.unwrap().since(sample.due) <= ms(100), "{sample:?}"),
            outcome => {
                assert_eq!(outcome, late);
                assert_eq!(sample.response(), ms(100) + Span::from_ns(1), "{sample:?}");
            }
        }
    }
    // Sent at 0, 105 and 210 ms: those due at 0, 10 and 110 ms, the last just in time.
    assert_eq!(count(&run, |sample| sample.outcome == Outcome::Ok), 3);
    assert_eq!(run.recorder.counts().dropped, [17, 0]);
    // All of them stood at the connection limit: the generator was not late.
    assert_eq!(count(&run, |sample| sample.schedule_lag() > Span::ZERO), 0);
    assert_eq!(run.recorder.counts().waited_for_connection, 19);
    assert_all_arrived(&run);
}

#[test]
fn requests_in_line_and_at_the_limit_are_dropped_each_at_its_own_moment() {
    // One connection, which a black hole swallows: one request in line for it, the others behind.
    let mut plan = skipping(even_over(1, "100/s", ms(50)), ms(100));
    plan.connect_timeout = ms(4000);
    let run = simulate(plan, Door(|_, _| Acceptance::Ignore));
    assert_eq!(run.samples.len(), 5);
    for sample in run.by_seq() {
        assert_eq!(sample.outcome, Outcome::Dropped(DropReason::Late));
        assert_eq!(sample.response(), ms(100) + Span::from_ns(1), "{sample:?}");
        // The first one waited for its own connect, the others at the limit.
        assert_eq!(sample.waited_for_connection, sample.seq > 0, "{sample:?}");
    }
}

#[test]
fn a_request_beyond_the_most_in_flight_is_dropped_when_it_is_due() {
    let mut plan = even("100/s", ms(100));
    plan.max_in_flight = Some(2);
    let run = simulate(plan, after(ms(35)));
    // 0 and 10 ms fill it up to 35 and 45 ms; 40 and 50 ms likewise up to 75 and 85 ms; 80 and 90 ms.
    let dropped: Vec<u64> =
        run.by_seq().iter().filter(|sample| sample.sent.is_none()).map(|sample| sample.seq).collect();
    assert_eq!(dropped, [2, 3, 6, 7]);
    assert_eq!(run.recorder.counts().dropped, [0, 4]);
    assert!(run.samples.iter().all(|sample| sample.sent.is_some() || sample.response().is_zero()));
}
