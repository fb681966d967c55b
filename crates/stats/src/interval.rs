//! Intervals: how far a measured number can be from what it stands for.
//!
//! One method a kind of number, each named in results: batch means for rates and means, order
//! statistics for percentiles, Wilson's for shares. All take the dependence of neighbouring requests
//! into account, see [`crate::dependence`].

use crate::buckets::nearest_rank;
use crate::dependence::BatchMeans;
use crate::histogram::Histogram;
use crate::recorder::Censored;

/// The confidence level of every interval, 0..=1.
pub const LEVEL_RATIO: f64 = 0.95;

/// How intervals of rates and means are made.
pub const BATCH_MEANS: &str = "batch means";
/// How intervals of percentiles are made.
pub const ORDER_STATISTICS: &str = "order statistics with n_eff";

/// The quantile of the normal law for (1 + [`LEVEL_RATIO`]) / 2.
const NORMAL: f64 = 1.959_963_984_540_054;

/// The same of Student's law for 1, 2, … degrees of freedom; no more batches than
/// [`crate::dependence::MAX_BATCHES`] are made.
const STUDENT: [f64; 29] = [
    12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004, 2.262_157,
    2.228_139, 2.200_985, 2.178_813, 2.160_369, 2.144_787, 2.131_450, 2.119_905, 2.109_816, 2.100_922,
    2.093_024, 2.085_963, 2.079_614, 2.073_873, 2.068_658, 2.063_899, 2.059_539, 2.055_529, 2.051_831,
    2.048_407, 2.045_230,
];

/// A confidence interval at [`LEVEL_RATIO`], in the unit of the number it belongs to; low ≤ high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The low end.
    pub low: f64,
    /// The high end.
    pub high: f64,
}

/// The confidence interval of a percentile, in ns, low ≤ high. An end that the run does not hold is
/// `None`: with too few values the true percentile may lie beyond all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuantileInterval {
    /// The low end.
    pub low_ns: Option<u64>,
    /// The high end.
    pub high_ns: Option<u64>,
}

impl Interval {
    /// Of a rate or a mean that is never below 0: `value` ± t · standard error, t of Student's law with
    /// one degree of freedom less than there are batches (rounded down). `value` is that of the whole
    /// run, of which a beginning and an end may be in no batch. `None` where they are worth fewer than
    /// two: then only a longer run can tell.
    pub fn of_mean(value: f64, means: &BatchMeans) -> Option<Self> {
        let degrees = (means.batches as usize).checked_sub(1).filter(|degrees| *degrees > 0)?;
        let reach = STUDENT[degrees.min(STUDENT.len()) - 1] * means.standard_error;
        Some(Self { low: (value - reach).max(0.0), high: value + reach })
    }

    /// Of a share (0..=1) among requests that are worth `n_eff` > 0 independent ones, by Wilson's score
    /// (Probable inference, the law of succession, and statistical inference, JASA 22, 1927): with the
    /// normal law's quantile z, (p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n).
    pub fn of_ratio(ratio: f64, n_eff: f64) -> Self {
        let z2_n = NORMAL * NORMAL / n_eff;
        let middle = ratio + z2_n / 2.0;
        let reach = (z2_n * (ratio * (1.0 - ratio) + z2_n / 4.0)).sqrt();
        // At 0 and at 1 one end is exactly there, but for rounding.
        let low = if ratio <= 0.0 { 0.0 } else { ((middle - reach) / (1.0 + z2_n)).clamp(0.0, ratio) };
        let high = if ratio >= 1.0 { 1.0 } else { ((middle + reach) / (1.0 + z2_n)).clamp(ratio, 1.0) };
        Self { low, high }
    }
}

impl QuantileInterval {
    /// Of quantile `q` of `values` that are worth `n_eff` independent ones.
    ///
    /// The ends are two of the values, by their ranks: of m independent values, the number below the
    /// true quantile is binomial with m and q, whatever the law of the values (Le Boudec, Performance
    /// Evaluation, 2010, ch. 2). The ranks of m = ⌊n_eff⌋ values are carried over to all n of them by
    /// their share, outwards. An end among censored values is known on its low side only.
    pub fn of(values: &Histogram, censored: Censored, q: f64, n_eff: f64) -> Self {
        let n = values.count();
        let m = (n_eff as u64).min(n);
        if m == 0 {
            return Self::default();
        }
        let (low, high) = ranks(m, q);
        let share = |rank: u64| (u128::from(rank) * u128::from(n), u128::from(m));
        let own = nearest_rank(q, n);
        let low_ns = low.map(|rank| {
            let (product, m) = share(rank);
            values.value_at_rank(((product / m) as u64).clamp(1, own))
        });
        let high_ns = high.map(|rank| {
            let (product, m) = share(rank);
            values.value_at_rank((product.div_ceil(m) as u64).max(own))
        });
        Self { low_ns, high_ns: high_ns.filter(|ns| !censored.bounds(*ns)) }
    }
}

