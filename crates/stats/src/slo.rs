//! Objectives: what a run is held against, and whether it was met, missed, or cannot be said.
//!
//! Latency objectives are about the headline response. A value that is only known to be a lower
//! bound can break an objective but never meet it, and a percentile that too few independent samples
//! lie beyond decides nothing, unless it misses the bound for sure: an honest "inconclusive" is better
//! than a gate that passes by luck.

use std::fmt;
use std::str::FromStr;

use plimsoll_core::Span;
use plimsoll_core::time::ParseSpanError;

use crate::counts::Counts;
use crate::dependence::Series;
use crate::histogram::Histogram;
use crate::interval::{Interval, QuantileInterval};
use crate::recorder::{Censored, OperationRecorder};

/// The forms an objective may take, for error messages.
pub const OBJECTIVE_FORMS: &str =
    "'p99 < 150ms', 'p99.9 <= 2s', 'mean < 5ms', 'max < 1s', 'success >= 99%' or 'rate >= 95%'";

/// A percentile needs so many expected samples beyond it, n_eff·(1 − q), to be worth deciding on.
pub const MIN_SAMPLES_BEYOND: f64 = 5.0;

/// What a run is held against.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    expression: String,
    subject: Subject,
    /// The bound itself is allowed (`<=`, `>=`).
    bound_included: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Subject {
    /// Upper bounds of the response.
    Quantile {
        q: f64,
        bound: Span,
    },
    Mean {
        bound: Span,
    },
    Max {
        bound: Span,
    },
    /// Lower bounds, 0..=1.
    Success {
        bound_ratio: f64,
    },
    Rate {
        bound_ratio: f64,
    },
}

/// What an objective is evaluated on.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The headline response.
    pub response: &'a Histogram,
    /// Its values that are known to be too small.
    pub censored: Censored,
    /// The account.
    pub counts: &'a Counts,
    /// The run over time, which intervals and n_eff are made from; without it there are none.
    pub series: Option<&'a Series<'a>>,
}

/// Whether an objective was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was met.
    Pass,
    /// It was missed.
    Fail,
    /// The run does not say.
    Inconclusive,
}

impl Status {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// The answer to an objective.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The objective as it was given.
    pub expression: String,
    /// Whether it was met.
    pub status: Status,
    /// What was measured: nanoseconds for a latency, a ratio for success and rate; `None` where
    /// nothing was.
    pub value: Option<f64>,
    /// True where `value` is a lower bound of what it stands for.
    pub is_lower_bound: bool,
    /// The low end of its confidence interval, in its unit; of a lower bound the value itself.
    pub low: Option<f64>,
    /// The high end; `None` where it is open too.
    pub high: Option<f64>,
    /// Why it is inconclusive, as a sentence part; empty otherwise.
    pub reason: String,
    /// Whether it would be the same for every value that the interval allows: met where even the worse end
    /// meets it, missed where even the better end misses it, else inconclusive. Of what has no interval by
    /// nature (a maximum, the offered rate), the status.
    pub by_interval: Status,
}

impl Objective {
    /// The objective as it was given.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Holds `measured` against the objective.
    ///
    /// - No value: inconclusive.
    /// - A percentile with n_eff·(1 − q) < [`MIN_SAMPLES_BEYOND`] (n where n_eff is not known): fails where
    ///   the low end of its interval already does or every fifth of the run, else inconclusive.
    /// - A lower bound (a percentile at or above the least censored value; mean and max as soon as
    ///   anything is censored): fails where the bound already does, else inconclusive.
    pub fn evaluate(&self, measured: Measured<'_>) -> Evaluation {
        let mut evaluation = self.by_value(measured);
        evaluation.by_interval = self.by_interval(&evaluation);
        evaluation
    }

