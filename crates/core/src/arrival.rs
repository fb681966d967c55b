//! Arrival laws: the unit-mean gaps between requests of an open loop.

use std::fmt;
use std::str::FromStr;

use crate::random::{Sequence, Stream};

/// How the requests of an open loop lie in time, before a rate profile bends them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrivalLaw {
    /// Equal gaps: the gentlest arrivals there are.
    Even,
    /// Independent exponential gaps: many users who know nothing of each other.
    Poisson,
    /// Independent gamma gaps with coefficient of variation `cv` > 0: above 1 burstier than
    /// Poisson, below 1 more regular.
    Gamma {
        /// Standard deviation of a gap divided by its mean.
        cv: f64,
    },
}

/// The forms an arrival law may take, for error messages.
pub const ARRIVAL_FORMS: &str = "poisson, even or gamma:cv=2 (cv from 0.05 to 20)";

/// The range of `gamma:cv=…`: below it the law is even for all purposes, above it a run of any
/// sensible length sees a handful of bursts and nothing else.
const CV_RANGE: std::ops::RangeInclusive<f64> = 0.05..=20.0;

impl ArrivalLaw {
    /// The endless stream of this law's gaps for a seed. `None` for even arrivals, whose k-th
    /// request has no need of a sum of gaps.
    pub(crate) fn gaps(self, stream: Stream) -> Option<Gaps> {
        (self != Self::Even).then(|| Gaps { law: self, numbers: Sequence::new(stream) })
    }
}

/// Random gaps with mean 1.
#[derive(Clone, Debug)]
pub(crate) struct Gaps {
    law: ArrivalLaw,
    numbers: Sequence,
}

impl Gaps {
    #[inline]
    pub(crate) fn next_gap(&mut self) -> f64 {
        match self.law {
            ArrivalLaw::Even => 1.0,
            ArrivalLaw::Poisson => self.numbers.exponential(),
            // Shape 1/cv² and scale cv² give mean 1 and standard deviation cv.
            ArrivalLaw::Gamma { cv } => self.numbers.gamma(1.0 / (cv * cv)) * (cv * cv),
        }
    }
}

impl fmt::Display for ArrivalLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even => f.write_str("even"),
            Self::Poisson => f.write_str("poisson"),
            Self::Gamma { cv } => write!(f, "gamma:cv={cv}"),
        }
    }
}

/// The text was not an arrival law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseArrivalError(String);

impl fmt::Display for ParseArrivalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not an arrival law; give {ARRIVAL_FORMS}", self.0)
    }
}

impl std::error::Error for ParseArrivalError {}

impl FromStr for ArrivalLaw {
    type Err = ParseArrivalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "even" => Ok(Self::Even),
            "poisson" => Ok(Self::Poisson),
            _ => text
                .strip_prefix("gamma:cv=")
                .and_then(|cv| cv.parse::<f64>().ok())
                .filter(|cv| CV_RANGE.contains(cv))
                .map(|cv| Self::Gamma { cv })
                .ok_or_else(|| ParseArrivalError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_read_and_printed_alike() {
        for text in ["even", "poisson", "gamma:cv=3", "gamma:cv=0.5"] {
            assert_eq!(text.parse::<ArrivalLaw>().map(|law| law.to_string()), Ok(text.to_owned()));
        }
        for text in
            ["", "Poisson", "gamma", "gamma:cv=0", "gamma:cv=-1", "gamma:cv=NaN", "gamma:cv=inf", "uniform"]
        {
            let error = text.parse::<ArrivalLaw>().expect_err(text).to_string();
            assert!(error.contains("gamma:cv=2"), "{error}");
        }
    }

    #[test]
    fn gamma_gaps_have_mean_one_and_the_cv_asked_for() {
        for cv in [0.5, 1.0, 3.0] {
            let mut gaps = ArrivalLaw::Gamma { cv }.gaps(Stream::new(1, "gaps")).expect("random gaps");
            let n = 400_000;
            let values: Vec<f64> = (0..n).map(|_| gaps.next_gap()).collect();
            let mean = values.iter().sum::<f64>() / f64::from(n);
            let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / f64::from(n);
            assert!((mean - 1.0).abs() < 5.0 * cv / f64::from(n).sqrt(), "cv {cv}: mean {mean}");
            assert!((variance.sqrt() / cv - 1.0).abs() < 0.03, "cv {cv}: {}", variance.sqrt());
        }
    }
}