/// The ranks, from 1, between which quantile `q` of the law of `n` > 0 independent values lies with
/// [`LEVEL_RATIO`]: the greatest j with P(X < j) ≤ α and the least k with P(X ≥ k) ≤ α, where X is
/// binomial with `n` and `q` and α = (1 − [`LEVEL_RATIO`]) / 2. `None` where no value of that rank is there.
fn ranks(n: u64, q: f64) -> (Option<u64>, Option<u64>) {
    if q > 0.5 {
        // The values seen from above: quantile 1 − q, ranks counted from the greatest.
        let (low, high) = ranks(n, 1.0 - q);
        return (high.map(|rank| n + 1 - rank), low.map(|rank| n + 1 - rank));
    }
    let (below, above) = binomial_tails(n, q, Tail::OF_INTERVALS);
    (Some(below).filter(|rank| *rank >= 1), Some(above).filter(|rank| *rank <= n))
}

/// The least number that is surprising: of `n` independent values of which a share `p` is expected to
/// count, that many or more count with a chance of at most `tail`. It may be n + 1.
pub(crate) fn surprising_count(n: u64, p: f64, tail: Tail) -> u64 {
    // The more frequent of two kinds is counted by the other.
    if p > 0.5 { n + 1 - binomial_tails(n, 1.0 - p, tail).0 } else { binomial_tails(n, p, tail).1 }
}

/// A chance, and how many standard deviations of a normal law leave it on one side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    alpha: f64,
    normal: f64,
}

impl Tail {
    /// One side of an interval at [`LEVEL_RATIO`].
    pub(crate) const OF_INTERVALS: Self = Self { alpha: (1.0 - LEVEL_RATIO) / 2.0, normal: NORMAL };
    /// Five of them at once have that chance: its fifth root.
    pub(crate) const OF_EACH_OF_FIVE: Self =
        Self { alpha: 0.478_176_249_895_018_5, normal: 0.054_731_341_600_690 };
}

/// Up to this mean a binomial law is summed; its first term, at least e^(−1.4 · 500), is still a number.
/// Beyond it the normal law is as good: the ranks are off by one at most.
const SUMMED_MEAN: f64 = 500.0;

