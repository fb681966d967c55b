//! How much a run's numbers say, given that neighbouring requests are not independent: a slow request
//! stands in a queue of slow ones, and a thousand of them can be worth no more than ten.
//!
//! ```text
//! Windows ─► Series ─► parts (sum, weight) ─► BatchMeans ─► Interval, n_eff
//! ```
//!
//! Everything rests on batch means: the run is cut into 10 to 30 long stretches whose means are nearly
//! independent, and those say how far the whole run's mean can be off. More batches gain little
//! (Schmeiser, Batch size effects in the analysis of simulation output, Operations Research 30, 1982).

use plimsoll_core::Span;

use crate::histogram::Histogram;
use crate::interval::{Tail, surprising_count};
use crate::windows::{WindowRow, Windows};

/// The fewest batches a spread is told from.
pub const MIN_BATCHES: usize = 10;
/// The most batches that are made.
pub const MAX_BATCHES: usize = 30;

/// A window's part in a mean over the run: Σ sum / Σ weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The sum in this window of what is averaged.
    pub sum: f64,
    /// How much of it there is: requests for a mean or a share, seconds for a rate.
    pub weight: f64,
}

/// A mean over a run and how far it can be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchMeans {
    /// Σ sum / Σ weight over the batches.
    pub mean: f64,
    /// The standard error of it, at least 0.
    pub standard_error: f64,
    /// The number of independent batches the error was told from, above 0; below 2 it is worth little.
    pub batches: f64,
}

impl BatchMeans {
    /// The mean of consecutive `parts`, all equally long in time. `None` for fewer than
    /// [`MIN_BATCHES`], and for parts without weight.
    ///
    /// With k batches of sums s and weights w, R = Σs / Σw and d = s − R·w, the variance of R is
    /// (Σd² / (k − 1)) / (k·w̄²): that of a ratio of means (Cochran, Sampling Techniques, 1977, ch. 6),
    /// of plain means where all weights are alike.
    ///
    /// Batches that follow each other too closely are made longer by doubling, as latte does with its
    /// blocks, down to [`MIN_BATCHES`] of them. What lag-1 autocorrelation r is left then counts as that
    /// of a first-order autoregression: k batches are worth k·(1 − r)/(1 + r).
    pub fn of(parts: &[Part]) -> Option<Self> {
        let mut size = parts.len().div_ceil(MAX_BATCHES);
        loop {
            let deviations = Deviations::of(parts, size)?;
            let k = deviations.values.len();
            let correlation = deviations.correlation();
            if correlation > 0.0 && k / 2 >= MIN_BATCHES {
                size *= 2;
                continue;
            }
            let batches = k as f64 * (1.0 - correlation) / (1.0 + correlation);
            let Deviations { mean, mean_weight, values } = deviations;
            let variance = values.iter().map(|d| d * d).sum::<f64>() / (k - 1) as f64;
            let standard_error = (variance / batches).sqrt() / mean_weight;
            return Some(Self { mean, standard_error, batches });
        }
    }

    /// The number of independent values that would leave the same error: `variance` of a single value
    /// divided by that of the mean, at least 1 and at most the `n` there were.
    ///
    /// This is the variance inflation of Wood and Schmeiser (Overlapping batch quantiles, Winter
    /// Simulation Conference 1995), by batches that do not overlap.
    pub fn n_eff(&self, variance: f64, n: u64) -> f64 {
        let n = n as f64;
        let worth = variance / (self.standard_error * self.standard_error);
        // Without any spread between batches nothing speaks against taking every value for itself.
        if worth.is_nan() { n } else { worth.clamp(1.0, n.max(1.0)) }
    }
}

/// What the batches' sums are above those that the run's mean would have given them; in all 0.
struct Deviations {
    mean: f64,
    mean_weight: f64,
    values: Vec<f64>,
}

