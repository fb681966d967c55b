//! `capacity` and `profile` against servers whose limits are known.

use std::net::TcpListener;
use std::time::Duration;

use plimsoll_report::ProfileV1;
use plimsoll_report::model::ObjectiveStatus;
use plimsoll_report::profile::{Part, TrialV1};
use plimsoll_target::TargetConfig;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::eventually;
use crate::common::postgres::{Postgres, Setup};
use crate::common::program::{Finished, Running, plimsoll};
use crate::common::scripted::{OK, Scripted};
use crate::{read, target, url};

const SCHEMA: &str = include_str!("../../../../docs/schema/plimsoll-profile-1.json");

fn start(arguments: &[&str]) -> Running {
    Running::start(plimsoll().args(arguments))
}

/// The result on standard output, held to its schema and to what holds of every search.
fn result(finished: &Finished) -> ProfileV1 {
    let json: Value = serde_json::from_str(&finished.stdout)
        .unwrap_or_else(|error| panic!("the result is not JSON ({error}): {finished:?}"));
    let schema: Value = serde_json::from_str(SCHEMA).expect("the checked-in schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the checked-in schema is one");
    let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let profile: ProfileV1 = serde_json::from_value(json).expect("a result of the format");
    for trial in &profile.trials {
        assert_eq!(trial.used, trial.reason.is_none(), "{trial:?}");
        assert!(trial.response_ns.is_some() || trial.answered == 0, "{trial:?}");
    }
    profile
}

fn of(profile: &ProfileV1, part: Part) -> Vec<&TrialV1> {
    profile.trials.iter().filter(|trial| trial.part == part).collect()
}

#[test]
fn the_peak_of_a_server_of_500_a_second_is_that_and_is_measured_twice() {
    let server = target(TargetConfig { service: read("fixed:2ms"), ..TargetConfig::default() });
    let finished = start(&["capacity", &url(&server), "--json", "--trial", "500ms..1s"]).finish();
    let profile = result(&finished);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let clients: Vec<u64> = of(&profile, Part::Sweep).iter().filter_map(|trial| trial.clients).collect();
    assert!(clients.windows(2).all(|pair| pair[1] == 2 * pair[0]) && clients[0] == 1, "{clients:?}");
    let peak = profile.peak.clone().expect("a peak");
    // The server cannot do more; answers that were ready when the window began are in it.
    assert!((100.0..=510.0).contains(&peak.rate_per_s), "{peak:?}");
    assert!(peak.low.is_none_or(|low| low <= 510.0), "{peak:?}");
    let again = of(&profile, Part::PeakAgain);
    assert_eq!((again.len(), again[0].clients), (1, Some(peak.clients)));
    assert_eq!(again[0].rates.achieved_per_s, Some(peak.rate_per_s));
    // Nothing of it is sent in an open loop.
    assert!(profile.capacity_at_objective.is_none() && of(&profile, Part::Curve).is_empty());
}

#[test]
fn the_rate_that_meets_an_objective_lies_below_what_the_queue_allows() {
    // M/M/1 with μ = 500/s: p99 < 20 ms up to λ = μ − ln(100)/20 ms = 270/s. At 450/s it is 92 ms.
    let server = target(TargetConfig { service: read("exp:2ms"), ..TargetConfig::default() });
    let finished = start(
        &[
            &["profile", &url(&server), "--json", "--peak", "500", "--at", "20,90", "--step", "1s..2s"][..],
            &["--slo", "p99 < 20ms"],
        ]
        .concat(),
    )
    .finish();
    let profile = result(&finished);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(profile.peak.is_none() && of(&profile, Part::Sweep).is_empty());
    let curve: Vec<f64> = of(&profile, Part::Curve).iter().filter_map(|trial| trial.rate_per_s).collect();
    assert_eq!(curve, [100.0, 450.0]);
    let capacity = profile.capacity_at_objective.clone().expect("it was asked for");
    assert_eq!(capacity.objective, "p99 < 20ms");
    // Each bound is a rate that was tried, with the answer that makes it a bound.
    let tried = |rate: f64, status: ObjectiveStatus| {
        profile.trials.iter().any(|t| t.rate_per_s == Some(rate) && t.objectives[0].status == status)
    };
    assert!(capacity.low.is_none_or(|low| low < 450.0 && tried(low, ObjectiveStatus::Pass)), "{capacity:?}");
    if let (Some(low), Some(high)) = (capacity.low, capacity.high) {
        assert!(low < high && !tried(high, ObjectiveStatus::Pass), "{capacity:?}");
    }
    assert!(!capacity.high_is_peak, "a peak that was given is not one that was found");
}

#[test]
fn a_database_is_swept_up_to_its_max_connections() {
    // pg_sleep makes each client add to the rate until there is no place for a further one.
    let lines = "max_connections = 8\nsuperuser_reserved_connections = 1";
    let server = Postgres::start(&Setup { lines, ..Setup::default() });
    let flags = ["--json", "--trial", "500ms", "--sql", "SELECT pg_sleep(0.01)"];
    let finished = start(&[&["capacity", &server.url()][..], &flags].concat()).finish();
    let profile = result(&finished);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let refused = profile.trials.iter().find_map(|trial| trial.reason.clone()).unwrap_or_default();
    assert!(refused.contains("connections stand") && refused.contains("too many"), "{refused}");
    let peak = profile.peak.expect("a peak");
    assert_eq!(peak.limited_by, "connections", "{peak:?}");
    assert!(peak.connections_established.is_some_and(|n| n <= 8) && peak.clients <= 8, "{peak:?}");
}

