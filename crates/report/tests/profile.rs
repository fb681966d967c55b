//! The result of a search for limits: made of runs made by hand, held to its schema, and as it looks.

mod common;

use std::path::{Path, PathBuf};

use plimsoll_core::{Outcome, Plan, Span};
use plimsoll_report::format::number;
use plimsoll_report::model::{Trust, Verdict};
use plimsoll_report::profile::{Findings, Part, ProfilePlan, text};
use plimsoll_report::{ProfileV1, RunV1, TrialV1};
use plimsoll_stats::search::{self, Figure, PeakSearch, RateBounds, RateSearch, RateTrial, Stop};
use plimsoll_stats::{ConnectionFacts, Interval};
use serde_json::Value;

/// The service of the server these results are of; one request at a time, and 100 µs to it and back.
const SERVICE: Span = Span::from_ms(2);
const WAY: Span = Span::from_us(100);
const WINDOW: Span = Span::from_secs(2);

fn run_of(plan: &Plan, requests: impl Iterator<Item = (Span, Span)>, wanted: Option<u64>) -> RunV1 {
    let mut recorder = common::recorder(plan, WINDOW);
    for (due, response) in requests {
        common::record(&mut recorder, common::sample(due, Span::ZERO, response, Outcome::Ok));
    }
    let mut facts = common::facts(WINDOW);
    facts.connections = ConnectionFacts { wanted, established: wanted.unwrap_or(0), peak: 1, opened: 1 };
    let objectives = ["p99 < 20ms".parse().unwrap()];
    RunV1::new(plan, &facts, &recorder, &common::QUANTILES, &objectives)
}

/// A closed loop: each client waits for its turn.
fn closed(clients: u32) -> RunV1 {
    let plan = common::closed_plan(clients, WINDOW);
    let alone = SERVICE + WAY;
    let response = if clients == 1 { alone } else { Span::from_ns(SERVICE.as_ns() * u64::from(clients)) };
    let turns = WINDOW.as_ns() / response.as_ns();
    let requests = (0..turns)
        .flat_map(|turn| (0..clients).map(move |_| (Span::from_ns(turn * response.as_ns()), response)));
    let mut run = run_of(&plan, requests, Some(clients.into()));
    let rate = run.rates.achieved_per_s.unwrap();
    run.rates.achieved_interval_per_s = Some(plimsoll_report::model::Interval {
        low: rate * 0.99,
        high: rate * 1.01,
        level_ratio: 0.95,
        method: "by hand".to_owned(),
    });
    run
}

/// An open loop: one in fifty waits for as long as `longest`.
fn open(rate: u64, longest: Span) -> RunV1 {
    let plan = common::open_plan(rate, WINDOW);
    let count = rate * 2;
    let requests = (0..count).map(|i| {
        let response = if i % 50 == 0 { longest } else { SERVICE + WAY };
        (Span::from_ns(i * WINDOW.as_ns() / count), response)
    });
    run_of(&plan, requests, None)
}

fn plan(command: &str, objectives: &[&str]) -> ProfilePlan {
    let first = closed(1);
    ProfilePlan {
        command: command.to_owned(),
        operations: first.plan.operations,
        clients_max: Some(1_024),
        trial_least_ns: Span::from_secs(2).as_ns(),
        trial_most_ns: Span::from_secs(10).as_ns(),
        rate_precision_ratio: 0.02,
        peak_given_per_s: None,
        fractions_ratio: vec![0.25, 0.5, 0.75, 0.9],
        step_least_ns: Some(Span::from_secs(5).as_ns()),
        step_most_ns: Some(Span::from_secs(30).as_ns()),
        p99_precision_ratio: Some(0.1),
        arrivals: Some("poisson".to_owned()),
        objectives: objectives.iter().map(|text| (*text).to_owned()).collect(),
        warmup_ns: 0,
        timeout_ns: Some(Span::from_secs(5).as_ns()),
        seed: 1,
    }
}

fn published(findings: Findings) -> ProfileV1 {
    ProfileV1::new(findings, &closed(1))
}

