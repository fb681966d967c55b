//! Variables: the parts of a request that differ from one to the next.

use std::fmt;
use std::str::FromStr;

use crate::random::Stream;

/// What a variable's values depend on, so that they are the same whichever worker draws them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// An open loop's request: its place in the run's stream.
    Seq(u64),
    /// A closed loop's request: the client, and how many it had made before.
    Step {
        /// The client's number, from 0.
        client: u32,
        /// The client's request, from 0.
        step: u64,
    },
}

/// The law of a variable's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueLaw {
    /// A whole number drawn evenly from `start..end`, the end out.
    Uniform {
        /// The least value.
        start: u64,
        /// One above the greatest value.
        end: u64,
    },
    /// 0, 1, 2 … in the order of the requests; in a closed loop each client counts for itself.
    Sequence,
}

/// The forms a law of values may take, for error messages.
pub const VALUE_FORMS: &str = "uniform:A..B (whole numbers from A, B left out) or sequence";

/// A named source of values.
#[derive(Clone, Debug)]
pub struct Variable {
    name: String,
    law: ValueLaw,
    stream: Stream,
}

impl Variable {
    /// The variable `name` of the run seeded with `seed`.
    pub fn new(name: &str, law: ValueLaw, seed: u64) -> Self {
        Self { name: name.to_owned(), law, stream: Stream::new(seed, &format!("variable {name}")) }
    }

    /// Its name, as in `${name}`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value for the request `key` stands for.
    pub fn value(&self, key: Key) -> u64 {
        match (self.law, key) {
            (ValueLaw::Sequence, Key::Seq(index) | Key::Step { step: index, .. }) => index,
            (ValueLaw::Uniform { start, end }, Key::Seq(seq)) => start + self.stream.below(seq, end - start),
            (ValueLaw::Uniform { start, end }, Key::Step { client, step }) => {
                start + self.stream.child(u64::from(client)).below(step, end - start)
            }
        }
    }
}

/// The text was not a law of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseValueError(String);

impl fmt::Display for ParseValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a law of values; give {VALUE_FORMS}", self.0)
    }
}

impl std::error::Error for ParseValueError {}

impl FromStr for ValueLaw {
    type Err = ParseValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "sequence" {
            return Ok(Self::Sequence);
        }
        text.strip_prefix("uniform:")
            .and_then(|range| range.split_once(".."))
            .and_then(|(start, end)| Some((start.parse().ok()?, end.parse().ok()?)))
            .filter(|(start, end)| start < end)
            .map(|(start, end)| Self::Uniform { start, end })
            .ok_or_else(|| ParseValueError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_values_fill_the_half_open_range() {
        let variable = Variable::new("id", "uniform:10..15".parse().unwrap(), 1);
        let mut seen: Vec<u64> = (0..200).map(|seq| variable.value(Key::Seq(seq))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [10, 11, 12, 13, 14]);
    }

    #[test]
    fn a_value_depends_on_the_request_alone() {
        let (a, b) = (Variable::new("id", ValueLaw::Uniform { start: 0, end: u64::MAX }, 1), Key::Seq(7));
        assert_eq!(a.value(b), a.clone().value(b));
        let step = |client, step| a.value(Key::Step { client, step });
        assert_eq!(step(3, 4), step(3, 4));
        assert_ne!(step(3, 4), step(4, 3));
    }

    #[test]
    fn faulty_laws_are_refused() {
        for text in ["", "uniform", "uniform:5..5", "uniform:9..3", "uniform:-1..3", "uniform:a..b", "zipf"] {
            assert!(text.parse::<ValueLaw>().is_err(), "{text}");
        }
    }
}
