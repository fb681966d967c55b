//! Cases of overload, end to end.

use plimsoll_target::TargetConfig;

use crate::common::program::{measure, run};
use crate::common::scripted::BlackHole;
use crate::{read, target, url};

#[test]
fn ovl_03_dropped_requests_are_counted_told_once_and_can_fail_a_gate() {
    let server = target(TargetConfig { service: read("fixed:500ms"), ..TargetConfig::default() });
    let load = ["-r", "100", "--arrivals", "even", "-z", "2s", "--max-in-flight", "1"];
    let slo = ["--slo", "rate >= 95%"];
    let measured = measure(&url(&server), &[&load[..], &slo].concat());
    let dropped = measured.counts.dropped["max_in_flight"];
    // A request takes 500 ms, so at most five begin in 2 s.
    assert!((195..200).contains(&dropped), "{dropped}");
    assert_eq!(measured.counts.due, 200);
    assert_eq!(measured.code(), 1);
    assert!(measured.warning_names().contains(&"dropped"));
    assert_eq!(server.truth().expect("it runs").arrivals, measured.attempts());

    let said = run(&[&[&url(&server)[..]], &load[..], &slo].concat());
    assert!(said.stderr.lines().count() <= 5, "{}", said.stderr);
    let line = said.stdout.lines().find(|line| line.contains(" dropped")).expect("it is told");
    let told = (195..200).any(|n| line.contains(&format!("{n} dropped")));
    assert!(told && said.code == Some(1), "{}", said.stdout);
    // Without the gate a lower load than asked for is a finding, not an error.
    assert_eq!(run(&[&[&url(&server)[..]], &load[..]].concat()).code, Some(0));
}

#[test]
fn ovl_13_connects_that_hang_do_not_hold_up_the_schedule() {
    let hole = BlackHole::full();
    let address = format!("http://{}/", hole.address());
    let run =
        measure(&address, &["-r", "100", "--arrivals", "even", "-z", "1s", "--connect-timeout", "500ms"]);
    assert_eq!((run.counts.due, run.errors("connect_timeout")), (100, 100));
    assert_eq!((run.counts.failed_unsent, run.counts.sent, run.code()), (100, 0, 4));
    let failed = run.response_failed_ns.as_ref().expect("all of them");
    assert!(failed.min >= 500_000_000);
}

#[test]
fn ovl_14_a_run_ends_whatever_its_backlog() {
    let server = target(TargetConfig { service: read("fixed:1s"), ..TargetConfig::default() });
    let load = ["-r", "100000", "--arrivals", "even", "-z", "1s", "--drain", "500ms", "--connections", "50"];
    let run = measure(&url(&server), &load);
    assert_eq!(run.counts.due, 100_000);
    assert!(run.counts.unfinished > 99_000 && run.counts.sent <= 100, "{:?}", run.counts);
    assert!(run.elapsed_ns >= 1_500_000_000);
    assert_eq!(server.truth().expect("it runs").arrivals, run.attempts());
    assert!(run.warning_names().contains(&"unfinished"));
}

#[test]
fn pct_07_percentiles_are_those_asked_for_under_their_own_names() {
    let server = target(TargetConfig::default());
    let load = ["-c", "1", "-n", "200", "--percentiles", "50,99,99.9,99.99,99.999"];
    let measured = measure(&url(&server), &load);
    let names = ["p50", "p99", "p99_9", "p99_99", "p99_999"];
    assert_eq!(measured.plan.percentiles, names);
    let response = measured.response_ns.as_ref().expect("answers");
    let named: Vec<&str> = response.percentiles.keys().map(String::as_str).collect();
    assert!(names.iter().all(|name| named.contains(name)), "{named:?}");
    // Beside them only the usual ones, under their usual names.
    assert!(
        named.iter().all(|name| names.contains(name) || ["p75", "p90", "p95"].contains(name)),
        "{named:?}"
    );
    let text = run(&[&[&url(&server)[..]], &load[..]].concat()).stdout;
    let words: Vec<&str> = text.split_whitespace().filter(|word| word.starts_with('p')).collect();
    let labels: Vec<&&str> =
        words.iter().filter(|word| word[1..].starts_with(|c: char| c.is_ascii_digit())).collect();
    assert_eq!(labels, [&"p50", &"p99", &"p99.9", &"p99.99", &"p99.999"], "{text}");
}