/// The greatest j with P(X < j) ≤ α and the least k with P(X ≥ k) ≤ α; k may be n + 1. For `p` ≤ 0.5.
fn binomial_tails(n: u64, p: f64, Tail { alpha, normal }: Tail) -> (u64, u64) {
    let mean = n as f64 * p;
    if mean > SUMMED_MEAN {
        let reach = normal * (mean * (1.0 - p)).sqrt();
        return ((mean - reach).floor() as u64, (mean + reach).ceil() as u64 + 1);
    }
    let odds = p / (1.0 - p);
    let mut term = (n as f64 * (-p).ln_1p()).exp();
    let mut below = 0.0;
    let mut low = None;
    // `below` is P(X < x).
    for x in 0..=n {
        let up_to = below + term;
        if low.is_none() && up_to > alpha {
            low = Some(x);
        }
        if up_to >= 1.0 - alpha {
            return (low.unwrap_or(x), x + 1);
        }
        below = up_to;
        term *= odds * (n - x) as f64 / (x + 1) as f64;
    }
    // Rounding has kept the sum below its 1.
    (low.unwrap_or(n), n + 1)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Span;

    use super::*;

    #[test]
    fn ranks_are_those_of_scipy() {
        // scipy 1.17: binom.ppf(0.025, n, q) and binom.ppf(0.975, n, q) + 1. The first two stand in
        // Le Boudec's table for the median too.
        for (n, q, low, high) in [
            (6, 0.5, 1, 6),
            (20, 0.5, 6, 15),
            (100, 0.5, 40, 61),
            (100, 0.9, 84, 96),
            (1_000, 0.99, 983, 997),
            (1_000, 0.07, 55, 87),
            (5_000, 0.999, 4_990, 5_000),
            (10_000, 0.99, 9_880, 9_920),
            (1_000_000, 0.9999, 999_880, 999_920),
        ] {
            assert_eq!(ranks(n, q), (Some(low), Some(high)), "{n} {q}");
        }
        // By the normal law.
        for (n, q, low, high) in [
            (40_000, 0.5, 19_804u64, 20_197u64),
            (200_000, 0.95, 189_809, 190_192),
            (1_000_000, 0.3, 299_102, 300_899),
        ] {
            let (Some(l), Some(h)) = ranks(n, q) else { panic!("{n} {q}") };
            assert!(l.abs_diff(low) <= 1 && h.abs_diff(high) <= 1, "{n} {q}: {l} {h}");
        }
    }

    /// P(X ≥ k) for the binomial law of `n` and `p`, summed from logarithms of exact products.
    fn at_least(k: u64, n: u64, p: f64) -> f64 {
        let ln_choose = |x: u64| (1..=x).map(|i| ((n - x + i) as f64 / i as f64).ln()).sum::<f64>();
        (k..=n).map(|x| (ln_choose(x) + x as f64 * p.ln() + (n - x) as f64 * (-p).ln_1p()).exp()).sum()
    }

    /// Also where the expected number is so small that one alone is more, which is no surprise at all: of
    /// 99 values one or more are above the true p99 in 63 of 100 cases.
    #[test]
    fn five_surprises_at_once_have_a_chance_of_one_side_of_an_interval() {
        assert!((at_least(1, 99, 0.01) - 0.6303).abs() < 1e-4);
        let tail = Tail::OF_EACH_OF_FIVE;
        for p in [0.0001, 0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.99] {
            for n in [1, 2, 5, 20, 49, 50, 51, 99, 100, 101, 300, 500, 690, 1_100] {
                let k = surprising_count(n, p, tail);
                assert!(at_least(k, n, p).powi(5) <= 0.025, "{k} of {n}, {p}");
                // And it is the least, but for the rounding of the normal law.
                let less = if n as f64 * p > SUMMED_MEAN { k - 3 } else { k - 1 };
                assert!(at_least(less, n, p).powi(5) > 0.025, "{k} of {n}, {p}");
            }
        }
        assert_eq!(surprising_count(99, 0.01, tail), 2);
        assert_eq!(surprising_count(0, 0.01, tail), 1);
    }

    #[test]
    fn with_too_few_values_an_end_is_open() {
        assert_eq!(ranks(5, 0.5), (None, None));
        let (low, high) = ranks(100, 0.99);
        assert!(low.is_some() && high.is_none());
        // 0.99^367 is just above 0.025, 0.99^368 below it (to the last digit of both).
        assert_eq!((ranks(367, 0.99).1, ranks(368, 0.99).1), (None, Some(368)));
    }

    /// P(|T| ≤ t) for ν degrees of freedom by the finite series of Abramowitz and Stegun, 26.7.3 and
    /// 26.7.4.
    fn student_within(t: f64, degrees: u32) -> f64 {
        let nu = f64::from(degrees);
        let theta = (t / nu.sqrt()).atan();
        let (sin, cos) = theta.sin_cos();
        let odd = degrees % 2 == 1;
        let (mut term, mut sum) = if odd { (cos, 0.0) } else { (1.0, 0.0) };
        let mut k = if odd { 1.0 } else { 0.0 };
        while k < nu - 1.0 {
            sum += term;
            term *= (k + 1.0) / (k + 2.0) * cos * cos;
            k += 2.0;
        }
        if odd { 2.0 / std::f64::consts::PI * (theta + sin * sum) } else { sin * sum }
    }

    #[test]
    fn students_quantiles_hold_95_percent() {
        for (degrees, t) in (1..).zip(STUDENT) {
            assert!((student_within(t, degrees) - LEVEL_RATIO).abs() < 1e-7, "{degrees}");
        }
        assert_eq!(STUDENT.len(), crate::dependence::MAX_BATCHES - 1);
    }

    #[test]
    fn shares_have_wilsons_interval() {
        // scipy 1.17: binomtest(k, n).proportion_ci(method="wilson").
        for (ratio, n, low, high) in [
            (0.95, 100.0, 0.888_249_530_768, 0.978_456_320_846),
            (0.99, 1_000.0, 0.981_690_531_130, 0.994_559_245_554),
            (0.999, 10_000.0, 0.998_160_055_613, 0.999_456_714_014),
            (1.0, 10.0, 0.722_467_200_137, 1.0),
            (0.0, 20.0, 0.0, 0.161_125_158_053),
        ] {
            let interval = Interval::of_ratio(ratio, n);
            assert!(
                (interval.low - low).abs() < 1e-10 && (interval.high - high).abs() < 1e-10,
                "{interval:?}"
            );
        }
    }

    #[test]
    fn a_mean_has_students_interval() {
        let means = BatchMeans { mean: 10.0, standard_error: 0.5, batches: 10.0 };
        assert_eq!(
            Interval::of_mean(10.5, &means),
            Some(Interval { low: 10.5 - 0.5 * STUDENT[8], high: 10.5 + 0.5 * STUDENT[8] })
        );
        assert_eq!(Interval::of_mean(0.1, &means).unwrap().low, 0.0);
        assert_eq!(Interval::of_mean(10.5, &BatchMeans { batches: 1.9, ..means }), None);
    }

    #[test]
    fn a_high_end_among_censored_values_is_open() {
        let mut values = Histogram::new();
        (1..=1_000).for_each(|ms| values.record(Span::from_ms(ms)));
        let censored_above = |ms: u64| Censored { count: 1_001 - ms, least: Span::from_ms(ms) };
        let of = |censored, n_eff| QuantileInterval::of(&values, censored, 0.9, n_eff);
        let whole = of(Censored::default(), 1_000.0);
        assert!(whole.low_ns.is_some() && whole.high_ns.is_some());
        // Ranks 881 and 919 of 1,000.
        assert_eq!(of(censored_above(950), 1_000.0), whole);
        assert_eq!(of(censored_above(910), 1_000.0), QuantileInterval { high_ns: None, ..whole });
        // Fewer independent values reach further.
        let wider = of(Censored::default(), 100.0);
        assert!(wider.low_ns < whole.low_ns && wider.high_ns > whole.high_ns);
        assert_eq!(of(Censored::default(), 0.5), QuantileInterval::default());
    }
}
