//! Cases of the accuracy of timing, end to end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_target::TargetConfig;

use crate::common::program::{measure, run};
use crate::common::scripted::{OK, Scripted};
use crate::{read, target, url};

const MS: u64 = 1_000_000;

/// Answers before it has read the body, which it reads afterwards.
#[test]
fn tim_05_an_answer_before_the_body_is_read_leaves_no_negative_span() {
    let directory = tempfile::tempdir().expect("a directory");
    let body = directory.path().join("body");
    std::fs::write(&body, vec![b'x'; 1_000_000]).expect("a file");
    let server = Scripted::start(|peer| {
        while peer.head().is_some() {
            peer.send(OK);
            peer.request();
        }
    });
    let data = format!("@{}", body.display());
    let run = measure(&server.url("/"), &["-c", "2", "-n", "20", "-d", &data]);
    assert_eq!((run.code(), run.counts.ok), (0, 20));
    let (first_byte, service) = (run.first_byte_ns.as_ref().unwrap(), run.service_ns.as_ref().unwrap());
    assert!(first_byte.max <= service.max && first_byte.count == 20);
}

#[test]
fn tim_06_a_request_that_was_not_answered_has_no_time_of_an_answer() {
    let served = AtomicU64::new(0);
    let server = Scripted::start(move |peer| {
        while peer.request().is_some() {
            if served.fetch_add(1, Ordering::AcqRel) % 3 == 2 {
                return;
            }
            peer.send(OK);
        }
    });
    let run = measure(&server.url("/"), &["-c", "1", "-n", "30"]);
    assert_eq!((run.counts.ok, run.counts.failed, run.counts.failed_unsent), (20, 10, 0));
    assert_eq!(run.errors("closed_before_response"), 10);
    assert_eq!(server.request_count(), run.attempts());
    for (spans, count) in [
        (&run.response_ns, 20),
        (&run.service_ns, 20),
        (&run.first_byte_ns, 20),
        (&run.read_lag_ns, 20),
        (&run.response_failed_ns, 10),
    ] {
        let spans = spans.as_ref().expect("there are some");
        assert_eq!(spans.count, count);
        assert!(spans.max <= run.elapsed_ns);
    }
}

#[test]
fn tim_08_a_server_that_never_answers_gives_timeouts_and_new_connections() {
    let server = Scripted::silent();
    let run = measure(&server.url("/"), &["-c", "4", "-z", "1s", "--timeout", "200ms", "--drain", "5s"]);
    assert_eq!(run.code(), 4);
    // Each client waits for a whole timeout before its next request: five fit into the second.
    let timed_out = run.counts.timed_out;
    assert!((4..=20).contains(&timed_out), "{timed_out}");
    assert_eq!((run.counts.due, run.counts.ok), (timed_out, 0));
    assert_eq!(server.request_count(), timed_out);
    assert!(server.connections() >= timed_out, "no connection was used again after a timeout");
    let response = run.response_ns.as_ref().expect("timeouts are in it");
    assert_eq!((response.count, response.censored_count), (timed_out, timed_out));
    assert!(response.min >= 200 * MS && response.censored.contains(&"p50".to_owned()));
}

