//! Hard cases from public bug reports of other tools, named after them.

mod common;

use plimsoll_core::{DropReason, Failure, Outcome, Sample, Span, Timestamp};
use plimsoll_stats::{Histogram, Recorder, RecorderConfig};

fn config() -> RecorderConfig {
    RecorderConfig {
        operations: 1,
        start: Timestamp::ZERO,
        window_end: Timestamp::MAX,
        window_length: Span::from_ms(100),
    }
}

fn histogram(spans: impl IntoIterator<Item = Span>) -> Histogram {
    let mut histogram = Histogram::new();
    spans.into_iter().for_each(|span| histogram.record(span));
    histogram
}

/// A request sent when due, ended `response` later.
fn sample(due: Span, response: Span, outcome: Outcome) -> Sample {
    let status = match outcome {
        Outcome::Ok => Some(200),
        Outcome::Failed(Failure::Status(status)) => Some(status),
        _ => None,
    };
    let answered = common::answered(due, Span::ZERO, response);
    Sample {
        sent: answered.sent.filter(|_| !matches!(outcome, Outcome::Dropped(_))),
        first_byte: answered.first_byte.filter(|_| status.is_some()),
        read: answered.read.filter(|_| status.is_some()),
        outcome,
        status,
        ..answered
    }
}

/// Within the histogram's precision of 3 digits.
fn assert_near(actual_ns: u64, expected: Span) {
    let expected_ns = expected.as_ns() as f64;
    assert!((actual_ns as f64 - expected_ns).abs() <= expected_ns / 1000.0, "{actual_ns} ns, not {expected}");
}

#[test]
fn pct_01_percentiles_lie_between_min_and_max_and_do_not_fall() {
    for n in [1u64, 2, 3, 53] {
        let histogram = histogram((0..n).map(|i| Span::from_us(575_400 - 7 * i)));
        let (min, max) = (histogram.min().unwrap().as_ns(), histogram.max().unwrap().as_ns());
        assert_eq!((min, max), (575_400_000 - 7_000 * (n - 1), 575_400_000));
        let values: Vec<u64> =
            (0..=1000).map(|q| histogram.quantile(f64::from(q) / 1000.0).unwrap()).collect();
        assert!(values.is_sorted(), "{values:?}");
        assert!(values[0] >= min);
        assert_eq!(values[1000], max);
        if n == 1 {
            assert!(values.iter().all(|value| *value == max));
        }
    }
}

#[test]
fn pct_03_percentiles_are_nearest_rank() {
    let histogram = histogram((1..=200).map(Span::from_ms));
    for (q, ms) in [(0.5, 100), (0.95, 190), (0.99, 198), (0.999, 200), (1.0, 200), (0.07, 14), (0.0, 1)] {
        assert_near(histogram.quantile(q).unwrap(), Span::from_ms(ms));
    }
}

#[test]
fn pct_05_every_sample_is_counted_beyond_the_ceiling() {
    let day = Span::from_secs(86_400);
    let mut values = histogram((0..90).map(|_| Span::from_ms(200)));
    values.record_n(day, 10);
    assert_eq!(values.count(), 100);
    assert_near(values.quantile(0.95).unwrap(), day);
    assert_eq!(values.max(), Some(day));
    values.record(Span::MAX);
    assert_eq!((values.count(), values.quantile(1.0)), (101, Some(u64::MAX)));
    assert!(!values.encode().is_empty());
}

#[test]
fn pct_09_huge_values_keep_mean_deviation_and_percentiles_sound() {
    let mut histogram = histogram([Span::ZERO]);
    histogram.record_n(Span::from_ns(1 << 62), 5);
    let mean = histogram.mean().unwrap();
    assert!((mean / ((1u64 << 62) as f64 * 5.0 / 6.0) - 1.0).abs() < 1e-12, "{mean}");
    assert!(histogram.stdev().unwrap().is_finite() && histogram.stdev().unwrap() > 0.0);
    assert_eq!(histogram.quantile(0.0), Some(0));
    for q in [0.5, 0.9, 0.99, 0.99999, 1.0] {
        assert_eq!(histogram.quantile(q), Some(1 << 62));
    }
    assert!(!histogram.encode().is_empty());
}