    fn by_interval(&self, evaluation: &Evaluation) -> Status {
        let Evaluation { low, high, status, is_lower_bound, .. } = evaluation;
        let (worst_meets, best_meets) = match self.subject {
            Subject::Max { .. } | Subject::Rate { .. } => return *status,
            Subject::Quantile { bound, .. } | Subject::Mean { bound } => {
                let bound_ns = bound.as_ns() as f64;
                (high.map(|high| self.is_below(high, bound_ns)), low.map(|low| self.is_below(low, bound_ns)))
            }
            Subject::Success { bound_ratio } => (
                low.map(|low| self.is_above(low, bound_ratio)),
                high.map(|high| self.is_above(high, bound_ratio)),
            ),
        };
        match (status, worst_meets, best_meets) {
            (Status::Fail, _, Some(false)) => Status::Fail,
            (Status::Pass, Some(true), _) if !is_lower_bound => Status::Pass,
            _ => Status::Inconclusive,
        }
    }

    fn is_below(&self, value: f64, bound: f64) -> bool {
        value < bound || self.bound_included && value == bound
    }

    fn is_above(&self, value: f64, bound: f64) -> bool {
        value > bound || self.bound_included && value == bound
    }

    fn by_value(&self, measured: Measured<'_>) -> Evaluation {
        let Measured { response, censored, counts, .. } = measured;
        match self.subject {
            Subject::Quantile { q, bound } => self.quantile(measured, q, bound),
            Subject::Mean { bound } => {
                let evaluation = self.latency(response.mean(), censored.count > 0, bound);
                let mean = evaluation.value.zip(measured.series.and_then(Series::mean_response));
                evaluation.within(mean.and_then(|(value, means)| Interval::of_mean(value, &means)))
            }
            Subject::Max { bound } => {
                let max = response.max().map(|max| max.as_ns() as f64);
                self.latency(max, censored.count > 0, bound)
            }
            Subject::Success { bound_ratio } => {
                let evaluation = self.share(counts.success_ratio(), bound_ratio);
                let n_eff = measured.series.and_then(|series| series.n_eff_of_success(counts.undropped()));
                let share = evaluation.value.zip(n_eff);
                evaluation.within(share.map(|(ratio, n_eff)| Interval::of_ratio(ratio, n_eff)))
            }
            Subject::Rate { bound_ratio } => self.share(counts.offered_ratio(), bound_ratio),
        }
    }

    fn quantile(&self, measured: Measured<'_>, q: f64, bound: Span) -> Evaluation {
        let Measured { response, censored, series, .. } = measured;
        let (n, value) = (response.count(), response.quantile(q));
        let is_lower_bound = value.is_some_and(|ns| censored.bounds(ns));
        let n_eff = series.and_then(|series| series.n_eff_of_quantile(response, q));
        let interval = n_eff.map(|n_eff| QuantileInterval::of(response, censored, q, n_eff));
        let as_number = |ns: Option<u64>| ns.map(|ns| ns as f64);
        let mut evaluation = self.latency(as_number(value), is_lower_bound, bound);
        if let Some(interval) = interval.filter(|_| !is_lower_bound) {
            (evaluation.low, evaluation.high) = (as_number(interval.low_ns), as_number(interval.high_ns));
        }
        let low_ns = interval.and_then(|interval| interval.low_ns);
        let missed_for_sure = low_ns
            .is_some_and(|low| self.latency(Some(low as f64), false, bound).status == Status::Fail)
            || series.is_some_and(|series| series.is_above_throughout(q, bound.as_ns()));
        if value.is_some() && !missed_for_sure && !has_samples_beyond(n_eff.unwrap_or(n as f64), q) {
            evaluation.status = Status::Inconclusive;
            evaluation.reason = match n_eff.map(|n_eff| n_eff.round() as u64).filter(|n_eff| *n_eff < n) {
                Some(n_eff) => format!(
                    "{n} samples are worth {n_eff} independent ones, which leave fewer than \
                     {MIN_SAMPLES_BEYOND} beyond this percentile; run longer"
                ),
                None => format!(
                    "{n} samples leave fewer than {MIN_SAMPLES_BEYOND} beyond this percentile; run longer"
                ),
            };
        }
        evaluation
    }

