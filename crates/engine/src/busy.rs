//! How busy a worker is: its processor time inside the rate window, spinning apart.
//!
//! The drain is left out, in which a worker only waits for answers, and so is the warm-up: a generator
//! without time to spare is not made good by the quiet after it.

use plimsoll_core::Timestamp;

use crate::system::Usage;

/// The two readings it takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Busy {
    begun: Option<Reading>,
    ended: Option<Reading>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Timestamp,
    used: Usage,
}

impl Busy {
    /// When a reading is wanted, of a rate window from `start` to `window_end`; [`Timestamp::MAX`] for never.
    #[inline]
    pub(crate) fn next(&self, start: Timestamp, window_end: Timestamp) -> Timestamp {
        match (self.begun, self.ended) {
            (None, None) if start < window_end => start,
            (Some(_), None) => window_end,
            _ => Timestamp::MAX,
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// A reading at `at`, once [`Self::next`] has come or where the window ends before its time. The first
    /// one begins, the second ends, further ones change nothing.
    pub(crate) fn read(&mut self, at: Timestamp, used: Usage) {
        let reading = Reading { at, used };
        match (self.begun, self.ended) {
            (None, _) => self.begun = Some(reading),
            (Some(_), None) => self.ended = Some(reading),
            _ => {}
        }
    }

    /// The share of the time between the readings that was work, 0..=1; `None` without two of them.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let (begun, ended) = (self.begun?, self.ended?);
        let elapsed_ns = ended.at.since_or_zero(begun.at).as_ns();
        let used = |of: fn(&Usage) -> u64| of(&ended.used).saturating_sub(of(&begun.used));
        let work_ns = used(|usage| usage.cpu.as_ns()).saturating_sub(used(|usage| usage.spun.as_ns()));
        (elapsed_ns > 0).then(|| (work_ns as f64 / elapsed_ns as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Span;

    use super::*;

    fn at_ms(ms: u64) -> Timestamp {
        Timestamp::ZERO + Span::from_ms(ms)
    }

    fn used(cpu: u64, spun: u64) -> Usage {
        Usage { cpu: Span::from_ms(cpu), spun: Span::from_ms(spun) }
    }

    #[test]
    fn what_comes_before_and_after_the_window_is_left_out() {
        let mut busy = Busy::default();
        let (start, end) = (at_ms(1_000), at_ms(2_000));
        assert_eq!(busy.next(start, end), start);
        busy.read(at_ms(1_000), used(200, 100));
        assert_eq!((busy.next(start, end), busy.ratio()), (end, None));
        // 980 ms of 1 s, of which 30 were spinning; then a drain of 30 s that costs nothing.
        busy.read(at_ms(2_000), used(1_180, 130));
        assert_eq!(busy.next(start, end), Timestamp::MAX);
        busy.read(at_ms(32_000), used(1_181, 130));
        assert_eq!(busy.ratio(), Some(0.95));
    }

    #[test]
    fn a_window_that_never_began_has_none_and_a_reading_at_once_neither() {
        let mut busy = Busy::default();
        // Interrupted in the warm-up.
        assert_eq!((busy.next(at_ms(1_000), at_ms(300)), busy.ratio()), (Timestamp::MAX, None));
        busy.read(at_ms(5), used(1, 0));
        busy.read(at_ms(5), used(2, 0));
        assert_eq!(busy.ratio(), None);
    }

    #[test]
    fn spinning_that_was_put_off_the_processor_does_not_make_work_negative() {
        let mut busy = Busy::default();
        busy.read(at_ms(0), used(0, 0));
        busy.read(at_ms(10), used(8, 9));
        assert_eq!(busy.ratio(), Some(0.0));
    }
}