impl Deviations {
    /// Batches of `size` parts each; those that fill no batch are left out at the front, where a run
    /// begins.
    fn of(parts: &[Part], size: usize) -> Option<Self> {
        if size == 0 || parts.len() / size < MIN_BATCHES {
            return None;
        }
        let batches: Vec<Part> = parts[parts.len() % size..]
            .chunks(size)
            .map(|batch| Part {
                sum: batch.iter().map(|part| part.sum).sum(),
                weight: batch.iter().map(|part| part.weight).sum(),
            })
            .collect();
        let weight: f64 = batches.iter().map(|batch| batch.weight).sum();
        if weight <= 0.0 {
            return None;
        }
        let mean = batches.iter().map(|batch| batch.sum).sum::<f64>() / weight;
        Some(Self {
            mean,
            mean_weight: weight / batches.len() as f64,
            values: batches.iter().map(|batch| batch.sum - mean * batch.weight).collect(),
        })
    }

    /// The lag-1 autocorrelation where it is clearly above 0, else 0. Of k independent values it is
    /// about normal with a standard deviation of 1/√k (Bartlett 1946). One of them is called clear: to
    /// see dependence where there is none makes an interval wider, to miss it makes it wrong.
    fn correlation(&self) -> f64 {
        let clear = 1.0 / (self.values.len() as f64).sqrt();
        lag_1_autocorrelation(&self.values).filter(|r| *r > clear).unwrap_or(0.0)
    }
}

/// The lag-1 autocorrelation of `values`, Σ(x − m)(x' − m) / Σ(x − m)² over neighbours x and x', with
/// their mean m; −1..=1. `None` for fewer than two values or where all are alike.
pub fn lag_1_autocorrelation(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    let products: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    (values.len() > 1 && squares > 0.0).then(|| products / squares)
}

/// The windows of a run that lie wholly inside its rate window: the last one may hold a part of it, and
/// those of the drain belong to no rate.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    rows: Vec<WindowRow<'a>>,
}

impl<'a> Series<'a> {
    /// Those of `windows` inside a rate window of this length.
    pub fn new(windows: &'a Windows, rate_window: Span) -> Self {
        let inside = |row: &WindowRow<'_>| row.start.saturating_add(row.length) <= rate_window;
        Self { rows: windows.rows().filter(inside).collect() }
    }

    /// The windows, in order.
    pub fn rows(&self) -> &[WindowRow<'a>] {
        &self.rows
    }

    /// Whole answers a second; `None` where there was none, since windows without anything do not say
    /// how rare it is.
    pub fn achieved_per_s(&self) -> Option<BatchMeans> {
        self.batch_means(|row| Part { sum: row.answered() as f64, weight: row.length.as_secs_f64() })
            .filter(|means| means.mean > 0.0)
    }

    /// The mean headline response in ns.
    pub fn mean_response(&self) -> Option<BatchMeans> {
        self.batch_means(|row| Part {
            sum: row.response_sum_ns() as f64,
            weight: row.response_count() as f64,
        })
    }

    /// The number of independent values that the headline `response` is worth at quantile `q`, 1..=n,
    /// from the share of values above it in each window. `None` where the run is too short to say.
    pub fn n_eff_of_quantile(&self, response: &Histogram, q: f64) -> Option<f64> {
        let bound_ns = response.quantile(q)?;
        let counts: Vec<(f64, f64, f64)> = self
            .rows
            .iter()
            .map(|row| {
                let (at, above) = row.responses_at_and_above(bound_ns);
                (row.response_count() as f64, at as f64, above as f64)
            })
            .collect();
        let [all, at, above] = counts.iter().fold([0.0; 3], |s, c| [s[0] + c.0, s[1] + c.1, s[2] + c.2]);
        // Windows know two digits: the bucket that holds the bound goes to the side with which the share
        // above is nearer to 1 − q.
        let far = |share: f64| (share - (1.0 - q) * all).abs();
        let with_bucket = far(above + at) < far(above);
        let parts: Vec<Part> = counts
            .iter()
            .map(|(all, at, above)| Part { sum: above + if with_bucket { *at } else { 0.0 }, weight: *all })
            .collect();
        BatchMeans::of(&parts).map(|means| means.n_eff(means.mean * (1.0 - means.mean), response.count()))
    }

