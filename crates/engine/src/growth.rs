//! Whether further connections are worth their cost to a worker that cannot keep up.
//!
//! An open loop opens a connection for every due request that finds none idle: that is its meaning,
//! and while the worker is in time nothing is asked here. Under a load that the server or this machine
//! cannot carry it would open thousands, each of which makes every answer dearer for both. So a worker
//! that is late compares: connections that brought no more answers are not added to for a while.

use plimsoll_core::{Span, Timestamp};

/// Less lateness than that is a burst, not a load that cannot be carried.
const LATE: Span = Span::from_ms(20);
/// Answers are compared over stretches of this length.
const STRETCH: Span = Span::from_ms(50);
/// Connections must have grown by so much in a stretch to be judged: a tenth.
const GROWN_RATIO: f64 = 1.1;
/// A growth of connections by 1 + g is worth while when answers grew by at least 1 + g times this.
const WORTH_RATIO: f64 = 0.25;
/// What was found not to be worth while is not tried again for so long.
const HOLD: Span = Span::from_secs(1);
/// A server that gives no answer for so long may need more connections, whatever was found before.
const SILENCE: Span = Span::from_ms(10);

/// The comparison.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    stretch_start: Timestamp,
    open_before: usize,
    answers: u64,
    /// Answers a nanosecond in the stretch before.
    rate_before: f64,
    last_answer: Timestamp,
    held_until: Timestamp,
}

impl Growth {
    /// An answer was read.
    #[inline]
    pub(crate) fn on_answer(&mut self, now: Timestamp) {
        self.answers += 1;
        self.last_answer = now;
    }

    /// Whether a connection may be added to the `open` ones for a request that is `late` now.
    pub(crate) fn allows(&mut self, open: usize, late: Span, now: Timestamp) -> bool {
        if late < LATE {
            return true;
        }
        let stretch = now.since_or_zero(self.stretch_start);
        if stretch >= STRETCH {
            let rate = self.answers as f64 / stretch.as_ns() as f64;
            // A stretch in which the worker was in time for long is not one to compare with.
            let comparable = stretch < STRETCH.saturating_mul(4);
            if comparable {
                self.judge(open, rate, now);
            }
            (self.rate_before, self.answers) = (rate, 0);
            (self.open_before, self.stretch_start) = (if comparable { open } else { 0 }, now);
        }
        now >= self.held_until || now.since_or_zero(self.last_answer) > SILENCE
    }

    fn judge(&mut self, open: usize, rate: f64, now: Timestamp) {
        if self.open_before == 0 || self.rate_before == 0.0 {
            return;
        }
        let grown = open as f64 / self.open_before as f64;
        let brought = rate / self.rate_before;
        if grown >= GROWN_RATIO && brought - 1.0 < (grown - 1.0) * WORTH_RATIO {
            self.held_until = now.saturating_add(HOLD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lives through `ms` milliseconds of a server that gives `answers(open)` in each; one connection
    /// more is opened whenever it is allowed, ten times a millisecond. Returns how many are open.
    fn live(
        growth: &mut Growth,
        from_ms: u64,
        ms: u64,
        mut open: usize,
        answers: impl Fn(usize) -> u64,
    ) -> usize {
        for tick in from_ms * 10..(from_ms + ms) * 10 {
            let now = Timestamp::ZERO + Span::from_us(tick * 100);
            if tick % 10 == 0 {
                (0..answers(open)).for_each(|_| growth.on_answer(now));
            }
            open += usize::from(growth.allows(open, Span::from_ms(50), now));
        }
        open
    }

    #[test]
    fn connections_that_bring_no_more_answers_are_not_added_to() {
        // 100 answers a millisecond, whatever is open: without a hold 40,000 connections in 4 s.
        let open = live(&mut Growth::default(), 1, 4_000, 64, |_| 100);
        assert!(open < 4_000, "{open}");
    }

    #[test]
    fn connections_that_bring_answers_are_opened_without_a_hold() {
        // Every connection brings an answer each 10 ms: a server that is never full.
        let open = live(&mut Growth::default(), 1, 400, 64, |open| open as u64 / 10);
        assert_eq!(open, 64 + 4_000);
    }

    #[test]
    fn a_silent_server_and_a_worker_in_time_are_never_held() {
        let mut growth = Growth::default();
        let open = live(&mut growth, 1, 500, 64, |_| 100);
        let later = live(&mut growth, 501, 100, open, |_| 0);
        assert!(later - open >= 890, "all but the first 10 ms of 1,000 chances: {}", later - open);
        let now = Timestamp::ZERO + Span::from_ms(700);
        growth.on_answer(now);
        growth.held_until = Timestamp::MAX;
        assert!(growth.allows(64, Span::from_ms(19), now));
        assert!(!growth.allows(64, Span::from_ms(20), now));
    }
}
