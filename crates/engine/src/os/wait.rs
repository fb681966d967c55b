//! Wait strategies: how a worker gets from now to the next due time.
//!
//! Sleeping is cheap and late: a timer interrupt and a wake-up stand between the moment asked for
//! and the moment the thread runs (60–80 µs on a 2-core virtual machine). Spinning is on time and
//! costs a processor. `auto` sleeps up to a margin before the due time and spins the rest; the
//! margin is how late this machine wakes, measured at the start.

use std::io;

use plimsoll_core::plan::WaitStrategy;
use plimsoll_core::{Span, Timestamp};

use super::clock::{Clock, monotonic_ns};
use super::poller::Poller;

/// Sleeps taken to calibrate the margin: 24 of 200 µs stay below 8 ms.
const CALIBRATION_SLEEPS: usize = 24;
const CALIBRATION_SLEEP: Span = Span::from_us(200);
/// The margin is the largest lateness seen, and this much more for those not seen.
const MARGIN_SPARE: Span = Span::from_us(50);
/// A margin outside this range is a machine's bad moment, not its habit.
const MARGIN_LEAST: Span = Span::from_us(100);
const MARGIN_MOST: Span = Span::from_us(600);
/// So close to a due time the sockets are not looked at any more: a look costs about 0.4 µs.
const CLOCK_ONLY: Span = Span::from_us(2);

/// How late this machine wakes from sleep.
#[derive(Clone, Copy, Debug)]
pub struct Calibration {
    margin: Span,
}

impl Calibration {
    /// Measures it with a handful of short sleeps of the calling thread.
    ///
    /// # Errors
    /// When the machine cannot wait at all.
    pub fn measure() -> io::Result<Self> {
        sleep_exactly();
        let mut poller = Poller::new()?;
        let mut latest = Span::ZERO;
        for _ in 0..CALIBRATION_SLEEPS {
            let before = monotonic_ns();
            poller.wait(CALIBRATION_SLEEP)?;
            let slept = Span::from_ns(monotonic_ns().saturating_sub(before));
            latest = latest.max(Span::from_ns(slept.as_ns().saturating_sub(CALIBRATION_SLEEP.as_ns())));
        }
        Ok(Self { margin: latest.saturating_add(MARGIN_SPARE).clamp(MARGIN_LEAST, MARGIN_MOST) })
    }

    /// How long before a due time a worker must wake to be sure of it.
    pub fn margin(&self) -> Span {
        self.margin
    }
}

/// Asks the kernel to end this thread's sleeps when asked, not up to 50 µs later to save power.
pub(super) fn sleep_exactly() {
    #[cfg(target_os = "linux")]
    // A kernel that refuses leaves the thread with the usual slack, which calibration sees.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// The strategy at work.
#[derive(Debug)]
pub(super) struct Waiter {
    /// So long before a due time sleeping ends; [`Span::MAX`] never sleeps, zero never spins.
    margin: Span,
    spun: Span,
}

impl Waiter {
    pub(super) fn new(strategy: WaitStrategy, calibration: Calibration) -> Self {
        let margin = match strategy {
            WaitStrategy::Auto => calibration.margin,
            WaitStrategy::Spin => Span::MAX,
            WaitStrategy::Sleep => Span::ZERO,
        };
        Self { margin, spun: Span::ZERO }
    }

    pub(super) fn spun(&self) -> Span {
        self.spun
    }

    /// Returns when a socket is ready, `due` or `timer` has come, or sleeping must give way to
    /// spinning; the caller, having looked, calls again.
    #[inline]
    pub(super) fn wait(
        &mut self,
        clock: &mut Clock,
        poller: &mut Poller,
        now: Timestamp,
        due: Timestamp,
        timer: Timestamp,
    ) -> io::Result<()> {
        let until = due.min(timer);
        if until <= now {
            poller.wait(Span::ZERO)?;
            return Ok(());
        }
        let sleep_until = due.saturating_sub(self.margin).min(timer);
        if sleep_until > now && self.margin != Span::MAX {
            poller.wait(sleep_until.since(now))?;
            return Ok(());
        }
        self.spin(clock, poller, now, until)
    }

    fn spin(
        &mut self,
        clock: &mut Clock,
        poller: &mut Poller,
        start: Timestamp,
        until: Timestamp,
    ) -> io::Result<()> {
        let mut now = start;
        while now < until {
            if until.since(now) > CLOCK_ONLY && poller.wait(Span::ZERO)? > 0 {
                break;
            }
            std::hint::spin_loop();
            now = clock.now();
        }
        self.spun += now.since(start);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_stays_in_its_range() {
        let margin = Calibration::measure().unwrap().margin();
        assert!((MARGIN_LEAST..=MARGIN_MOST).contains(&margin), "{margin}");
    }

    #[test]
    fn no_strategy_comes_back_from_a_lonely_wait_before_the_due_time_for_good() {
        for strategy in [WaitStrategy::Auto, WaitStrategy::Spin, WaitStrategy::Sleep] {
            let calibration = Calibration::measure().unwrap();
            let mut waiter = Waiter::new(strategy, calibration);
            let (mut clock, mut poller) = (Clock::new(monotonic_ns()), Poller::new().unwrap());
            let due = Timestamp::ZERO + Span::from_ms(2);
            let mut turns = 0;
            while clock.now() < due {
                let now = clock.now();
                waiter.wait(&mut clock, &mut poller, now, due, Timestamp::MAX).unwrap();
                turns += 1;
                assert!(turns < 1000, "{strategy:?} does not get there");
            }
            // Whether that took any spinning is the machine's mood: it may wake from sleep too late for
            // it. So close to a due time, though, only `sleep` does not spin.
            let now = clock.now();
            waiter.wait(&mut clock, &mut poller, now, now + Span::from_us(50), Timestamp::MAX).unwrap();
            assert_eq!(waiter.spun().is_zero(), strategy == WaitStrategy::Sleep);
        }
    }
}
