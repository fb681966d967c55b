//! How runs and requests end: timeouts, the drain, the warm-up's account, interrupts.

use plimsoll_core::plan::{Load, Plan};
use plimsoll_core::{Outcome, Phase, Span};
use plimsoll_sim::plans::closed;
use plimsoll_sim::server::Answers;
use plimsoll_sim::server::OK;
use plimsoll_sim::testing::{
    after, all_counts, assert_all_arrived, at_ms, count, even, even_over, ms, outcomes, run, silent, simulate,
};
use plimsoll_sim::{Net, Run, Simulation, Wire};

#[test]
fn a_timeout_has_its_exact_moment_and_its_connection_is_replaced() {
    let plan = Plan { timeout: ms(150), ..even("10/s", ms(300)) };
    let run = simulate(plan, silent());
    assert_eq!(outcomes(&run), [Outcome::TimedOut; 3]);
    for sample in run.by_seq() {
        assert_eq!(sample.end, sample.sent.unwrap() + ms(150));
    }
    assert_eq!((run.world.connections(), run.world.open_connections()), (3, 0));
    assert_eq!(run.finished, at_ms(350));
    assert_all_arrived(&run);
}

#[test]
fn an_answer_at_the_very_deadline_is_in_time_and_a_nanosecond_later_it_is_not() {
    for (late_ns, outcome) in [(0, Outcome::Ok), (1, Outcome::TimedOut)] {
        let plan = Plan { timeout: ms(100), ..even("1/s", ms(1000)) };
        let run = simulate(plan, after(ms(100) + Span::from_ns(late_ns)));
        assert_eq!(outcomes(&run), [outcome]);
        assert_eq!(run.samples[0].service(), Some(ms(100)));
    }
}

#[test]
fn the_timeout_runs_from_the_send_and_not_from_the_due_time() {
    // Each request waits for the one before; 90 ms of service never reach 100 ms.
    let plan = Plan { timeout: ms(100), ..even_over(1, "100/s", ms(100)) };
    let run = simulate(plan, after(ms(90)));
    assert_eq!(outcomes(&run), [Outcome::Ok; 10]);
    assert_eq!(run.by_seq()[9].response(), ms(810));
}

/// 5 requests a second for 10 s, one connection, a server that takes 1 s, 5 s of drain.
fn overload() -> Run {
    simulate(even_over(1, "5/s", ms(10_000)), after(ms(1000)))
}

#[test]
fn a_backlog_is_still_sent_during_the_drain_and_the_rest_is_censored_at_its_end() {
    let run = overload();
    let counts = run.recorder.counts();
    assert_eq!((counts.due, counts.ok, counts.unfinished), (50, 15, 35));
    assert_eq!(run.finished, at_ms(15_000));
    // Of the unfinished, one had been sent the moment the fifteenth was answered.
    assert_eq!((counts.sent, counts.unfinished_unsent), (16, 34));
    assert_eq!((counts.sent_in_window, counts.answered_in_window), (10, 9));
    let total = run.recorder.total();
    let censored = |due_ms: u64| Some(Span::from_ms(15_000 - due_ms));
    assert_eq!(total.censored.count(), 35);
    assert_eq!((total.censored.max(), total.censored.min()), (censored(3_000), censored(9_800)));
    // All of them waited at the limit but the first, those cut off too.
    assert_eq!(counts.waited_for_connection, 49);
    assert_eq!(total.schedule_lag.max(), Some(Span::ZERO));
    assert_all_arrived(&run);
}

#[test]
fn without_a_backlog_the_run_ends_with_its_last_answer() {
    let run = simulate(even("10/s", ms(1000)), after(ms(250)));
    assert_eq!(run.finished, at_ms(1150));
    let run = simulate(even("10/s", ms(1000)), after(ms(10)));
    assert_eq!(run.finished, at_ms(1000), "the schedule lasts to its end");
}

#[test]
fn an_answer_at_the_very_end_of_the_drain_counts() {
    for (late_ns, outcome) in [(0, (1, 0)), (1, (0, 1))] {
        let plan = Plan { drain: ms(100), timeout: Span::MAX, ..even("1/s", ms(1000)) };
        let run = simulate(plan, after(ms(1100) + Span::from_ns(late_ns)));
        let counts = run.recorder.counts();
        assert_eq!((counts.ok, counts.unfinished), outcome);
        assert_eq!(run.finished, at_ms(1100));
    }
}

#[test]
fn a_warm_up_is_sent_and_counted_apart() {
    let wire = Wire { delay: ms(1), ..Wire::default() };
    for workers in [1, 3] {
        let plan = Plan { warmup: ms(1000), workers, ..even("10/s", ms(2000)) };
        let run = run(Simulation::new(plan, after(ms(150))).over(wire.clone()));
        let (warmup, measured) = (run.recorder.warmup(), run.recorder.counts());
        assert_eq!((warmup.due, measured.due), (10, 20));
        assert_eq!((warmup.attempts, measured.attempts), (10, 20));
        assert_eq!(run.world.requests(), 30, "the server's own count has both");
        // A request belongs to the phase it was due in, wherever its answer falls.
        for sample in &run.samples {
            let phase = if sample.due < at_ms(1000) { Phase::Warmup } else { Phase::Measure };
            assert_eq!(sample.phase, phase);
        }
        assert_eq!(count(&run, |s| s.phase == Phase::Warmup && s.end > at_ms(1000)), 1);
        assert_eq!(run.recorder.total().response_ok.count(), 20);
    }
}