    fn latency(&self, value: Option<f64>, is_lower_bound: bool, bound: Span) -> Evaluation {
        let Some(ns) = value else {
            return self.evaluation(Status::Inconclusive, None, "no request has a response time");
        };
        let bound_ns = bound.as_ns() as f64;
        let met = self.is_below(ns, bound_ns);
        let (status, reason) = match (met, is_lower_bound) {
            (false, _) => (Status::Fail, ""),
            (true, false) => (Status::Pass, ""),
            (true, true) => (
                Status::Inconclusive,
                "unanswered requests make the value a lower bound; allow more time to answer",
            ),
        };
        let low = value.filter(|_| is_lower_bound);
        Evaluation { is_lower_bound, low, ..self.evaluation(status, value, reason) }
    }

    fn share(&self, value: Option<f64>, bound_ratio: f64) -> Evaluation {
        match value {
            None => self.evaluation(Status::Inconclusive, None, "no request was due"),
            Some(ratio) => {
                let met = self.is_above(ratio, bound_ratio);
                self.evaluation(if met { Status::Pass } else { Status::Fail }, value, "")
            }
        }
    }

    fn evaluation(&self, status: Status, value: Option<f64>, reason: &str) -> Evaluation {
        Evaluation {
            expression: self.expression.clone(),
            status,
            value,
            is_lower_bound: false,
            low: None,
            high: None,
            reason: reason.to_owned(),
            by_interval: status,
        }
    }
}

impl Evaluation {
    /// With this interval, unless the value is a lower bound: then its truth lies above.
    fn within(mut self, interval: Option<Interval>) -> Self {
        if let Some(Interval { low, high }) = interval.filter(|_| !self.is_lower_bound) {
            (self.low, self.high) = (Some(low), Some(high));
        }
        self
    }
}

impl<'a> Measured<'a> {
    /// A whole run; `response` is the headline of `total`, made once, and `series` its course.
    pub fn new(total: &'a OperationRecorder, response: &'a Histogram, series: &'a Series<'a>) -> Self {
        let censored = total.response_censored();
        Self { response, censored, counts: &total.counts, series: Some(series) }
    }
}

/// True when at least [`MIN_SAMPLES_BEYOND`] of `n` independent values are expected beyond quantile `q`:
/// n·(1 − q) ≥ 5.
pub fn has_samples_beyond(n: f64, q: f64) -> bool {
    // 1 − q is inexact for decimal fractions: 5,000 samples do leave five beyond p99.9.
    n * (1.0 - q) >= MIN_SAMPLES_BEYOND * (1.0 - 1e-9)
}

/// An objective that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseObjectiveError {
    /// It is not of the form SUBJECT COMPARISON BOUND with a known subject.
    Form(String),
    /// The comparison points the wrong way: latencies have upper bounds, shares lower ones.
    Direction {
        /// The whole objective.
        expression: String,
        /// The comparisons that are right for its subject.
        wanted: &'static str,
    },
    /// The percentile is not above 0 and below 100.
    Percentile(String),
    /// The share is not a percentage from 0 % to 100 %.
    Share(String),
    /// The bound is not a duration.
    Bound(ParseSpanError),
}

