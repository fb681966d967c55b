//! How a law of values is written.

use std::fmt;
use std::str::FromStr;

use super::{ValueLaw, Zipf};

/// The forms a law of values may take, for error messages.
pub const VALUE_FORMS: &str = "uniform:A..B, zipf:A..B[,s=1], normal:A..B[,sd=S], exponential:A..B[,mean=M], \
     sequence[:A..B] (whole numbers from A, B left out) or csv:FILE:COLUMN";

/// The greatest standard deviation and mean distance, which makes either law as even as the numbers of a
/// computer can tell, over ranges of any length.
const GREATEST: f64 = 1e24;

/// The greatest exponent of Zipf's law. From about 50 on the first value comes alone.
const GREATEST_EXPONENT: f64 = 1e6;

/// Why a text is not a law of values: the value, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseValueError(String);

impl fmt::Display for ParseValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseValueError {}

impl FromStr for ValueLaw {
    type Err = ParseValueError;

    /// Reads every law but `csv:FILE:COLUMN`, which needs the file.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "sequence" {
            return Ok(Self::SEQUENCE);
        }
        let unknown = || ParseValueError(format!("'{text}' is not a law of values"));
        let (name, rest) = text.split_once(':').ok_or_else(unknown)?;
        let (bounds, option) = match rest.split_once(',') {
            Some((bounds, option)) => (bounds, Some(option)),
            None => (rest, None),
        };
        let option = |key| option.map(|text| self::option(key, text)).transpose();
        let none = |law| match rest.split_once(',') {
            Some((_, option)) => Err(ParseValueError(format!("'{option}' is nothing that {name} takes"))),
            None => Ok(law),
        };
        match name {
            "uniform" => range(bounds).and_then(|(start, end)| none(Self::Uniform { start, end })),
            "sequence" => range(bounds).and_then(|(start, end)| none(Self::Sequence { start, end })),
            "zipf" => {
                let (start, end) = range(bounds)?;
                let exponent = option(("s", GREATEST_EXPONENT))?.unwrap_or(1.0);
                Ok(Self::Zipf { start, ranks: Zipf::new(end.abs_diff(start), exponent) })
            }
            "normal" => {
                let (start, end) = range(bounds)?;
                let sd = option(("sd", GREATEST))?.unwrap_or(end.abs_diff(start) as f64 / 6.0);
                Ok(Self::Normal { start, end, sd })
            }
            "exponential" => {
                let (start, end) = range(bounds)?;
                let mean = option(("mean", GREATEST))?.unwrap_or(end.abs_diff(start) as f64 / 5.0);
                Ok(Self::Exponential { start, end, mean })
            }
            _ => Err(unknown()),
        }
    }
}

/// `A..B` with A below B.
fn range(text: &str) -> Result<(i64, i64), ParseValueError> {
    let (start, end) = text
        .split_once("..")
        .and_then(|(start, end)| Some((start.parse().ok()?, end.parse().ok()?)))
        .ok_or_else(|| ParseValueError(format!("'{text}' is not a range of whole numbers, A..B")))?;
    if start >= end {
        return Err(ParseValueError(format!("the range {text} is empty")));
    }
    Ok((start, end))
}

/// `key=NUMBER`, above 0 and up to a greatest value.
fn option((key, greatest): (&str, f64), text: &str) -> Result<f64, ParseValueError> {
    let fault = |what: &str| ParseValueError(format!("'{text}' {what}"));
    let number = text
        .strip_prefix(key)
        .and_then(|rest| rest.strip_prefix('='))
        .ok_or_else(|| fault(&format!("is not {key}=NUMBER")))?;
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value = number.parse::<f64>().ok().filter(|_| plain).ok_or_else(|| fault("has no decimal number"))?;
    // Above the least number that is written out exactly enough to be divided by.
    if value > 1e-9 && value <= greatest {
        return Ok(value);
    }
    Err(fault(&format!("is not above 0.000000001 and at most {greatest:e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_a_default() {
        let law = |text: &str| text.parse::<ValueLaw>().unwrap();
        assert_eq!(law("uniform:-5..5"), ValueLaw::Uniform { start: -5, end: 5 });
        assert_eq!(law("zipf:0..10"), law("zipf:0..10,s=1.0"));
        assert_eq!(law("normal:0..60"), law("normal:0..60,sd=10"));
        assert_eq!(law("exponential:0..50"), law("exponential:0..50,mean=10"));
        assert_eq!(law("sequence"), ValueLaw::SEQUENCE);
    }

    #[test]
    fn faulty_laws_are_refused_with_what_is_wrong() {
        for (text, reason) in [
            ("", "not a law"),
            ("uniform", "not a law"),
            ("pareto:1..2", "not a law"),
            ("csv:file:1", "not a law"),
            ("uniform:5..5", "empty"),
            ("uniform:9..3", "empty"),
            ("uniform:a..b", "not a range"),
            ("uniform:1...3", "not a range"),
            ("uniform:0..9223372036854775808", "not a range"),
            ("sequence:", "not a range"),
            ("uniform:1..3,s=1", "nothing that uniform takes"),
            ("sequence:1..3,", "nothing that sequence takes"),
            ("zipf:1..3,sd=1", "is not s=NUMBER"),
            ("zipf:1..3,s=", "no decimal number"),
            ("zipf:1..3,s=1,s=2", "no decimal number"),
            ("zipf:1..3,s=-1", "no decimal number"),
            ("zipf:1..3,s=inf", "no decimal number"),
            ("zipf:1..3,s=0", "not above 0"),
            ("normal:1..3,sd=0", "not above 0"),
            ("exponential:1..3,mean=0.0", "not above 0"),
        ] {
            let error = text.parse::<ValueLaw>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
