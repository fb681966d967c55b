//! A generator that stands still: what it missed meanwhile is told as its own lateness, not as the
//! server's.

use std::time::Duration;

use plimsoll_target::TargetConfig;
use rustix::process::Signal;

use crate::common::eventually;
use crate::common::program::Running;
use crate::{read, target, url};

const MS: u64 = 1_000_000;

#[test]
#[cfg(target_os = "linux")]
fn a_program_that_is_stopped_blames_itself_and_not_the_server() {
    const STOPS: u32 = 8;
    let config =
        TargetConfig { service: read("fixed:50ms"), workers: read("inf"), ..TargetConfig::default() };
    let server = target(config);
    let arguments = ["-r", "20", "--arrivals", "even", "-n", "80", "--wait", "sleep", "--json"];
    let running = Running::run(&[&[&url(&server)[..]], &arguments[..]].concat());
    eventually("the first answers", || server.truth().is_ok_and(|truth| truth.in_system > 0));
    for _ in 0..STOPS {
        // A request is under way at any moment: due every 50 ms and served for 50 ms. So in every
        // stop of 200 ms one answer comes that lies unread, and four requests become due.
        running.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(200));
        running.signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(200));
    }
    let run = running.finish().measured();
    assert_eq!((run.code(), run.counts.ok, run.plan.receive_clock.as_str()), (0, 80, "kernel"));
    let spans =
        [&run.service_ns, &run.read_lag_ns, &run.schedule_lag_ns].map(|s| s.as_ref().expect("answers"));
    let [service, read_lag, schedule_lag] = spans;
    assert!(read_lag.max >= 100 * MS, "answers lay unread: {}", read_lag.max);
    assert!(schedule_lag.max >= 100 * MS, "requests were late: {}", schedule_lag.max);
    // Without the kernel's stamps a tenth of the requests would take 150 to 250 ms.
    let p95 = service.percentiles["p95"];
    assert!(p95 < 150 * MS, "the server took 50 ms: {p95}");
    assert!(run.warning_names().contains(&"schedule_lag"));
}
