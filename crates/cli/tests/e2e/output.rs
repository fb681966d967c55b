//! Cases of output formats, and outputs that cannot be written, end to end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_report::model::Verdict;
use plimsoll_target::TargetConfig;

use crate::common::program::{Measured, Running, measure, plimsoll, run};
use crate::common::scripted::{OK, Scripted};
use crate::{read, target, url};

#[test]
fn out_01_what_is_under_way_at_the_end_is_in_the_account() {
    let config =
        TargetConfig { service: read("fixed:200ms"), workers: read("inf"), ..TargetConfig::default() };
    let server = target(config);
    // 700 ms end in the middle of every client's fourth request.
    for drain in ["5s", "10ms"] {
        let run = measure(&url(&server), &["-c", "50", "-z", "700ms", "--drain", drain]);
        assert_eq!(server.truth().expect("it runs").arrivals, run.attempts());
        if drain == "5s" {
            assert_eq!((run.counts.ok, run.counts.unfinished), (run.counts.due, 0));
            assert!(run.counts.answered_in_drain >= 50, "{:?}", run.counts);
        } else {
            assert!(run.counts.unfinished >= 1, "{:?}", run.counts);
        }
    }
}

#[test]
fn out_04_intervals_in_which_nothing_happened_are_there() {
    let server = Scripted::start(|peer| {
        while peer.request().is_some() {
            std::thread::sleep(Duration::from_millis(500));
            peer.send(OK);
        }
    });
    let run = measure(&server.url("/"), &["-c", "1", "-z", "1s"]);
    let empty = run.windows.iter().filter(|window| window.due == 0 && window.ok == 0).count();
    assert!(run.windows.len() >= 10 && empty >= 6, "{:?}", run.windows);
    let quiet = run.json["windows"].as_array().expect("a list").iter().find(|window| window["due"] == 0);
    assert!(quiet.expect("there is one")["response_ns"].is_null());
}

#[test]
fn out_07_counts_are_exact_however_many() {
    let server = target(TargetConfig::default());
    let run = measure(&url(&server), &["--rate", "max", "--connections", "8", "-z", "2s"]);
    let truth = server.truth().expect("it runs");
    assert_eq!((truth.status.ok, run.statuses["200"]), (run.counts.due, run.counts.due));
    for (all, each) in [(run.bytes.sent, run.attempts()), (run.bytes.received, run.attempts())] {
        assert_eq!(all % each, 0, "every request and every answer has the same length");
    }
    assert_eq!(run.response_ns.as_ref().expect("answers").count, run.counts.due);
}

#[test]
fn out_11_the_shortest_runs_have_a_report() {
    let server = target(TargetConfig::default());
    for load in [
        ["-c", "2", "-z", "100ms"],
        ["-c", "1", "-z", "1ms"],
        ["-r", "100", "-z", "1ms"],
        ["-r", "1/s", "-z", "1ns"],
        ["-c", "1", "-n", "1"],
    ] {
        let measured = measure(&url(&server), &load);
        assert!([0, 4].contains(&measured.code()), "{load:?}");
        let text = run(&[&[&url(&server)[..]], &load[..]].concat()).stdout;
        assert!(!text.contains("NaN") && !text.contains("inf"), "{load:?}: {text}");
    }
}

#[test]
fn out_12_every_moment_has_a_zone_whatever_the_machines() {
    let server = target(TargetConfig::default());
    let mut command = plimsoll();
    command.env("TZ", "Asia/Tokyo").env("LC_ALL", "de_DE.UTF-8");
    let run = Running::start(command.args(["run", &url(&server), "-r", "0.5/s", "-n", "1", "--json"]))
        .finish()
        .measured();
    let started = &run.started_at;
    assert!(started.ends_with('Z') || started[started.len() - 6..].contains('+'), "{started}");
    assert_eq!(run.plan.rate_per_s, Some(0.5), "a point is a point in every language");
}

