//! Memory does not grow with the number of requests. A process of its own: it looks at its resident
//! memory, which tests beside it would change.

mod common;

use common::answered;
use plimsoll_core::{Span, Timestamp};
use plimsoll_stats::{Recorder, RecorderConfig};

/// Resident memory of this process; `None` where the system does not tell.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

/// Five million requests in 60 s, recorded by a worker whose recorder is merged and emptied each
/// second. After the first second the memory grows by the run's windows only.
#[test]
fn mem_01_recording_does_not_grow_with_the_number_of_requests() {
    let config = RecorderConfig {
        operations: 1,
        start: Timestamp::ZERO,
        window_end: Timestamp::MAX,
        window_length: Span::from_secs(1),
    };
    let (mut worker, mut run) = (Recorder::new(config), Recorder::new(config));
    let mut at_first = None;
    for second in 0..60u64 {
        for i in 0..83_334u64 {
            let due = Span::from_ns(second * 1_000_000_000 + i * 12_000);
            // The lag spreads over ten octaves, the response over five.
            let lag = Span::from_ns(1 << (10 + i % 10));
            worker.record(&answered(due, lag, Span::from_us(100 + i % 3_000)));
        }
        run.merge(&worker);
        worker.clear();
        at_first = at_first.or(resident_bytes());
    }
    assert_eq!(run.counts().ok, 60 * 83_334);
    if let (Some(first), Some(last)) = (at_first, resident_bytes()) {
        assert!(last.saturating_sub(first) < 1_000_000, "{first} bytes became {last}");
    }
}