/// The sweep against `server`.
fn sweep(server: impl Fn(u32) -> RunV1) -> (Vec<TrialV1>, Option<search::Peak>) {
    let (mut search, mut trials) = (PeakSearch::new(1_024), Vec::new());
    while let Some(step) = search.next() {
        let run = server(step.clients);
        let part = if step.again { Part::PeakAgain } else { Part::Sweep };
        let trial = TrialV1::new(part, &run, None);
        search.record(trial.peak_trial(&run));
        trials.push(trial);
    }
    (trials, search.answer())
}

fn findings(plan: ProfilePlan, trials: Vec<TrialV1>, peak: Option<search::Peak>) -> Findings {
    Findings {
        plan,
        elapsed: Span::from_secs(60),
        interrupted: false,
        trials,
        peak,
        bounds: None,
        notes: Vec::new(),
    }
}

fn capacity() -> ProfileV1 {
    let (trials, peak) = sweep(closed);
    let mut plan = plan("capacity", &[]);
    (plan.arrivals, plan.step_least_ns, plan.step_most_ns, plan.p99_precision_ratio) =
        (None, None, None, None);
    plan.fractions_ratio = Vec::new();
    published(findings(plan, trials, peak))
}

/// p99 by rate: it passes 20 ms between 375/s and 450/s.
fn longest(rate: u64) -> Span {
    Span::from_us(1_000_000 / (510 - rate.min(500)))
}

fn profile() -> ProfileV1 {
    let (mut trials, peak) = sweep(closed);
    let mut search = RateSearch::new(250.0, Some(500.0), Span::from_secs(2), Span::from_secs(8));
    for fraction in [0.25, 0.5, 0.75, 0.9] {
        let rate = (fraction * 500.0) as u64;
        let run = open(rate, longest(rate));
        let trial = TrialV1::new(Part::Curve, &run, Some(fraction));
        let verdict = trial.verdict(&run).unwrap();
        search.know(RateTrial { rate_per_s: rate as f64, length: WINDOW, verdict });
        trials.push(trial);
    }
    while let Some(step) = search.next() {
        let run = open(step.rate_per_s as u64, longest(step.rate_per_s as u64));
        let trial = TrialV1::new(Part::Objective, &run, Some(step.rate_per_s / 500.0));
        let verdict = trial.verdict(&run).unwrap();
        search.record(RateTrial { rate_per_s: step.rate_per_s, length: step.length, verdict });
        trials.push(trial);
    }
    let bounds = Some(search.answer());
    published(Findings { bounds, ..findings(plan("profile", &["p99 < 20ms"]), trials, peak) })
}

/// Nobody listens.
fn refused() -> ProfileV1 {
    let run = common::refused();
    let trials = vec![TrialV1::new(Part::Sweep, &run, None)];
    published(findings(plan("capacity", &[]), trials, None))
}

fn generator_limited() -> Trust {
    Trust { verdict: Verdict::Invalid, limited_by: "generator".to_owned(), checks: Vec::new() }
}

/// The generator was the limit all the time, and then an interrupt came.
fn limited() -> ProfileV1 {
    let (trials, _) = sweep(|clients| {
        let mut run = closed(clients);
        run.trust = Some(generator_limited());
        run
    });
    let rate_per_s = Figure { value: 500.0, interval: None };
    let peak = search::Peak {
        clients: 2,
        rate_per_s,
        is_lower_bound: true,
        confirmed: false,
        stop: Stop::Interrupted,
    };
    published(Findings { interrupted: true, ..findings(plan("capacity", &[]), trials, Some(peak)) })
}

fn all() -> [(&'static str, ProfileV1); 4] {
    [("capacity", capacity()), ("profile", profile()), ("nobody", refused()), ("limited", limited())]
}

fn schema_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/plimsoll-profile-1.json")
}

