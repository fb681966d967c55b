//! Memory: it does not grow with the number of requests, and it is the program's own.

use plimsoll_target::TargetConfig;

use crate::common::program::measure;
use crate::{target, url};

#[test]
fn mem_01_a_long_run_at_full_speed_stays_small() {
    let server = target(TargetConfig::default());
    let run = measure(&url(&server), &["--rate", "max", "--connections", "16", "-z", "6s"]);
    assert_eq!((run.code(), run.counts.ok), (0, run.counts.due));
    let memory = run.generator.max_rss_bytes.expect("Linux and macOS tell");
    assert!(memory < 20_000_000, "{memory} bytes for {} requests", run.counts.due);
}

#[test]
#[cfg(target_os = "linux")]
fn the_memory_told_is_not_that_of_whoever_started_the_program() {
    // Every page of it has been written to, so it is resident here when the program starts.
    let large = vec![1_u8; 100_000_000];
    let server = target(TargetConfig::default());
    let run = measure(&url(&server), &["-c", "1", "-n", "10"]);
    let memory = run.generator.max_rss_bytes.expect("Linux tells");
    assert!(memory < 50_000_000, "{memory}");
    assert_eq!(large.len(), 100_000_000);
}
