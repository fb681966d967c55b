//! An exact rate: a whole number of requests in a whole number of nanoseconds.

use std::fmt;
use std::str::FromStr;

use crate::time::{Decimal, Span};

/// Requests per time, held as a reduced fraction so that `1/3s` or `667/s` is never rounded.
///
/// Zero is a legal end of a ramp; a constant open loop refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    requests: u64,
    /// > 0
    per_ns: u64,
}

/// The forms a rate may take, for error messages.
pub const RATE_FORMS: &str = "requests per time, such as 500, 500/s, 30/m, 0.1/s or 1/10s";

impl Rate {
    /// No requests.
    pub const ZERO: Self = Self { requests: 0, per_ns: 1 };

    /// `requests` in `per`.
    ///
    /// # Panics
    /// When `per` is zero.
    pub fn new(requests: u64, per: Span) -> Self {
        assert!(!per.is_zero(), "a rate needs a time longer than zero");
        Self::reduced(u128::from(requests), u128::from(per.as_ns())).expect("a quotient of two u64 fits")
    }

    /// `requests` a second.
    pub fn per_second(requests: u64) -> Self {
        Self::new(requests, Span::from_secs(1))
    }

    /// The numerator: whole requests in [`Rate::per_ns`] nanoseconds.
    pub const fn requests(self) -> u64 {
        self.requests
    }

    /// The denominator in nanoseconds, at least 1.
    pub const fn per_ns(self) -> u64 {
        self.per_ns
    }

    /// Requests a second, for analysis and display only.
    pub fn as_per_second(self) -> f64 {
        self.requests as f64 / self.per_ns as f64 * 1e9
    }

    /// True for a rate of zero.
    pub const fn is_zero(self) -> bool {
        self.requests == 0
    }

    fn reduced(requests: u128, per_ns: u128) -> Option<Self> {
        let divisor = gcd(requests, per_ns);
        Some(Self {
            requests: u64::try_from(requests / divisor).ok()?,
            per_ns: u64::try_from(per_ns / divisor).ok()?,
        })
    }
}

/// The greatest common divisor (Euclid); `b` > 0.
pub(crate) fn gcd(mut a: u128, mut b: u128) -> u128 {
    while a != 0 {
        (a, b) = (b % a, a);
    }
    b
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.as_per_second())
    }
}

/// The text was not a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRateError(String);

impl fmt::Display for ParseRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a rate; give {RATE_FORMS}", self.0)
    }
}

impl std::error::Error for ParseRateError {}

impl FromStr for Rate {
    type Err = ParseRateError;

    /// Reads `N` (a second), `N/UNIT` or `N/DURATION`; `N` is a decimal number.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (number, per) = text.split_once('/').unwrap_or((text, "s"));
            let number = Decimal::parse(number)?;
            let per: Span = match per.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                true => per.parse().ok()?,
                false => format!("1{per}").parse().ok()?,
            };
            if per.is_zero() {
                return None;
            }
            Self::reduced(number.digits, number.scale.checked_mul(u128::from(per.as_ns()))?)
        };
        parse().ok_or_else(|| ParseRateError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_rate_means_the_same_fraction() {
        for text in ["0.1", "0.1/s", "6/m", "1/10s", "360/h"] {
            assert_eq!(text.parse::<Rate>(), Ok(Rate { requests: 1, per_ns: 10_000_000_000 }), "{text}");
        }
        assert_eq!("500".parse::<Rate>(), Ok(Rate::per_second(500)));
        assert_eq!("1000000".parse::<Rate>(), Ok(Rate { requests: 1, per_ns: 1_000 }));
        assert_eq!("0.0001".parse::<Rate>(), Ok(Rate { requests: 1, per_ns: 10_000_000_000_000 }));
        assert_eq!("1/100ms".parse::<Rate>(), Ok(Rate::per_second(10)));
        assert!("0".parse::<Rate>().is_ok_and(Rate::is_zero));
    }

    #[test]
    fn what_is_not_a_rate_is_refused_with_the_accepted_forms() {
        for text in
            ["", "-1", "NaN", "inf", "infinity", "1e400", "1e3", "500/", "/s", "5/x", "5/0s", "0/0s", "five"]
        {
            let error = text.parse::<Rate>().expect_err(text).to_string();
            assert!(error.contains("1/10s"), "{error}");
        }
    }
}
