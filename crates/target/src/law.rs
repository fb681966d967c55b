//! Service laws: how long the work on one request takes, and which requests go wrong.
//!
//! Both are functions of the seed and the request's number alone (the first request the target
//! reads is number 0), so a run against the target can be worked out beforehand. Pure; nothing
//! here waits.

use std::fmt;
use std::str::FromStr;

use plimsoll_core::Span;
use plimsoll_core::random::{Sequence, Stream};

use crate::config::{ConfigError, Ratio};

/// The law of the service times: the work a request needs, waiting and stalls not counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceLaw {
    /// Always the same.
    Fixed(Span),
    /// Exponential with this mean: the M of M/M/1.
    Exponential {
        /// Mean service time.
        mean: Span,
    },
    /// Lognormal: a long right tail, as real services have.
    Lognormal {
        /// Mean service time (of the time itself, not of its logarithm).
        mean: Span,
        /// Standard deviation of the service time divided by its mean.
        cv: f64,
    },
    /// One of two lengths.
    Bimodal {
        /// The usual length.
        usual: Span,
        /// The other length.
        other: Span,
        /// The share of requests that take `other`.
        other_ratio: Ratio,
    },
}

/// The forms a service law may take, for error messages.
pub const SERVICE_FORMS: &str = "fixed:1ms, exp:5ms (its mean), lognormal:5ms,cv=2 (its mean and its standard \
     deviation divided by the mean, 0.05 to 20) or bimodal:1ms,100ms,p=1% (p is the share that takes the second); \
     times up to 1h";

/// The longest mean or fixed service time.
const LONGEST: Span = Span::from_secs(3600);

/// The range of `cv`, as for arrival laws.
const CV_RANGE: std::ops::RangeInclusive<f64> = 0.05..=20.0;

impl ServiceLaw {
    /// The law's mean in seconds.
    pub fn mean_s(self) -> f64 {
        match self {
            Self::Fixed(span) => span.as_secs_f64(),
            Self::Exponential { mean } | Self::Lognormal { mean, .. } => mean.as_secs_f64(),
            Self::Bimodal { usual, other, other_ratio } => {
                let p = other_ratio.as_f64();
                usual.as_secs_f64() * (1.0 - p) + other.as_secs_f64() * p
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let span = |text: &str| text.parse::<Span>().ok().filter(|span| *span <= LONGEST);
        let (name, rest) = text.split_once(':')?;
        match name {
            "fixed" => span(rest).map(Self::Fixed),
            "exp" => span(rest).map(|mean| Self::Exponential { mean }),
            "lognormal" => {
                let (mean, cv) = rest.split_once(",cv=")?;
                let cv = cv.parse().ok().filter(|cv| CV_RANGE.contains(cv))?;
                Some(Self::Lognormal { mean: span(mean)?, cv })
            }
            "bimodal" => {
                let (spans, p) = rest.split_once(",p=")?;
                let (usual, other) = spans.split_once(',')?;
                Some(Self::Bimodal { usual: span(usual)?, other: span(other)?, other_ratio: p.parse().ok()? })
            }
            _ => None,
        }
    }
}

impl FromStr for ServiceLaw {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).ok_or_else(|| ConfigError::new(text, "a service law", SERVICE_FORMS))
    }
}

impl fmt::Display for ServiceLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(span) => write!(f, "fixed:{span}"),
            Self::Exponential { mean } => write!(f, "exp:{mean}"),
            Self::Lognormal { mean, cv } => write!(f, "lognormal:{mean},cv={cv}"),
            Self::Bimodal { usual, other, other_ratio } => {
                write!(f, "bimodal:{usual},{other},p={other_ratio}")
            }
        }
    }
}

/// The service times of a seed, one after the other.
#[derive(Clone, Debug)]
pub struct ServiceTimes {
    law: ServiceLaw,
    numbers: Sequence,
}

impl ServiceTimes {
    /// The service times of `law` for `seed`, from request 0 on.
    pub fn new(law: ServiceLaw, seed: u64) -> Self {
        Self { law, numbers: Sequence::new(Stream::new(seed, "target.service")) }
    }

    /// The service time of the next request, rounded to the nearest nanosecond.
    pub fn next_service(&mut self) -> Span {
        match self.law {
            ServiceLaw::Fixed(span) => span,
            ServiceLaw::Exponential { mean } => scaled(mean, self.numbers.exponential()),
            ServiceLaw::Lognormal { mean, cv } => {
                // exp(σZ − σ²/2) has mean 1 and coefficient of variation sqrt(exp(σ²) − 1) for a
                // standard normal Z (Johnson, Kotz, Balakrishnan: Continuous Univariate
                // Distributions 1, 1994, ch. 14), so σ² = ln(1 + cv²).
                let variance = libm::log1p(cv * cv);
                let exponent = libm::sqrt(variance) * self.numbers.normal() - variance / 2.0;
                scaled(mean, libm::exp(exponent))
            }
            ServiceLaw::Bimodal { usual, other, other_ratio } => {
                if self.numbers.unit() < other_ratio.as_f64() { other } else { usual }
            }
        }
    }
}

