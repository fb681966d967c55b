//! Interrupts, end to end.

use std::time::Duration;

use rustix::process::Signal;

use crate::common::eventually;
use crate::common::program::{Measured, Running};
use crate::common::scripted::{OK, Scripted};

fn begin(server: &Scripted, arguments: &[&str]) -> Running {
    Running::run(&[&[&server.url("/")[..], "--json"], arguments].concat())
}

#[test]
fn the_first_interrupt_ends_the_run_with_a_full_report() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for load in [["-r", "100"], ["-c", "2"]] {
            let server = Scripted::start(|peer| {
                while peer.request().is_some() {
                    std::thread::sleep(Duration::from_millis(5));
                    peer.send(OK);
                }
            });
            let running = begin(&server, &[&load[..], &["-z", "1h"]].concat());
            eventually("some requests", || server.request_count() >= 20);
            running.signal(signal);
            let run = running.finish().measured();
            assert_eq!((run.code(), run.interrupted), (code, true), "{load:?}");
            // What was under way is answered in the short drain.
            assert_eq!((run.counts.ok, run.counts.unfinished), (run.counts.due, 0), "{load:?}");
            assert_eq!(server.request_count(), run.attempts(), "{load:?}");
            // Rates are those of the time that there was.
            assert!(run.rates.window_ns <= run.elapsed_ns && run.rates.window_ns > 0, "{load:?}");
            let rate = run.rates.intended_per_s.expect("requests were due");
            let expected = run.counts.due as f64 * 1e9 / run.rates.window_ns as f64;
            assert!((rate - expected).abs() < 1e-6 * expected, "{rate} and {expected}");
        }
    }
}

#[test]
fn a_text_report_says_that_it_was_interrupted() {
    let server = Scripted::answering(OK);
    let running = Running::run(&[&server.url("/"), "-r", "100", "-z", "1h"]);
    eventually("some requests", || server.request_count() >= 5);
    running.signal(Signal::INT);
    let said = running.finish();
    assert!(said.code == Some(130) && said.stdout.contains("Interrupted"), "{}", said.stdout);
}

/// Interrupts a run against a server that never answers, so that the drain has something to wait for.
fn interrupted_twice(arguments: &[&str]) -> Measured {
    let server = Scripted::silent();
    let running = begin(&server, arguments);
    eventually("some requests", || server.request_count() >= 4);
    running.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(100));
    running.signal(Signal::INT);
    let run = running.finish().measured();
    assert_eq!(server.request_count(), run.attempts());
    run
}

#[test]
fn a_second_interrupt_ends_the_run_at_once_and_loses_nothing() {
    for load in [["-r", "100"], ["-c", "4"]] {
        let run = interrupted_twice(&[&load[..], &["-z", "1h", "--timeout", "1h", "--drain", "1h"]].concat());
        assert_eq!((run.code(), run.interrupted), (130, true), "{load:?}");
        assert!(run.counts.due >= 4 && run.counts.ok == 0, "{load:?}");
        assert_eq!(run.counts.unfinished, run.counts.due, "{load:?}");
        let response = run.response_ns.as_ref().expect("what is known of them");
        assert_eq!(response.censored_count, run.counts.due);
    }
}

#[test]
fn an_interrupt_during_the_set_up_ends_the_run_too() {
    // Connections that never come about, for ten seconds.
    let hole = crate::common::scripted::BlackHole::full();
    let url = format!("http://{}/", hole.address());
    let running = Running::run(&[&url, "-c", "2", "-z", "1h", "--connect-timeout", "10s", "--json"]);
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::INT);
    let run = running.finish().measured();
    assert_eq!((run.code(), run.counts.due), (130, 0));
}