/// `UPDATE_SCHEMA=1` writes it anew. Whoever does looks at the difference: nothing may go, change its meaning
/// or become narrower.
#[test]
fn the_published_schema_of_profiles_is_the_one_of_the_types() {
    let mut schema = serde_json::to_string_pretty(&ProfileV1::schema()).unwrap();
    schema.push('\n');
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(schema_path(), &schema).unwrap();
    }
    let published = std::fs::read_to_string(schema_path()).unwrap_or_default();
    assert!(published == schema, "docs/schema differs from the types; UPDATE_SCHEMA=1 writes it anew");
}

#[test]
fn profiles_hold_to_the_schema_and_load_again() {
    let validator = jsonschema::validator_for(&ProfileV1::schema()).unwrap();
    for (name, profile) in all() {
        let json: Value = serde_json::from_str(&profile.to_json()).unwrap();
        let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        assert_eq!(serde_json::from_value::<ProfileV1>(json).unwrap(), profile, "{name}");
    }
}

/// `UPDATE_GOLDEN=1` writes them anew.
#[test]
fn profiles_look_as_agreed_and_fit_eighty_columns() {
    for (name, profile) in all() {
        let shown = text::render(&profile)
            .replace(&format!("plimsoll {}", env!("CARGO_PKG_VERSION")), "plimsoll VERSION");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/profile/{name}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &shown).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(shown, expected, "{} differs; UPDATE_GOLDEN=1 accepts it", path.display());
        // What a server or a machine said of itself is not cut in warnings.
        for line in shown.lines().filter(|line| !line.starts_with("    ")) {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}

#[test]
fn the_peak_is_of_the_trial_that_was_run_again() {
    let profile = capacity();
    let peak = profile.peak.unwrap();
    // One client does 1 ÷ 2.1 ms, two keep the server busy: 5 % more.
    assert_eq!((peak.clients, peak.limited_by.as_str()), (2, "server"));
    // Two answers come in the very moment the window ends.
    assert_eq!(peak.rate_per_s, 499.0);
    assert!(peak.confirmed && !peak.is_lower_bound);
    let clients: Vec<u64> = profile.trials.iter().filter_map(|trial| trial.clients).collect();
    assert_eq!(clients, [1, 2, 4, 8, 2]);
    assert!(profile.trials.iter().all(|trial| trial.used));
    // Little's law, from both sides.
    for trial in &profile.trials {
        let (law, mean) = (trial.clients_over_rate_ns.unwrap(), trial.response_ns.as_ref().unwrap().mean);
        assert!((law / mean - 1.0).abs() < 0.01, "{law} {mean}");
    }
}

#[test]
fn the_objective_has_two_bounds_that_rest_on_trials() {
    let profile = profile();
    let capacity = profile.capacity_at_objective.clone().unwrap();
    let (low, high) = (capacity.low.unwrap(), capacity.high.unwrap());
    // 1 s/1000 ÷ (510 − r) = 20 ms at r = 460.
    assert!(low < 460.0 && high >= 460.0 && high <= low * 1.02, "{capacity:?}");
    assert!(!capacity.high_is_peak && capacity.complete);
    for bound in [low, high] {
        let trial = profile.trials.iter().any(|t| t.rate_per_s.is_some_and(|r| (r - bound).abs() < 1.0));
        assert!(trial, "no trial at {bound}");
    }
}

#[test]
fn the_reference_is_of_one_server_that_is_never_idle_at_the_peak() {
    let references = profile().references.unwrap();
    assert_eq!(references.law, "M/D/1");
    // The peak is 499/s, and one client waits 2.1 ms.
    assert!((references.service_mean_ns - 1e9 / 499.0).abs() < 1.0, "{references:?}");
    assert!((references.service_mean_ns + references.way_ns - 2.1e6).abs() < 1.0, "{references:?}");
    // P–K at about half load: 2 ms + 0.5 · 2 ms ÷ (2 · 0.5) = 3 ms, and the way.
    // From 99.9 % of the peak on the curve would hang on the peak's error.
    assert!(references.at(0.998 * 499.0).is_some());
    assert_eq!(references.at(0.9991 * 499.0), None);
    let half = references.points.iter().find(|point| point.rate_per_s == 250.0).unwrap();
    assert!((half.mean_ns - 3.1e6).abs() < 1e4, "{half:?}");
    // A server of several workers has none: one client sees far more than 1 ÷ peak.
    let (trials, _) = sweep(closed);
    let several = search::Peak {
        clients: 8,
        rate_per_s: Figure { value: 2_000.0, interval: Some(Interval { low: 1_990.0, high: 2_010.0 }) },
        is_lower_bound: false,
        confirmed: true,
        stop: Stop::Plateau,
    };
    assert_eq!(published(findings(plan("profile", &[]), trials, Some(several))).references, None);
}

#[test]
fn a_trial_that_cannot_be_used_says_why_and_the_others_stay() {
    let connections = |established: u64| {
        let mut run = closed(4);
        run.connections.wanted = Some(4);
        run.connections.established = established;
        run
    };
    let mut failing = closed(4);
    failing.success_ratio = Some(0.5);
    failing.errors = [("status_503".to_owned(), 9)].into();
    failing.error_texts = [("status_503".to_owned(), "503 Service Unavailable".to_owned())].into();
    let mut interrupted = closed(4);
    interrupted.interrupted = true;
    let mut busy = closed(4);
    busy.trust = Some(generator_limited());
    for (run, reason) in [
        (connections(3), "the server let 3 of 4 connections stand"),
        (failing, "only 50 % of the requests succeeded: 503 Service Unavailable"),
        (interrupted, "it was interrupted"),
        (busy, "the generator was the limit"),
        (common::refused(), "no request was answered: 127.0.0.1:8080: connection refused (os error 111)"),
    ] {
        let trial = TrialV1::new(Part::Sweep, &run, None);
        assert_eq!((trial.used, trial.reason.as_deref()), (false, Some(reason)));
    }
    assert!(TrialV1::new(Part::Sweep, &connections(4), None).used);
}

#[test]
fn the_law_is_fitted_from_six_points_on() {
    assert_eq!(capacity().fits.universal_scalability, None);
    // 100/s for a client, a tenth of it lost by contention, up to 64 clients.
    let law = |n: f64| 100.0 * n / (1.0 + 0.1 * (n - 1.0));
    let trials = [1u32, 2, 4, 8, 16, 32, 64].map(|clients| {
        let mut run = closed(clients);
        run.rates.achieved_per_s = Some(law(clients.into()));
        TrialV1::new(Part::Sweep, &run, None)
    });
    let fit = published(findings(plan("capacity", &[]), trials.to_vec(), None)).fits.universal_scalability;
    let fit = fit.unwrap();
    assert!((fit.sigma - 0.1).abs() < 1e-6 && fit.points == 7, "{fit:?}");
    let shown = number(fit.lambda_per_s);
    assert_eq!(shown, "100");
}

#[test]
fn what_is_not_known_of_an_objective_is_said() {
    let with = |bounds: RateBounds| {
        let (trials, peak) = sweep(closed);
        let findings = findings(plan("profile", &["p99 < 20ms"]), trials, peak);
        text::render(&published(Findings { bounds: Some(bounds), ..findings }))
    };
    let bounds = RateBounds { complete: true, ..RateBounds::default() };
    for (bounds, said) in [
        (RateBounds { low_per_s: Some(499.0), ..bounds }, "above the peak of the sweep no rate was tried"),
        (RateBounds { low_per_s: None, ..bounds }, "met at no rate that was tried\n"),
        (RateBounds { high_per_s: Some(5.0), ..bounds }, "met at no rate that was tried, missed from 5/s on"),
        (RateBounds { low_per_s: Some(100.0), generator_per_s: Some(110.0), ..bounds }, "≥ 100/s"),
        (
            RateBounds { low_per_s: Some(100.0), generator_per_s: Some(110.0), ..bounds },
            "from 110/s on the gen",
        ),
        (
            RateBounds { undecided_per_s: Some((90.0, 95.0)), ..bounds },
            "from 90/s to 95/s the longest trials",
        ),
        (RateBounds { complete: false, ..bounds }, "the search did not end"),
    ] {
        let shown = with(bounds);
        assert!(shown.contains(said), "{said} is missing in\n{shown}");
    }
}