#[test]
fn tim_09_fast_failures_do_not_make_slow_successes_look_fast() {
    let served = AtomicU64::new(0);
    let server = Scripted::start(move |peer| {
        while peer.request().is_some() {
            if served.fetch_add(1, Ordering::AcqRel) % 25 == 24 {
                std::thread::sleep(Duration::from_millis(200));
                peer.send(OK);
            } else {
                peer.send(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
            }
        }
    });
    let arguments = ["-c", "1", "-n", "50"];
    let measured = measure(&server.url("/"), &arguments);
    assert_eq!((measured.counts.ok, measured.errors("status_500")), (2, 48));
    assert_eq!(measured.success_ratio, Some(0.04));
    let response = measured.response_ns.as_ref().expect("two");
    assert!(response.count == 2 && response.min >= 200 * MS, "the headline is that of the successes");
    assert_eq!(measured.response_ok_ns.as_ref().unwrap().count, 2);
    let failed = measured.response_failed_ns.as_ref().unwrap();
    assert!(failed.count == 48 && failed.percentiles["p50"] < response.min);
    assert!(measured.warning_names().contains(&"success"));

    let text = run(&[&[&server.url("/")[..]], &arguments[..]].concat()).stdout;
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
    assert!(place("4 % ok (2)") < place("p50"), "success stands before latency: {text}");
}

#[test]
fn tim_11_waiting_for_the_one_connection_is_told_apart_from_the_service() {
    let config = TargetConfig { service: read("fixed:100ms"), ..TargetConfig::default() };
    let server = target(config);
    let arguments = ["-r", "20", "--arrivals", "even", "-z", "1s", "--connections", "1"];
    let run = measure(&url(&server), &arguments);
    assert_eq!((run.counts.due, run.counts.ok), (20, 20));
    let (response, service) = (run.response_ns.as_ref().unwrap(), run.service_ns.as_ref().unwrap());
    let blocked = run.blocked_ns.as_ref().unwrap();
    assert!(service.min >= 100 * MS);
    // The twentieth is due at 950 ms and cannot leave before 1.9 s.
    assert!(blocked.max >= 900 * MS && response.max >= 1_000 * MS);
    assert!(run.rates.achieved_per_s.unwrap() < 0.6 * run.rates.intended_per_s.unwrap());
    let warnings = run.warning_names();
    assert!(warnings.contains(&"rate") && warnings.contains(&"connections"), "{warnings:?}");
}

#[test]
fn tim_13_elapsed_and_rates_are_those_of_all_workers_together() {
    let server = target(TargetConfig::default());
    let arguments = ["-r", "200000", "-z", "1s", "--workers", "8", "--connections", "64", "--drain", "1s"];
    let run = measure(&url(&server), &arguments);
    assert!(run.elapsed_ns >= 1_000 * MS, "never shorter than the schedule");
    assert_eq!(run.rates.window_ns, 1_000 * MS);
    let in_window = run.counts.answered - run.counts.answered_in_drain;
    assert_eq!(run.rates.achieved_per_s, Some(in_window as f64));
    assert_eq!(server.truth().expect("it runs").arrivals, run.attempts());
    assert!(run.counts.answered <= run.attempts());
}

#[test]
fn tim_15_no_span_of_many_small_requests_is_negative() {
    // That no number in a result is negative and all spans add up holds for every test here; this
    // one gives it many requests to be wrong in.
    let server = target(TargetConfig::default());
    let run = measure(&url(&server), &["-c", "8", "-n", "20000"]);
    assert_eq!(run.counts.ok, 20_000);
    assert_eq!(server.truth().expect("it runs").status.ok, 20_000);
    for spans in [&run.response_ns, &run.service_ns, &run.blocked_ns, &run.schedule_lag_ns, &run.read_lag_ns]
    {
        assert_eq!(spans.as_ref().expect("there are some").count, 20_000);
    }
}

#[test]
fn tim_16_resets_inside_answers_leave_no_negative_span() {
    const RESET_EVERY: u64 = 50;
    let served = AtomicU64::new(0);
    let server = Scripted::start(move |peer| {
        while peer.request().is_some() {
            if served.fetch_add(1, Ordering::AcqRel) % RESET_EVERY == RESET_EVERY - 1 {
                peer.send(&OK[..OK.len() / 2]);
                return peer.reset();
            }
            peer.send(OK);
        }
    });
    let run = measure(&server.url("/"), &["-c", "20", "-n", "2000"]);
    assert_eq!((run.counts.ok, run.errors("reset")), (1_960, 40));
    assert_eq!(server.request_count(), 2_000);
}
