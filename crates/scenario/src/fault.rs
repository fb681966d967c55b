//! What is wrong with the values given, and the collector that lets all of it be said at once.

use std::fmt;
use std::ops::RangeInclusive;

use plimsoll_core::time::{SPAN_FORMS, Span};
use plimsoll_proto::http1::request::RequestError;

/// One thing that is wrong: a sentence that names the value, what is wrong with it (the limit, where
/// there is one), and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(String);

impl Fault {
    fn new(value: &str, reason: &str, remedy: &str) -> Self {
        Self(format!("{value}: {reason}; {remedy}"))
    }
}

impl From<RequestError> for Fault {
    fn from(error: RequestError) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Everything that is wrong, in the order it was found; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// The longest time any flag takes. It keeps every sum of times of a run far inside the 584 years that
/// a timestamp holds.
pub(crate) const LONGEST: Span = Span::from_secs(365 * 86_400);

/// Collects faults and notes while values are read. A faulty value is replaced by its default, so that
/// reading goes on; the plan is thrown away in the end when there was a fault.
#[derive(Debug, Default)]
pub(crate) struct Check {
    pub(crate) faults: Vec<Fault>,
    /// What the user should know although nothing is wrong.
    pub(crate) notes: Vec<String>,
}

impl Check {
    /// `value` is the flag and what was given for it, `remedy` what to do instead.
    pub(crate) fn fault(&mut self, value: impl AsRef<str>, reason: impl AsRef<str>, remedy: impl AsRef<str>) {
        self.faults.push(Fault::new(value.as_ref(), reason.as_ref(), remedy.as_ref()));
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The time given for `flag`, zero allowed; `None` when it was not given or is faulty.
    pub(crate) fn span(&mut self, flag: &str, text: Option<&String>) -> Option<Span> {
        let text = text?;
        match text.parse::<Span>() {
            Ok(span) if span <= LONGEST => return Some(span),
            Ok(_) => self.fault(
                format!("{flag} {text}"),
                "is longer than a year, the longest time of a run",
                "give at most 8760h",
            ),
            Err(_) => self.fault(format!("{flag} {text}"), "is not a duration", format!("give {SPAN_FORMS}")),
        }
        None
    }

    /// As [`Check::span`], zero refused: `zero` says what it would mean.
    pub(crate) fn span_above_zero(&mut self, flag: &str, text: Option<&String>, zero: &str) -> Option<Span> {
        let span = self.span(flag, text)?;
        if span.is_zero() {
            self.fault(format!("{flag} 0"), zero, format!("give {SPAN_FORMS}"));
            return None;
        }
        Some(span)
    }

    /// The whole number given for `flag`, inside `range`; `None` when it was not given or is faulty.
    pub(crate) fn count(
        &mut self,
        flag: &str,
        text: Option<&String>,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let text = text?;
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match text.parse::<u64>().ok().filter(|_| plain) {
            Some(number) if range.contains(&number) => return Some(number),
            Some(number) if number < *range.start() => self.fault(
                format!("{flag} {text}"),
                format!("is below the least value, {}", range.start()),
                format!("give a whole number from {} to {}", range.start(), range.end()),
            ),
            Some(_) => self.fault(
                format!("{flag} {text}"),
                format!("is above the greatest value, {}", range.end()),
                format!("give a whole number from {} to {}", range.start(), range.end()),
            ),
            None => self.fault(
                format!("{flag} {text}"),
                "is not a whole number in plain digits",
                format!("give one from {} to {}", range.start(), range.end()),
            ),
        }
        None
    }
}