impl fmt::Display for ParseObjectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(text) => write!(f, "'{text}' is not an objective; give {OBJECTIVE_FORMS}"),
            Self::Direction { expression, wanted } => {
                write!(f, "'{expression}' compares the wrong way; use {wanted}, as in {OBJECTIVE_FORMS}")
            }
            Self::Percentile(text) => {
                write!(f, "'{text}' is not a percentile above p0 and below p100, such as p99 or p99.9")
            }
            Self::Share(text) => write!(f, "'{text}' is not a share from 0% to 100%, such as 99.5%"),
            Self::Bound(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ParseObjectiveError {}

impl FromStr for Objective {
    type Err = ParseObjectiveError;

    /// Reads one of [`OBJECTIVE_FORMS`]; blanks are free.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || ParseObjectiveError::Form(text.to_owned());
        let at = text.find(['<', '>']).ok_or_else(form)?;
        let (name, tail) = (text[..at].trim(), &text[at..]);
        let (upper, tail) = (tail.starts_with('<'), &tail[1..]);
        let bound_included = tail.starts_with('=');
        let bound = tail.strip_prefix('=').unwrap_or(tail).trim();

        let subject = match name {
            "success" | "rate" => {
                if upper {
                    return Err(direction(text, ">= or >"));
                }
                let bound_ratio =
                    percent(bound.strip_suffix('%').unwrap_or_default().trim_end(), 0.0..=100.0)
                        .ok_or_else(|| ParseObjectiveError::Share(bound.to_owned()))?
                        / 100.0;
                match name {
                    "success" => Subject::Success { bound_ratio },
                    _ => Subject::Rate { bound_ratio },
                }
            }
            _ if name == "mean" || name == "max" || name.starts_with('p') => {
                if !upper {
                    return Err(direction(text, "< or <="));
                }
                let bound = bound.parse().map_err(ParseObjectiveError::Bound)?;
                match name {
                    "mean" => Subject::Mean { bound },
                    "max" => Subject::Max { bound },
                    _ => Subject::Quantile { q: quantile(name)?, bound },
                }
            }
            _ => return Err(form()),
        };
        Ok(Self { expression: text.trim().to_owned(), subject, bound_included })
    }
}

fn direction(expression: &str, wanted: &'static str) -> ParseObjectiveError {
    ParseObjectiveError::Direction { expression: expression.to_owned(), wanted }
}

fn quantile(name: &str) -> Result<f64, ParseObjectiveError> {
    percent(&name[1..], 0.0..=100.0)
        .filter(|p| *p > 0.0 && *p < 100.0)
        .map(|p| p / 100.0)
        .ok_or_else(|| ParseObjectiveError::Percentile(name.to_owned()))
}