#[test]
fn an_interrupt_keeps_every_trial_that_was_made() {
    let server = Scripted::start(|peer| {
        while peer.request().is_some() {
            std::thread::sleep(Duration::from_millis(5));
            peer.send(OK);
        }
    });
    let directory = tempfile::tempdir().expect("a directory");
    let text = directory.path().join("result.txt");
    let text_path = text.to_str().expect("UTF-8");
    let running = start(&["capacity", &server.url("/"), "--json", "--trial", "400ms", "-o", text_path]);
    // One connection for the first trial, two for the second, four for the third.
    eventually("a third trial", || server.connections() >= 4);
    running.signal(Signal::INT);
    let finished = running.finish();
    let profile = result(&finished);
    assert_eq!((finished.code, profile.interrupted), (Some(130), true), "{finished:?}");
    let used: Vec<u64> = profile.trials.iter().filter(|t| t.used).filter_map(|t| t.clients).collect();
    assert!(used.starts_with(&[1, 2]), "{used:?}");
    let peak = profile.peak.expect("the best so far");
    assert!(!peak.confirmed && peak.limited_by == "none", "{peak:?}");
    let text = std::fs::read_to_string(text).expect("it was written");
    assert!(text.contains("Interrupted. What had been measured until then:"), "{text}");
}

#[test]
fn where_nobody_listens_nothing_is_measured_and_the_reason_is_given() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    drop(listener);
    for command in ["capacity", "profile"] {
        let finished = start(&[command, &url, "--json"]).finish();
        let profile = result(&finished);
        assert_eq!(finished.code, Some(4), "{finished:?}");
        assert_eq!((profile.trials.len(), profile.peak), (1, None));
        let reason = profile.trials[0].reason.clone().unwrap_or_default();
        assert!(reason.starts_with("no request was answered") && reason.contains("refused"), "{reason}");
        let said = start(&[command, &url]).finish();
        assert!(said.stdout.contains("refused") && said.code == Some(4), "{said:?}");
    }
}

#[test]
fn rows_come_before_the_conclusion_and_a_file_has_the_conclusion_first() {
    let server = target(TargetConfig { service: read("fixed:2ms"), ..TargetConfig::default() });
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("result.txt");
    let path = file.to_str().expect("UTF-8");
    let flags = ["--trial", "200ms", "--max-clients", "2", "-o", path];
    let said = start(&[&["capacity", &url(&server)][..], &flags].concat()).finish();
    let written = std::fs::read_to_string(&file).expect("it was written");
    let places = |text: &str| (text.find("\nclients  "), text.find("\npeak  "));
    for (text, conclusion_first) in [(&said.stdout, false), (&written, true)] {
        let (Some(rows), Some(peak)) = places(text) else { panic!("{text}") };
        assert_eq!(peak < rows, conclusion_first, "{text}");
        assert!(text.contains("with 2 clients") || text.contains("with 1 client"), "{text}");
    }
    assert_eq!(said.stderr, "");
}

#[test]
fn faults_of_a_search_are_told_all_at_once() {
    for (flag, value, remedy) in [
        ("--trial", "5s..2s", "has the longer time first; give 2s..10s"),
        ("--trial", "0", "leaves no time to measure anything"),
        ("--trial", "soon", "is not a time"),
        ("--max-clients", "0", "give a whole number from 1 to"),
        ("--step", "1s..", "is not a time"),
        ("--at", "10,none", "'none' is not a percentage"),
        ("--at", "0", "'0' is not a percentage"),
        ("--peak", "0", "is not a rate above zero"),
        ("--slo", "p99 > 1s", "compares the wrong way"),
        ("--arrivals", "often", "often"),
        ("--timeout", "soon", "--timeout soon"),
    ] {
        let finished = start(&["profile", "http://127.0.0.1:9/", flag, value]).finish();
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(finished.stderr.contains(flag) && finished.stderr.contains(remedy), "{}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    }
    let several = start(&["capacity", "ftp://h/", "--trial", "x", "--max-clients", "y"]).finish();
    assert_eq!((several.code, several.stderr.lines().count()), (Some(2), 3), "{}", several.stderr);
}

#[test]
fn answers_slower_than_an_interrupts_drain_are_waited_for_whenever_a_step_ends() {
    let service = "fixed:1500ms";
    let server =
        target(TargetConfig { service: read(service), workers: read("inf"), ..TargetConfig::default() });
    // Most machines know enough after some seconds; one that does not takes all of them.
    let flags = ["--json", "--peak", "1000", "--at", "100", "--arrivals", "even", "--step", "1s..8s"];
    let finished = start(&[&["profile", &url(&server)][..], &flags].concat()).finish();
    let profile = result(&finished);
    let [step] = of(&profile, Part::Curve)[..] else { panic!("one step: {finished:?}") };
    assert_eq!(step.success_ratio, Some(1.0), "{step:?}");
}

#[test]
fn a_server_slower_than_a_trial_is_told_so() {
    let server = target(TargetConfig { service: read("fixed:1500ms"), ..TargetConfig::default() });
    let finished = start(&["capacity", &url(&server), "--json", "--trial", "700ms"]).finish();
    let profile = result(&finished);
    assert!(profile.peak.is_none(), "{profile:?}");
    let reason = profile.trials[0].reason.clone().unwrap_or_default();
    assert!(reason.contains("give longer ones"), "{reason}");
}
