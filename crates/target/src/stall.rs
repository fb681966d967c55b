//! Stalls: stretches in which the target does nothing at all, at known times.

use std::fmt;
use std::str::FromStr;

use plimsoll_core::{Span, Timestamp};

use crate::config::ConfigError;

/// Regular stalls: in every period of `every`, counted from the target's start, the last `length`
/// are frozen. Nothing is read, progressed or answered then; service resumes where it stood.
///
/// With active stretch A = every − length, period k is active in [k·every, k·every + A) and frozen
/// from there to its end. Work goes on in active time alone, and the active moments map one to one
/// onto the amounts of work done since the start; every calculation below goes through that map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Above `length`.
    every: Span,
    /// Above zero.
    length: Span,
}

/// The form a stall may take, for error messages.
pub const STALL_FORMS: &str = "every=5s,for=500ms (the last 500 ms of every 5 s; both above zero, the second shorter, the first up to 24h)";

/// The longest period.
const LONGEST: Span = Span::from_secs(24 * 3600);

impl Stall {
    /// Stalls of `length` at the end of every period `every`; `None` unless 0 < length < every.
    pub fn new(every: Span, length: Span) -> Option<Self> {
        (!length.is_zero() && length < every && every <= LONGEST).then_some(Self { every, length })
    }

    /// The end of the stall in which `moment` lies; `None` for an active moment.
    pub fn thaw(self, moment: Timestamp) -> Option<Timestamp> {
        let into = moment.as_ns() % self.every.as_ns();
        (into >= self.active_ns()).then(|| moment.saturating_add(Span::from_ns(self.every.as_ns() - into)))
    }

    /// The beginning of the first stall that ends after `moment`; before `moment` when it lies in it.
    pub fn freeze(self, moment: Timestamp) -> Timestamp {
        let period = moment.as_ns() / self.every.as_ns() * self.every.as_ns();
        Timestamp::from_ns(period).saturating_add(Span::from_ns(self.active_ns()))
    }

    /// The moment at which work begun at `start` and needing `work` of active time is done. Work
    /// that would end exactly where a stall begins is done when the stall ends.
    pub fn finish(self, start: Timestamp, work: Span) -> Timestamp {
        let (every, active) = (self.every.as_ns(), self.active_ns());
        let worked = start.as_ns() / every * active + (start.as_ns() % every).min(active);
        let total = worked.saturating_add(work.as_ns());
        Timestamp::from_ns((total / active).saturating_mul(every).saturating_add(total % active))
    }

    fn active_ns(self) -> u64 {
        self.every.as_ns() - self.length.as_ns()
    }
}

impl FromStr for Stall {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_prefix("every=")
            .and_then(|rest| rest.split_once(",for="))
            .and_then(|(every, length)| Self::new(every.parse().ok()?, length.parse().ok()?))
            .ok_or_else(|| ConfigError::new(text, "a stall", STALL_FORMS))
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "every={},for={}", self.every, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stall() -> Stall {
        Stall::new(Span::from_ns(10), Span::from_ns(3)).expect("3 of 10")
    }

    #[test]
    fn stalls_are_read_and_printed_alike() {
        let read = "every=5s,for=500ms".parse::<Stall>();
        assert_eq!(read.map(|stall| stall.to_string()), Ok("every=5s,for=500ms".to_owned()));
        for text in
            ["", "5s", "every=5s", "every=5s,for=5s", "every=5s,for=0", "for=1s,every=2s", "every=48h,for=1s"]
        {
            let error = text.parse::<Stall>().expect_err(text).to_string();
            assert!(error.contains("every=5s,for=500ms"), "{error}");
        }
    }

    #[test]
    fn the_last_stretch_of_every_period_is_frozen() {
        let ends: Vec<Option<u64>> =
            (0..21).map(|ns| stall().thaw(Timestamp::from_ns(ns)).map(Timestamp::as_ns)).collect();
        for (ns, end) in ends.iter().enumerate() {
            let expected = (ns % 10 >= 7).then_some((ns as u64 / 10 + 1) * 10);
            assert_eq!(*end, expected, "at {ns} ns");
            assert_eq!(stall().freeze(Timestamp::from_ns(ns as u64)).as_ns(), ns as u64 / 10 * 10 + 7);
        }
    }

    #[test]
    fn work_resumes_where_it_stood() {
        let finish = |start, work| stall().finish(Timestamp::from_ns(start), Span::from_ns(work)).as_ns();
        assert_eq!(finish(0, 6), 6, "before the first stall");
        assert_eq!(finish(0, 7), 10, "work that ends where the stall begins is done when it ends");
        assert_eq!(finish(5, 4), 12, "two units before the stall, two after");
        assert_eq!(finish(5, 2 + 7 + 7 + 1), 31, "across three stalls");
        assert_eq!(finish(8, 0), 10, "no work, begun in a stall");
        assert_eq!(finish(8, 1), 11, "work begun in a stall waits for its end");
    }
}