#[test]
fn pct_09_an_empty_distribution_answers_with_nothing() {
    let empty = Histogram::new();
    assert!(empty.is_empty());
    assert_eq!((empty.min(), empty.max(), empty.mean(), empty.stdev()), (None, None, None, None));
    assert_eq!((empty.quantile(0.5), empty.share_below(Span::from_ms(1))), (None, None));
}

#[test]
fn pct_10_the_deviation_of_50_s_and_60_s_is_5_s() {
    let stdev = histogram([Span::from_secs(50), Span::from_secs(60)]).stdev().unwrap();
    // Each value stands at its bucket's middle, at most 1/2048 of it (30 ms here) away.
    assert!((stdev - 5e9).abs() < 30e6, "{stdev}");
    let mut equal = Histogram::new();
    equal.record_n(Span::from_secs(47), 1_000_000_000);
    assert_eq!((equal.stdev(), equal.mean()), (Some(0.0), Some(47e9)));
}

#[test]
fn tim_09_latency_is_kept_apart_by_outcome() {
    let mut recorder = Recorder::new(config());
    for i in 0..1000 {
        let (outcome, response) = match i {
            0 => (Outcome::Ok, Span::from_secs(1)),
            _ => (Outcome::Failed(Failure::Status(500)), Span::from_ms(1)),
        };
        recorder.record(&sample(Span::from_ms(i), response, outcome));
    }
    let total = recorder.total();
    assert_near(total.response_ok.quantile(0.5).unwrap(), Span::from_secs(1));
    assert_near(total.response_failed.quantile(0.5).unwrap(), Span::from_ms(1));
    assert_near(total.response().quantile(0.5).unwrap(), Span::from_secs(1));
    assert_eq!(total.counts.success_ratio(), Some(0.001));
    assert_eq!(total.statuses, [(200, 1), (500, 999)]);
    assert_eq!(total.failures, [(Failure::Status(500), 999)]);
}

#[test]
fn tim_12_histograms_hold_the_recorded_requests_and_no_others() {
    let mut recorder = Recorder::new(config());
    let ms = Span::from_ms(1);
    let outcomes = [
        (Outcome::Ok, 5),
        (Outcome::Failed(Failure::Status(503)), 4),
        (Outcome::Failed(Failure::Reset), 3),
        (Outcome::TimedOut, 2),
        (Outcome::Unfinished, 1),
        (Outcome::Dropped(DropReason::MaxInFlight), 6),
    ];
    for (outcome, n) in outcomes {
        (0..n).for_each(|i| recorder.record(&sample(Span::from_ms(i), ms, outcome)));
    }
    let total = recorder.total();
    total.counts.assert_conserved();
    assert_eq!(total.response_ok.count(), total.counts.ok);
    assert_eq!(total.response_failed.count(), total.counts.failed);
    assert_eq!(total.censored.count(), total.counts.timed_out + total.counts.unfinished);
    assert_eq!(total.response().count() + total.response_failed.count(), total.counts.undropped());
    assert_eq!(total.blocked.count(), total.counts.undropped());
    assert_eq!(total.schedule_lag.count(), total.counts.due);
    assert_eq!(total.read_lag.count(), total.counts.answered);
    assert_eq!(total.service.count(), 8);
    assert_eq!(total.counts.dropped, [0, 6]);
}

#[test]
fn mem_01_a_billion_values_take_no_more_memory_than_their_buckets() {
    let mut histogram = Histogram::new();
    for i in 0..1000 {
        histogram.record_n(Span::from_us(100 + i), 1_000_000);
    }
    assert_eq!(histogram.count(), 1_000_000_000);
    assert_near(histogram.quantile(0.5).unwrap(), Span::from_us(599));
    assert_eq!(histogram.mean(), Some(599_500.0));
}
