//! What recording one request costs: `cargo bench -p plimsoll-stats`.
//!
//! A million samples like those of a busy run are made beforehand and recorded again and again, with
//! the recorder merged and emptied after each pass as a worker's is; the best pass is reported, since
//! everything that disturbs a pass makes it slower.

#![expect(clippy::print_stdout, reason = "a benchmark reports on standard output")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use plimsoll_core::value::Key;
use plimsoll_core::{Outcome, Phase, Sample, Span, Timestamp};
use plimsoll_stats::{Recorder, RecorderConfig};

const SAMPLES: u64 = 1_000_000;
const PASSES: u32 = 10;

fn main() {
    let config = RecorderConfig {
        operations: 1,
        start: Timestamp::ZERO,
        window_end: Timestamp::MAX,
        window_length: Span::from_secs(1),
    };
    let samples: Vec<Sample> = (0..SAMPLES).map(sample).collect();
    let mut worker = Recorder::new(config);
    let mut run = Recorder::new(config);
    let (mut record, mut merge) = (Duration::MAX, Duration::MAX);
    for _ in 0..PASSES {
        let before = Instant::now();
        for sample in &samples {
            worker.on_attempt(Phase::Measure, 0);
            worker.record(black_box(sample));
        }
        let recorded = Instant::now();
        run.merge(&worker);
        worker.clear();
        record = record.min(recorded - before);
        merge = merge.min(recorded.elapsed());
    }
    assert_eq!(run.counts().due, SAMPLES * u64::from(PASSES));
    println!("record: {:.1} ns a sample", record.as_nanos() as f64 / SAMPLES as f64);
    println!("merge and clear: {:.1} us", merge.as_nanos() as f64 / 1e3);
}

/// 50,000 requests a second, lag about 1 µs, service 200 µs to 2 ms with a tail up to 10 ms.
fn sample(seq: u64) -> Sample {
    let noise = seq.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let due = Timestamp::from_ns(seq * 20_000);
    let ready = due + Span::from_ns(200 + noise % 2_000);
    let tail = if noise.is_multiple_of(100) { noise % 8_000_000 } else { 0 };
    let end = ready + Span::from_ns(200_000 + noise % 1_800_000 + tail);
    Sample {
        seq,
        key: Key::Seq(seq),
        operation: 0,
        phase: Phase::Measure,
        due,
        ready,
        sent: Some(ready),
        first_byte: Some(end.saturating_sub(Span::from_ns(noise % 3_000))),
        end,
        read: Some(end + Span::from_ns(noise % 40_000)),
        outcome: Outcome::Ok,
        status: Some(200),
        waited_for_connection: false,
    }
}