#[test]
fn results_of_every_kind_of_run_hold_to_the_schema() {
    // The schema itself is held by every measurement here; these are the kinds.
    let server = target(TargetConfig::default());
    let seen = AtomicU64::new(0);
    let failing = Scripted::start(move |peer| {
        while peer.request().is_some() {
            let status =
                if seen.fetch_add(1, Ordering::AcqRel).is_multiple_of(2) { "200 OK" } else { "503 No" };
            peer.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes());
        }
    });
    let silent = Scripted::silent();
    for (url, load) in [
        (url(&server), "-r 200 -n 100 --warmup 100ms"),
        (url(&server), "--stages 100/s:200ms,100/s..500/s:200ms --slo success>=99%"),
        (url(&server), "-c 4 -n 100 --retry 1s --retry-copies 2"),
        (url(&server), "--rate max -n 100"),
        (failing.url("/"), "-r 200 -n 100 --slo p99<1s"),
        (silent.url("/"), "-r 200 -n 20 --timeout 100ms"),
        (silent.url("/"), "-c 4 -n 20 --timeout 100ms"),
        ("http://127.0.0.1:1/".to_owned(), "-r 200 -n 20"),
        ("http://127.0.0.1:1/".to_owned(), "-c 2 -n 20"),
    ] {
        let arguments: Vec<&str> = load.split(' ').collect();
        measure(&url, &arguments);
    }
}

#[test]
fn strict_asks_for_a_valid_measurement() {
    let failing = Scripted::start(|peer| {
        while peer.request().is_some() {
            peer.send(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let server = target(TargetConfig { service: read("fixed:20ms"), ..TargetConfig::default() });
    let load = ["-c", "1", "-n", "20"];
    for url in [failing.url("/"), url(&server)] {
        let lenient = measure(&url, &load);
        let strict = measure(&url, &[&load[..], &["--strict"]].concat());
        let valid = strict.trust.as_ref().expect("requests were due").verdict == Verdict::Valid;
        assert_eq!((lenient.code(), strict.code()), (0, if valid { 0 } else { 3 }), "{url}");
    }
    let failed = measure(&failing.url("/"), &[&load[..], &["--strict"]].concat());
    assert_eq!(failed.code(), 3, "failures are a reservation");
}

#[test]
fn one_run_fills_every_output_that_is_asked_for() {
    let server = target(TargetConfig::default());
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let (text, json) = (path("a.out"), path("b.json"));
    // What a file held before is gone, be it longer than the result.
    std::fs::write(&text, "x".repeat(1_000_000)).expect("a file");
    let arguments = ["-c", "1", "-n", "10", "-o", &text, "--format", "text", "-o", &json];
    let finished = run(&[&[&url(&server)[..]], &arguments[..]].concat());
    assert_eq!(finished.code, Some(0));
    assert_eq!(std::fs::read_to_string(&text).expect("it was written"), finished.stdout);
    let written = std::fs::read_to_string(&json).expect("it was written");
    assert_eq!(Measured::new(finished, &written).counts.ok, 10);
    let quiet = run(&[&[&url(&server)[..], "--quiet"], &arguments[..]].concat());
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (Some(0), "", ""));
}

#[test]
#[cfg(target_os = "linux")]
fn a_result_that_cannot_be_written_to_its_file_is_not_lost() {
    let server = target(TargetConfig::default());
    let load = ["-c", "1", "-n", "10", "--quiet", "-o", "/dev/full", "--format", "json"];
    let finished = run(&[&[&url(&server)[..]], &load[..]].concat());
    assert_eq!(finished.code, Some(5));
    assert!(finished.stderr.contains("/dev/full") && finished.stderr.contains("standard output"));
    assert_eq!(finished.measured().counts.ok, 10);
    // Interrupts and measurements that came to nothing are told before it.
    let silent = Scripted::silent();
    let nothing = ["-r", "100", "-n", "2", "--timeout", "50ms", "-o", "/dev/full"];
    assert_eq!(run(&[&[&silent.url("/")[..]], &nothing[..]].concat()).code, Some(4));
}
