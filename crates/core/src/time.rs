//! Moments and lengths of time: integer nanoseconds, nothing else.
//!
//! A [`Timestamp`] counts from the run's common start, a [`Span`] is the length between two of them.
//! Both are `u64`: 584 years, never negative. Subtraction that would go below zero panics, since it
//! means that two moments of one request stand in the wrong order; where an order cannot be known
//! the caller says so with [`Timestamp::since_or_zero`].

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

/// A moment: nanoseconds since the run's common start, on one monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Timestamp {
    /// The run's common start.
    pub const ZERO: Self = Self(0);
    /// Later than every moment of a run; stands for "never" where a deadline is wanted.
    pub const MAX: Self = Self(u64::MAX);

    /// The moment `ns` nanoseconds after the run's start.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the run's start.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The length from `earlier` to `self`.
    ///
    /// # Panics
    /// When `earlier` lies after `self`: the caller claimed an order that does not hold.
    #[inline]
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.checked_sub(earlier.0).expect("moments of a request in the wrong order"))
    }

    /// The length from `earlier` to `self`, or zero when `earlier` lies after `self`.
    #[inline]
    pub const fn since_or_zero(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// `self` moved on by `span`; [`Timestamp::MAX`] where that leaves the range.
    #[inline]
    pub const fn saturating_add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// `self` moved back by `span`, not before the run's start.
    #[inline]
    pub const fn saturating_sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest length; stands for "without limit".
    pub const MAX: Self = Self(u64::MAX);

    /// A length of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// A length of `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// A length of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// A length of `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }

    /// Nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Seconds, for analysis and display only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// True for a length of zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or [`Span::MAX`] where it leaves the range.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// `factor` times this length, or [`Span::MAX`] where that leaves the range.
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Add<Span> for Timestamp {
    type Output = Self;
    /// # Panics
    /// When the sum leaves the range of `u64` nanoseconds (584 years).
    #[inline]
    fn add(self, span: Span) -> Self {
        Self(self.0.checked_add(span.0).expect("timestamp beyond 584 years"))
    }
}

impl Add for Span {
    type Output = Self;
    /// # Panics
    /// When the sum leaves the range of `u64` nanoseconds (584 years).
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).expect("span beyond 584 years"))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;
    /// # Panics
    /// When `other` is the longer one.
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("span below zero"))
    }
}

/// Units of the duration grammar, longest name first so that `ms` is not read as `m`.
const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The forms a duration may take, for error messages.
pub const SPAN_FORMS: &str = "a number with a unit, such as 250us, 100ms, 1.5s, 2m, 1h or 1m30s";

/// The text was not a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSpanError(String);

impl fmt::Display for ParseSpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a duration; give {SPAN_FORMS}", self.0)
    }
}

impl std::error::Error for ParseSpanError {}

impl FromStr for Span {
    type Err = ParseSpanError;

    /// Reads `0`, or one or more of number and unit (`1m30s`, `1.5s`). A fraction finer than a
    /// nanosecond is cut off.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseSpanError(text.to_owned());
        if text == "0" {
            return Ok(Self::ZERO);
        }
        let mut total = 0u64;
        let mut rest = text;
        while !rest.is_empty() {
            let split = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(error)?;
            let (number, tail) = rest.split_at(split);
            let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            let (_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
            let decimal = Decimal::parse(number).ok_or_else(error)?;
            let ns = decimal.digits.checked_mul(u128::from(*unit_ns)).ok_or_else(error)? / decimal.scale;
            total = u64::try_from(ns).ok().and_then(|ns| total.checked_add(ns)).ok_or_else(error)?;
            rest = tail;
        }
        if text.is_empty() { Err(error()) } else { Ok(Self(total)) }
    }
}

impl fmt::Display for Span {
    /// The shortest exact form in one unit: `100ms`, `1.5s`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, unit_ns) = match self.0 {
            0 => return f.write_str("0s"),
            ns if ns % 3_600_000_000_000 == 0 => ("h", 3_600_000_000_000),
            ns if ns % 60_000_000_000 == 0 => ("m", 60_000_000_000),
            ns if ns >= 1_000_000_000 => ("s", 1_000_000_000),
            ns if ns >= 1_000_000 => ("ms", 1_000_000),
            ns if ns >= 1_000 => ("us", 1_000),
            _ => ("ns", 1),
        };
        let (whole, part) = (self.0 / unit_ns, self.0 % unit_ns);
        if part == 0 {
            return write!(f, "{whole}{unit}");
        }
        let digits = unit_ns.ilog10() as usize;
        let part = format!("{part:0digits$}");
        write!(f, "{whole}.{}{unit}", part.trim_end_matches('0'))
    }
}

/// A decimal number held exactly as `digits / scale`, `scale` a power of ten.
pub(crate) struct Decimal {
    pub(crate) digits: u128,
    pub(crate) scale: u128,
}

impl Decimal {
    /// Reads `12`, `0.5`, `.5` or `5.`; at most 18 digits on either side of the point.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits_only = |s: &str| s.bytes().all(|b| b.is_ascii_digit()) && s.len() <= 18;
        if whole.is_empty() && part.is_empty() || !digits_only(whole) || !digits_only(part) {
            return None;
        }
        let scale = 10u128.pow(part.len() as u32);
        let number = |s: &str| if s.is_empty() { Some(0) } else { s.parse::<u128>().ok() };
        Some(Self { digits: number(whole)? * scale + number(part)?, scale })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_every_unit() {
        for (text, ns) in [
            ("0", 0),
            ("0s", 0),
            ("250us", 250_000),
            ("250µs", 250_000),
            ("7ns", 7),
            ("100ms", 100_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1m30s", 90_000_000_000),
        ] {
            assert_eq!(text.parse::<Span>(), Ok(Span(ns)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused_with_the_accepted_forms() {
        for text in
            ["", "5", "s", "-1s", "1x", "1e3s", "NaN", "inf", "1 s", "1s ", "99999999999h", ".s", "1..5s"]
        {
            let error = text.parse::<Span>().expect_err(text).to_string();
            assert!(error.contains("100ms"), "{error}");
        }
    }

    #[test]
    fn a_duration_prints_in_a_form_that_reads_back() {
        for ns in [
            0,
            1,
            999,
            1_000,
            1_500,
            100_000_000,
            1_500_000_000,
            90_000_000_000,
            3_600_000_000_000,
            1_234_567_891,
        ] {
            let text = Span(ns).to_string();
            assert_eq!(text.parse::<Span>(), Ok(Span(ns)), "{text}");
        }
    }

    #[test]
    #[should_panic(expected = "wrong order")]
    fn moments_in_the_wrong_order_are_refused() {
        let _ = Timestamp(1).since(Timestamp(2));
    }
}
