//! A distribution of spans: 3 significant digits over all of `u64`, exact count, sum, min and max.

use base64::Engine as _;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use plimsoll_core::Span;

use crate::buckets::{Buckets, nearest_rank};

/// Counts an octave: 3 significant digits, as HdrHistogram lays them out.
const SLOTS: usize = 1024;

/// A distribution of spans.
///
/// Values are held in HdrHistogram's buckets for 3 significant digits (each at most 1/1024 of its
/// value wide) and for every `u64` of nanoseconds, so nothing is ever clamped or refused and every
/// quantile of a histogram that is not empty has an answer. Count, minimum, maximum and mean are
/// exact. Histograms are merged, never their percentiles averaged.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Buckets<u64, SLOTS>,
    count: u64,
    /// `u64::MAX` while empty.
    min: u64,
    /// 0 while empty.
    max: u64,
    /// In ns. 2^64 values of 2^64 ns fit.
    sum: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// The empty distribution.
    pub fn new() -> Self {
        Self { buckets: Buckets::new(), count: 0, min: u64::MAX, max: 0, sum: 0 }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, span: Span) {
        self.record_n(span, 1);
    }

    /// Counts `n` equal values; nothing for `n` = 0.
    #[inline]
    pub fn record_n(&mut self, span: Span, n: u64) {
        if n == 0 {
            return;
        }
        let ns = span.as_ns();
        self.buckets.record_n(ns, n);
        self.count += n;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        self.sum += u128::from(ns) * u128::from(n);
    }

    /// Adds what `other` counted.
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.buckets.merge(&other.buckets);
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// Empties it and keeps its memory for the values to come.
    pub fn clear(&mut self) {
        if self.is_empty() {
            return;
        }
        self.buckets.clear();
        (self.count, self.min, self.max, self.sum) = (0, u64::MAX, 0, 0);
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True when nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The least value, exact; `None` while empty.
    pub fn min(&self) -> Option<Span> {
        (self.count > 0).then_some(Span::from_ns(self.min))
    }

    /// The greatest value, exact; `None` while empty.
    pub fn max(&self) -> Option<Span> {
        (self.count > 0).then_some(Span::from_ns(self.max))
    }

    /// The sum of all values in nanoseconds, exact.
    pub fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// The mean in nanoseconds, from the exact sum; `None` while empty.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The population standard deviation in nanoseconds, √(Σ(x − mean)² / n), with every value at its
    /// bucket's middle (at most 1/2048 of it away); `None` while empty.
    pub fn stdev(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self
            .buckets
            .iter()
            .map(|(low, high, count)| {
                // The outermost buckets reach beyond what was seen; so all-equal values deviate by 0.
                let (low, high) = (low.max(self.min), high.min(self.max));
                let middle = low as f64 + (high - low) as f64 / 2.0;
                (middle - mean).powi(2) * count as f64
            })
            .sum();
        Some((squares / self.count as f64).sqrt())
    }

    /// Quantile `q` (0..=1) in nanoseconds by nearest rank: the value of rank max(1, ceil(q·n)). It
    /// is reported as the greatest value of its bucket, at most 1/1024 above, and never outside
    /// [min, max]; `q` = 1 gives the exact maximum. `None` while empty.
    ///
    /// # Panics
    /// When `q` is not within 0..=1: percentages are for printed text only.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        assert!((0.0..=1.0).contains(&q), "quantile {q} is not within 0..=1");
        if self.is_empty() {
            return None;
        }
        Some(self.value_at_rank(nearest_rank(q, self.count)))
    }

    /// The value of this rank, told as by [`Histogram::quantile`]; ranks count from 1, and those beyond
    /// the last give the maximum.
    pub(crate) fn value_at_rank(&self, rank: u64) -> u64 {
        if rank >= self.count {
            return self.max;
        }
        self.buckets.value_at_rank(rank).unwrap_or(self.max).clamp(self.min, self.max)
    }

    /// The share of values strictly below `threshold`, 0..=1; `None` while empty.
    ///
    /// Values that share the threshold's bucket cannot be told apart and count as not below, so the
    /// share errs to the low side, by at most what lies within 1/1024 of the threshold. It is exact
    /// where the threshold begins a bucket (every whole number below 2048 ns does) or lies beyond
    /// the maximum.
    pub fn share_below(&self, threshold: Span) -> Option<f64> {
        if self.is_empty() {
            return None;
        }
        if threshold.as_ns() > self.max {
            return Some(1.0);
        }
        let below: u64 = self
            .buckets
            .iter()
            .take_while(|(_, high, _)| *high < threshold.as_ns())
            .map(|(_, _, count)| count)
            .sum();
        Some(below as f64 / self.count as f64)
    }

    /// The whole distribution for other programs: HdrHistogram's V2 compressed format in base64.
    pub fn encode(&self) -> String {
        // The format's range must hold at least two values and starts at 1 ns (0 has its bucket too).
        let mut histogram = hdrhistogram::Histogram::<u64>::new_with_bounds(1, self.max.max(2), 3)
            .expect("the lower bound is 1, the upper at least twice that, and 3 digits are allowed");
        for (low, _, count) in self.buckets.iter() {
            histogram.record_n(low, count).expect("no bucket begins above the maximum");
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&histogram, &mut bytes)
            .expect("writing to memory does not fail, and counts fit i64");
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }
}
