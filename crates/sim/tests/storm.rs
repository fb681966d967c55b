//! Fault storms: random plans against servers that do everything wrong, over wires that cut
//! everything up, on machines that wake late. Whatever happens, the account is conserved, every
//! request ends once, the run ends in time, and a seed replays exactly.
//!
//! A failure names its seed; `storm(seed)` runs it again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use plimsoll_core::dispatch::Action;
use plimsoll_core::plan::{LatePolicy, Load, Plan};
use plimsoll_core::share::{Share, Times, dispatcher};
use plimsoll_core::{Span, Timestamp};
use plimsoll_sim::chaos::{Facts, simulation};
use plimsoll_sim::testing::{all_counts, assert_laws};
use plimsoll_sim::{Run, Wire};

const SEEDS: u64 = if cfg!(feature = "long") { 30_000 } else { 3_000 };
/// What the readings of the clock may add to a run's end.
const READINGS: Span = Span::from_ms(2);

fn storm(seed: u64) -> Run {
    let (simulation, facts) = simulation(seed);
    let (plan, wire) = (simulation.plan.clone(), simulation.wire.clone());
    let run = simulation.run();
    assert_laws(&plan, &run);
    let counts = all_counts(&run);
    if !facts.unasked_bytes {
        assert!(run.world.requests() >= counts.answered, "answers without requests: {counts:?}");
    }
    if let Some(most) = plan.max_in_flight {
        assert!(run.recorder.in_flight_max() <= most);
    }
    assert_ends_in_time(&plan, &run, facts);
    if let (Load::Open { .. }, None) = (&plan.load, facts.interrupt) {
        assert_eq!(counts.due, scheduled(&plan), "what is due does not depend on workers or the server");
    }
    if facts.late.is_zero() && wire.reading.is_zero() {
        assert_a_punctual_machine_keeps_all_limits(&plan, &run, &wire);
    }
    run
}

fn assert_ends_in_time(plan: &Plan, run: &Run, facts: Facts) {
    let mut end = Times::of(plan).end.saturating_add(plan.drain);
    if let Some(at) = facts.interrupt {
        end = end.min(at.saturating_add(plan.drain.min(Span::from_secs(1))));
    }
    let end = end.saturating_add(facts.late).saturating_add(READINGS);
    assert!(run.finished <= end, "finished at {:?}, which is after {end:?}", run.finished);
}

/// How many requests the schedule has, the warm-up's included.
fn scheduled(plan: &Plan) -> u64 {
    let mut dispatcher = dispatcher(plan, Share::WHOLE);
    std::iter::from_fn(|| matches!(dispatcher.poll(Timestamp::MAX), Action::Send(_)).then_some(())).count()
        as u64
}

fn assert_a_punctual_machine_keeps_all_limits(plan: &Plan, run: &Run, wire: &Wire) {
    for sample in &run.samples {
        assert!(!wire.stamps || sample.read_lag().unwrap_or(Span::ZERO).is_zero(), "{sample:?}");
        if let (LatePolicy::Skip(within), Some(sent)) = (plan.late, sample.sent) {
            assert!(sent.since(sample.due) <= within, "{sample:?}");
        }
        if plan.retry.is_none() && plan.timeout != Span::MAX {
            assert!(sample.service().unwrap_or(Span::ZERO) <= plan.timeout, "{sample:?}");
        }
        // The first sends of a burst go out at once; 64 of them make a turn, and none takes time here.
        assert_eq!(sample.schedule_lag(), Span::ZERO, "{sample:?}");
    }
}

#[test]
fn no_storm_loses_a_request_or_lasts_too_long() {
    for seed in 0..SEEDS {
        let failed = catch_unwind(AssertUnwindSafe(|| storm(seed))).is_err();
        assert!(!failed, "the storm of seed {seed} broke a law, see above");
    }
}

#[test]
fn a_storm_replays_exactly() {
    for seed in 0..SEEDS / 10 {
        let (one, two) = (storm(seed), storm(seed));
        assert_eq!(one.samples, two.samples, "seed {seed}");
        assert_eq!(one.recorder.counts(), two.recorder.counts(), "seed {seed}");
        assert_eq!((one.finished, one.connections), (two.finished, two.connections), "seed {seed}");
    }
}

#[test]
fn storms_meet_every_kind_of_end() {
    // A storm that only blows mildly would prove nothing.
    let mut all = plimsoll_stats::Counts::default();
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let run = storm(seed);
        all.merge(&all_counts(&run));
        kinds.extend(run.recorder.total().failures.iter().map(|(failure, _)| failure.to_string()));
    }
    let ends =
        [all.ok, all.timed_out, all.unfinished_unsent, all.failed_unsent, all.dropped[0], all.dropped[1]];
    assert!(ends.iter().all(|count| *count > 100), "{all:?}");
    assert!(all.unfinished > all.unfinished_unsent && all.attempts > all.sent, "{all:?}");
    for kind in
        ["connect_refused", "connect_timeout", "reset", "closed_before_response", "closed_in_response"]
    {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
    assert!(kinds.contains("status_503") && kinds.contains("protocol_too_many_interim_heads"), "{kinds:?}");
}
