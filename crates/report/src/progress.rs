//! One line that says how a run is going, made from two cumulative states.

use plimsoll_core::Span;
use plimsoll_stats::{Histogram, Recorder};

use crate::format::{count, number, span};

/// The state of a run at an instant, as far as progress shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Since the run's common start, the warm-up included.
    pub elapsed: Span,
    /// Whole answers so far, the warm-up's included.
    pub answered: u64,
    /// Requests failed, timed out or unfinished so far, the warm-up's included.
    pub failed: u64,
    /// Median of the headline response so far, in ns; `None` before there is any.
    pub p50_ns: Option<u64>,
    /// Its 99th percentile.
    pub p99_ns: Option<u64>,
    /// Requests due and not ended now; `None` where the caller does not know.
    pub outstanding: Option<u64>,
}

impl Progress {
    /// The state that `recorder` (cumulative) describes, `elapsed` after the run's start.
    pub fn new(recorder: &Recorder, elapsed: Span, outstanding: Option<u64>) -> Self {
        let mut counts = recorder.counts();
        counts.merge(recorder.warmup());
        let mut response = Histogram::new();
        for operation in recorder.operations() {
            response.merge(&operation.response_ok);
            response.merge(&operation.censored);
        }
        Self {
            elapsed,
            answered: counts.answered,
            failed: counts.failed + counts.timed_out + counts.unfinished,
            p50_ns: response.quantile(0.5),
            p99_ns: response.quantile(0.99),
            outstanding,
        }
    }
}

/// The line for the state `now`, `before` being the one some moments earlier that the current rate
/// is taken from (the default is the run's start), and `length` that of the whole schedule, warm-up
/// included, where it is known. Without a line break.
pub fn progress_line(before: &Progress, now: &Progress, length: Option<Span>) -> String {
    let clock = |at: Span| format!("{:.1} s", at.as_secs_f64());
    let mut parts = vec![match length {
        Some(length) if now.elapsed <= length => format!("{} of {}", clock(now.elapsed), clock(length)),
        Some(_) => format!("{}, draining", clock(now.elapsed)),
        None => clock(now.elapsed),
    }];
    let passed = now.elapsed.as_secs_f64() - before.elapsed.as_secs_f64();
    if passed > 0.0 {
        let answered = now.answered.saturating_sub(before.answered);
        parts.push(format!("{} answered/s", number(answered as f64 / passed)));
    }
    if let (Some(p50), Some(p99)) = (now.p50_ns, now.p99_ns) {
        parts.push(format!("p50 {} p99 {}", span(p50 as f64), span(p99 as f64)));
    }
    if now.failed > 0 {
        parts.push(format!("{} failed", count(now.failed)));
    }
    if let Some(outstanding) = now.outstanding {
        parts.push(format!("{} outstanding", count(outstanding)));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_time_the_rate_and_the_latency() {
        let before = Progress { elapsed: Span::from_secs(4), answered: 4_000, ..Progress::default() };
        let now = Progress {
            elapsed: Span::from_secs(5),
            answered: 5_234,
            failed: 0,
            p50_ns: Some(1_234_567),
            p99_ns: Some(12_345_678),
            outstanding: Some(12),
        };
        assert_eq!(
            progress_line(&before, &now, Some(Span::from_secs(30))),
            "5.0 s of 30.0 s · 1,234 answered/s · p50 1.23 ms p99 12.3 ms · 12 outstanding"
        );
    }

    #[test]
    fn before_anything_happened_it_shows_no_numbers_that_do_not_exist() {
        let start = Progress::default();
        assert_eq!(progress_line(&start, &start, None), "0.0 s");
        assert_eq!(progress_line(&start, &start, Some(Span::ZERO)), "0.0 s of 0.0 s");
    }

    #[test]
    fn the_drain_and_failures_are_named() {
        let before = Progress { elapsed: Span::from_secs(30), ..Progress::default() };
        let now = Progress { elapsed: Span::from_ms(30_500), failed: 1_000, ..Progress::default() };
        assert_eq!(
            progress_line(&before, &now, Some(Span::from_secs(30))),
            "30.5 s, draining · 0 answered/s · 1,000 failed"
        );
    }
}