/// A plain decimal number within `range`; no sign, exponent, NaN or infinity.
fn percent(text: &str, range: std::ops::RangeInclusive<f64>) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|value| plain && range.contains(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(text: &str, response: &Histogram, censored: Censored, counts: &Counts) -> Evaluation {
        text.parse::<Objective>().unwrap().evaluate(Measured { response, censored, counts, series: None })
    }

    /// 1 ms to 1,000 ms, the last `censored` of them lower bounds.
    fn thousand(censored: u64) -> (Histogram, Censored) {
        let mut response = Histogram::new();
        (1..=1000).for_each(|ms| response.record(Span::from_ms(ms)));
        let least = if censored == 0 { Span::MAX } else { Span::from_ms(1001 - censored) };
        (response, Censored { count: censored, least })
    }

    #[test]
    fn objectives_are_decided_on_the_headline_response() {
        let (response, censored) = thousand(0);
        for (text, status) in [
            ("p50 < 600ms", Status::Pass),
            ("p50<600ms", Status::Pass),
            (" p50 <= 400ms ", Status::Fail),
            ("p99 < 2s", Status::Pass),
            ("p99.5 < 2s", Status::Pass),
            // One sample of a thousand lies beyond p99.9: too few to say.
            ("p99.9 < 2s", Status::Inconclusive),
            ("p99.9 < 1ms", Status::Inconclusive),
            ("mean < 501ms", Status::Pass),
            ("mean < 500ms", Status::Fail),
            // The mean is 500.5 ms exactly: the bound counts only where it is included.
            ("mean < 500.5ms", Status::Fail),
            ("mean <= 500.5ms", Status::Pass),
            ("max <= 1s", Status::Pass),
            ("max < 1s", Status::Fail),
        ] {
            let evaluation = evaluate(text, &response, censored, &Counts::default());
            assert_eq!(evaluation.status, status, "{text}");
            assert_eq!(evaluation.reason.is_empty(), status != Status::Inconclusive, "{text}");
            assert!(evaluation.value.is_some(), "{text}");
        }
    }

    #[test]
    fn a_lower_bound_can_miss_an_objective_but_not_meet_it() {
        let (response, censored) = thousand(100);
        for (text, status) in [
            // 90 % are known, p95 is at least 950 ms.
            ("p80 < 900ms", Status::Pass),
            ("p95 < 900ms", Status::Fail),
            ("p95 < 2s", Status::Inconclusive),
            ("mean < 10s", Status::Inconclusive),
            ("mean < 100ms", Status::Fail),
            ("max < 10s", Status::Inconclusive),
        ] {
            assert_eq!(evaluate(text, &response, censored, &Counts::default()).status, status, "{text}");
        }
    }

    #[test]
    fn shares_are_decided_on_the_account() {
        let counts =
            Counts { due: 200, ok: 198, failed: 2, sent: 200, sent_in_window: 190, ..Counts::default() };
        let response = Histogram::new();
        for (text, status) in [
            ("success >= 99%", Status::Pass),
            ("success > 99%", Status::Fail),
            ("success >= 99.5%", Status::Fail),
            ("rate >= 95%", Status::Pass),
            ("rate >= 95.1 %", Status::Fail),
        ] {
            assert_eq!(evaluate(text, &response, Censored::default(), &counts).status, status, "{text}");
        }
    }

    #[test]
    fn without_requests_nothing_is_decided() {
        for text in ["p50 < 1s", "mean < 1s", "max < 1s", "success >= 1%", "rate >= 1%"] {
            let evaluation = evaluate(text, &Histogram::new(), Censored::default(), &Counts::default());
            assert_eq!((evaluation.status, evaluation.value), (Status::Inconclusive, None), "{text}");
        }
    }

    #[test]
    fn five_samples_beyond_a_percentile_are_enough_and_four_are_not() {
        assert!(has_samples_beyond(5_000.0, 0.999) && !has_samples_beyond(4_999.0, 0.999));
        assert!(has_samples_beyond(500.0, 0.99) && !has_samples_beyond(499.0, 0.99));
    }

    #[test]
    fn what_is_not_an_objective_is_refused_with_what_would_be() {
        for text in [
            "",
            "p99",
            "p99 150ms",
            "p99 = 1s",
            "q99 < 1s",
            "latency < 1s",
            "< 1s",
            "p99 > 1s",
            "success < 99%",
            "p99 < 150",
            "p99 < -1ms",
            "p0 < 1s",
            "p100 < 1s",
            "p < 1s",
            "pNaN < 1s",
            "p1e1 < 1s",
            "success >= 99",
            "success >= 101%",
            "success >= %",
            "rate >= NaN%",
            "p99 < 1s < 2s",
        ] {
            let error = text.parse::<Objective>().expect_err(text).to_string();
            assert!(["p99", "99.5%", "100ms"].iter().any(|form| error.contains(form)), "{error}");
        }
    }

    #[test]
    fn by_interval_only_what_the_whole_interval_says_is_decided() {
        let evaluation = |objective: &Objective, value: f64, low: f64, high: Option<f64>| {
            let met = objective.latency(Some(value), false, Span::from_ms(20));
            objective.by_interval(&Evaluation { low: Some(low), high, ..met })
        };
        let objective: Objective = "p99 < 20ms".parse().unwrap();
        for (value, low, high, expected) in [
            (15e6, 14e6, Some(16e6), Status::Pass),
            (15e6, 14e6, Some(20e6), Status::Inconclusive),
            (15e6, 14e6, None, Status::Inconclusive),
            (25e6, 24e6, None, Status::Fail),
            (25e6, 20e6, Some(30e6), Status::Fail),
            (25e6, 19e6, Some(30e6), Status::Inconclusive),
        ] {
            assert_eq!(evaluation(&objective, value, low, high), expected, "{value} {low} {high:?}");
        }
    }
}