/// `factor` times `mean`; the conversion to `u64` saturates, so the sum of moments stays in range.
fn scaled(mean: Span, factor: f64) -> Span {
    Span::from_ns((mean.as_ns() as f64 * factor + 0.5) as u64)
}

/// How a request that had its turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// An answer with status 200.
    Answer,
    /// An answer with status 500.
    Error,
    /// The connection is closed without an answer.
    Close,
    /// The connection is reset (RST) without an answer.
    Reset,
}

/// The fates of a seed's requests: a function of the request's number.
#[derive(Clone, Debug)]
pub struct Fates {
    stream: Stream,
    /// Upper ends of error, close and reset in the unit interval; the rest is answered.
    ends: [f64; 3],
}

impl Fates {
    /// The fates for `seed` with these shares of errors, closes and resets.
    pub fn new(seed: u64, error: Ratio, close: Ratio, reset: Ratio) -> Self {
        let (error, close, reset) = (error.as_f64(), close.as_f64(), reset.as_f64());
        Self { stream: Stream::new(seed, "target.fate"), ends: [error, error + close, error + close + reset] }
    }

    /// The fate of request `number`.
    #[inline]
    pub fn fate(&self, number: u64) -> Fate {
        if self.ends[2] == 0.0 {
            return Fate::Answer;
        }
        let unit = self.stream.unit(number);
        match self.ends.iter().position(|end| unit < *end) {
            Some(0) => Fate::Error,
            Some(1) => Fate::Close,
            Some(_) => Fate::Reset,
            None => Fate::Answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_read_and_printed_alike() {
        for text in
            ["fixed:1ms", "fixed:0s", "exp:5ms", "lognormal:5ms,cv=2", "bimodal:1ms,100ms,p=1%", "fixed:1h"]
        {
            assert_eq!(text.parse::<ServiceLaw>().map(|law| law.to_string()), Ok(text.to_owned()));
        }
        let share = "bimodal:1ms,100ms,p=0.01".parse::<ServiceLaw>();
        assert_eq!(share, "bimodal:1ms,100ms,p=1%".parse::<ServiceLaw>());
    }

    #[test]
    fn what_is_not_a_law_is_refused_with_the_accepted_forms() {
        for text in [
            "",
            "1ms",
            "fixed",
            "fixed:",
            "fixed:5",
            "fixed:2h",
            "exp:-1ms",
            "lognormal:5ms",
            "lognormal:5ms,cv=0",
            "lognormal:5ms,cv=NaN",
            "bimodal:1ms,p=1%",
            "bimodal:1ms,2ms",
            "bimodal:1ms,2ms,p=2",
            "gamma:1ms",
        ] {
            let error = text.parse::<ServiceLaw>().expect_err(text).to_string();
            assert!(error.contains(text) && error.contains("lognormal:5ms,cv=2"), "{error}");
        }
    }

    #[test]
    fn laws_have_their_mean_and_spread() {
        // (law, standard deviation in units of the mean)
        for (text, cv) in [
            ("fixed:2ms", 0.0),
            ("exp:5ms", 1.0),
            ("lognormal:5ms,cv=0.5", 0.5),
            ("lognormal:5ms,cv=2", 2.0),
            // Mean 1.99 ms, deviation 99 ms · sqrt(0.01 · 0.99) = 9.85 ms.
            ("bimodal:1ms,100ms,p=0.01", 99.0 * (0.01f64 * 0.99).sqrt() / 1.99),
        ] {
            let law: ServiceLaw = text.parse().expect(text);
            let mut times = ServiceTimes::new(law, 5);
            let n = 400_000;
            let values: Vec<f64> = (0..n).map(|_| times.next_service().as_secs_f64()).collect();
            let mean = values.iter().sum::<f64>() / f64::from(n);
            let deviation = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n)).sqrt();
            let error = cv * law.mean_s() / f64::from(n).sqrt();
            assert!((mean - law.mean_s()).abs() <= 4.0 * error + 1e-9, "{text}: mean {mean}");
            assert!(
                (deviation / law.mean_s() - cv).abs() <= 0.05 * cv + 1e-9,
                "{text}: deviation {deviation}"
            );
        }
    }

    #[test]
    fn fates_come_in_their_shares_and_depend_on_the_seed_alone() {
        let ratio = |text: &str| text.parse::<Ratio>().expect(text);
        let fates = Fates::new(9, ratio("2%"), ratio("1%"), ratio("0.5%"));
        let n = 200_000u64;
        for (fate, share) in [(Fate::Error, 0.02), (Fate::Close, 0.01), (Fate::Reset, 0.005)] {
            let count = (0..n).filter(|number| fates.fate(*number) == fate).count() as f64;
            let deviation = (n as f64 * share * (1.0 - share)).sqrt();
            assert!((count - n as f64 * share).abs() < 4.0 * deviation, "{fate:?}: {count}");
        }
        let none = Fates::new(9, Ratio::ZERO, Ratio::ZERO, Ratio::ZERO);
        assert!((0..1000).all(|number| none.fate(number) == Fate::Answer));
        let all = Fates::new(9, Ratio::ZERO, ratio("100%"), Ratio::ZERO);
        assert!((0..1000).all(|number| all.fate(number) == Fate::Close));
    }
}