#[test]
fn a_closed_loops_warm_up_is_counted_apart_too() {
    let plan = Plan { warmup: ms(100), ..closed(2, ms(200)) };
    let run = simulate(plan, after(ms(10)));
    // Both clients are due every 10 ms; what is due at 300 ms is not due any more.
    assert_eq!((run.recorder.warmup().due, run.recorder.counts().due), (20, 40));
    assert_eq!(run.world.requests(), all_counts(&run).attempts);
}

#[test]
fn a_count_of_a_closed_loop_is_without_its_warm_up() {
    let load = Load::Closed { clients: 2, duration: None, requests: Some(7) };
    let plan = Plan { warmup: ms(100), ..plimsoll_sim::plans::plan(load) };
    let run = simulate(plan, after(ms(10)));
    assert_eq!((run.recorder.warmup().due, run.recorder.counts().due), (20, 7));
}

#[test]
fn an_interrupt_stops_arrivals_and_waits_for_answers() {
    // Requests due up to 2.0 s stand; the last answer is the end.
    let plan = even("10/s", ms(10_000));
    let run = run(Simulation::new(plan, after(ms(100))).interrupt_at(at_ms(2_050)));
    assert_eq!((run.recorder.counts().due, run.recorder.counts().ok), (21, 21));
    assert_eq!(run.finished, at_ms(2_100));
}

#[test]
fn after_an_interrupt_answers_are_waited_for_one_second_and_no_longer() {
    for workers in [1, 2] {
        let plan = Plan { workers, ..even("10/s", ms(10_000)) };
        let run = run(Simulation::new(plan, silent()).interrupt_at(at_ms(2_050)));
        assert_eq!((run.recorder.counts().due, run.recorder.counts().unfinished), (21, 21));
        assert_eq!(run.finished, at_ms(3_050));
    }
}

#[test]
fn a_schedule_that_its_watcher_ends_has_the_whole_drain() {
    for workers in [1, 2] {
        let plan = Plan { workers, ..even("10/s", ms(10_000)) };
        // Answers take longer than an interrupted run would wait for them.
        let run = run(Simulation::new(plan, after(ms(3_000))).enough_at(at_ms(2_050)));
        assert_eq!((run.recorder.counts().due, run.recorder.counts().ok), (21, 21));
        assert_eq!(run.finished, at_ms(5_000));
    }
}

#[test]
fn a_second_interrupt_leaves_at_once() {
    let simulation = Simulation::new(even("10/s", ms(10_000)), silent());
    let run = run(simulation.interrupt_at(at_ms(2_050)).interrupt_at(at_ms(2_500)));
    assert_eq!((run.recorder.counts().unfinished, run.finished), (21, at_ms(2_500)));
}

#[test]
fn an_interrupt_ends_a_closed_loop_with_its_present_requests() {
    let simulation = Simulation::new(closed(3, ms(10_000)), after(ms(40)));
    let run = run(simulation.interrupt_at(at_ms(100)));
    // Due at 0, 40 and 80 ms; answered at 120 ms, when nobody goes on.
    assert_eq!((run.recorder.counts().due, run.recorder.counts().ok), (9, 9));
    assert_eq!(run.finished, at_ms(120));
}

#[test]
fn an_interrupt_keeps_the_backlog_that_was_due() {
    let plan = even_over(1, "100/s", ms(10_000));
    let run = run(Simulation::new(plan, after(ms(100))).interrupt_at(at_ms(1_000)));
    // 100 requests were due before the interrupt; ten were answered by then, ten more in a second.
    let counts = run.recorder.counts();
    assert_eq!((counts.due, counts.ok, counts.unfinished), (100, 20, 80));
    assert_eq!(run.finished, at_ms(2_000));
}

#[test]
fn an_interrupt_of_the_warm_up_leaves_nothing_measured() {
    let plan = Plan { warmup: ms(1_000), ..even("10/s", ms(1_000)) };
    let run = run(Simulation::new(plan, after(ms(10))).interrupt_at(at_ms(500)));
    assert_eq!((run.recorder.warmup().due, run.recorder.counts().due), (5, 0));
    assert_eq!(run.finished, at_ms(500));
}

#[test]
fn connections_of_a_closed_loop_are_opened_before_the_clock_starts() {
    let wire = Wire { delay: ms(500), ..Wire::default() };
    let server = Answers(|now, connection, net: &mut Net| net.send(now, connection, OK));
    let run = run(Simulation::new(closed(5, ms(3_000)), server).over(wire));
    assert_eq!((run.opened_ahead, run.world.connections()), (5, 5));
    assert_eq!(count(&run, |sample| sample.blocked() > Span::ZERO), 0);
    assert_eq!(run.recorder.counts().due, 15, "a request takes one second for each client");
}

/// A trial that may take a minute ends when its rate is known well enough, which windows of a second would
/// not tell before 10 s.
#[test]
fn a_run_of_a_minute_that_is_ended_after_2_s_has_intervals() {
    let simulation = Simulation::new(even("200/s", ms(60_000)), after(ms(3))).interrupt_at(at_ms(2_000));
    let run = run(simulation);
    let series = plimsoll_stats::Series::new(run.recorder.windows(), ms(2_000));
    let rate = series.achieved_per_s().unwrap();
    assert!((rate.mean - 200.0).abs() < 5.0 && rate.batches >= 10.0, "{rate:?}");
    assert!(series.mean_response().is_some());
}