    /// True where in each fifth of the run so many headline responses are above `bound_ns` that quantile `q`
    /// can hardly lie below it: were it on the bound, the number above it in a fifth of n would be binomial
    /// with n and 1 − q, and all five would be so high with a chance of at most 2.5 %, which is what an
    /// interval leaves open on a side. So a run that gets slower all the time, and is worth no interval, can
    /// still miss a bound for sure.
    pub fn is_above_throughout(&self, q: f64, bound_ns: u64) -> bool {
        const PARTS: usize = 5;
        let is_above = |rows: &[WindowRow<'_>]| {
            let count: u64 = rows.iter().map(WindowRow::response_count).sum();
            let above: u64 = rows.iter().map(|row| row.responses_at_and_above(bound_ns).1).sum();
            above >= surprising_count(count, 1.0 - q, Tail::OF_EACH_OF_FIVE)
        };
        let size = self.rows.len() / PARTS;
        self.rows.len() >= MIN_BATCHES && self.rows[self.rows.len() % PARTS..].chunks(size).all(is_above)
    }

    /// The number of independent requests, of `n`, that a share of successes rests on, 1..=n; by the
    /// moment of their end.
    pub fn n_eff_of_success(&self, n: u64) -> Option<f64> {
        let means = self.batch_means(|row| Part {
            sum: row.ok() as f64,
            weight: (row.ok() + row.failed() + row.timed_out() + row.unfinished()) as f64,
        })?;
        Some(means.n_eff(means.mean * (1.0 - means.mean), n))
    }

    /// The mean number of outstanding requests over the second half of the windows divided by that over
    /// the first half; `None` for fewer than two windows or where there were none. About 1 in a steady
    /// run, 3 where a backlog grows from nothing.
    pub fn outstanding_growth(&self) -> Option<f64> {
        let (first, second) = self.rows.split_at(self.rows.len() / 2);
        let mean = |rows: &[WindowRow<'_>]| {
            rows.iter().map(WindowRow::outstanding_mean).sum::<f64>() / rows.len() as f64
        };
        let (first, second) = (mean(first), mean(second));
        (first > 0.0).then(|| second / first)
    }

    fn batch_means(&self, part: impl Fn(&WindowRow<'_>) -> Part) -> Option<BatchMeans> {
        BatchMeans::of(&self.rows.iter().map(part).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sums: impl IntoIterator<Item = f64>) -> Vec<Part> {
        sums.into_iter().map(|sum| Part { sum, weight: 1.0 }).collect()
    }

    #[test]
    fn the_error_of_a_mean_is_the_textbooks_where_batches_are_single_windows() {
        // Ten values that alternate around 10 by 1: mean 10, variance 10/9, error √(1/9).
        let means = BatchMeans::of(&parts((0..10).map(|i| 9.0 + 2.0 * f64::from(i % 2)))).unwrap();
        assert_eq!((means.mean, means.batches), (10.0, 10.0));
        assert!((means.standard_error - (1.0f64 / 9.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn nine_windows_are_too_few_and_so_are_windows_without_anything() {
        assert_eq!(BatchMeans::of(&parts((0..9).map(f64::from))), None);
        assert_eq!(BatchMeans::of(&[Part { sum: 0.0, weight: 0.0 }; 100]), None);
        assert_eq!(BatchMeans::of(&[]), None);
    }

    #[test]
    fn a_run_that_only_rises_is_worth_less_than_two_batches() {
        let means = BatchMeans::of(&parts((0..600).map(f64::from))).unwrap();
        assert!(means.batches < 2.5, "{means:?}");
        assert!(means.n_eff(600.0 * 600.0 / 12.0, 600) < 5.0);
    }

    #[test]
    fn without_any_spread_every_value_counts() {
        let means = BatchMeans::of(&parts([5.0; 20])).unwrap();
        assert_eq!((means.standard_error, means.n_eff(0.0, 300)), (0.0, 300.0));
        assert_eq!(means.n_eff(1.0, 300), 300.0);
    }

    #[test]
    fn lag_1_autocorrelations_are_those_worked_out_by_hand() {
        // Deviations −2, −1, 0, 1, 2: products 2 + 0 + 0 + 2, squares 10.
        let r = |values: &[f64]| lag_1_autocorrelation(values).unwrap();
        assert!((r(&[1.0, 2.0, 3.0, 4.0, 5.0]) - 0.4).abs() < 1e-12);
        assert!((r(&[1.0, -1.0, 1.0, -1.0]) + 0.75).abs() < 1e-12);
        assert_eq!(lag_1_autocorrelation(&[2.0, 2.0, 2.0]), None);
        assert_eq!(lag_1_autocorrelation(&[2.0]), None);
    }
}
