//! Searches for a server's limits, without IO: each is asked what to try next, told what came of it, and
//! asked for its answer at any time, so that an interrupt loses nothing.
//!
//! ```text
//!  next() ─► what to try ─► (a run, somewhere else) ─► record(trial) ─► next() … ─► answer()
//! ```
//!
//! [`PeakSearch`] looks for the highest rate of a closed loop, [`RateSearch`] for the highest rate of an open
//! loop at which an objective is met.

mod peak;
mod rate;

use crate::interval::Interval;

pub use peak::{Peak, PeakSearch, PeakStep, PeakTrial, Stop};
pub use rate::{RateBounds, RateSearch, RateStep, RateTrial, Verdict};

/// Whether a trial can be used, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    /// It can.
    Usable,
    /// The generator was the limit: the server could have done more.
    Generator,
    /// The server let fewer connections stand than the clients needed.
    Connections {
        /// How many stood at the start.
        established: u64,
        /// How many were wanted.
        wanted: u64,
    },
    /// Fewer than [`crate::trust::SUCCESS_MIN_RATIO`] of the requests succeeded: it measures how fast a server
    /// fails.
    Failures {
        /// The share that did.
        success_ratio: f64,
    },
    /// There was no answer at all.
    NothingAnswered,
    /// An interrupt ended it.
    Interrupted,
}

/// A measured number and its interval; `None` where no interval could be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The number.
    pub value: f64,
    /// Its interval.
    pub interval: Option<Interval>,
}

impl Figure {
    /// Half the interval's length as a share of the number: 0.02 is ±2 %. `None` without an interval, or for
    /// a number that is not above zero.
    pub fn half_width_ratio(&self) -> Option<f64> {
        let Interval { low, high } = self.interval.filter(|_| self.value > 0.0)?;
        Some((high - low) / 2.0 / self.value)
    }

    /// This number ÷ `base`, both measured apart.
    ///
    /// With hᵢ = ln(highᵢ ÷ lowᵢ) ÷ 2, the interval is the ratio times exp(±√(h₁² + h₂²)): the logarithms of
    /// independent numbers have variances that add up (delta method; Armitage, Berry and Matthews, Statistical
    /// Methods in Medical Research, 2002, ch. 5). There is no interval where one of the two has none, or one
    /// that reaches zero.
    ///
    /// # Panics
    /// When `base` is not above zero.
    pub fn ratio_to(&self, base: &Self) -> Self {
        assert!(base.value > 0.0, "nothing can be held against a rate of {}", base.value);
        let value = self.value / base.value;
        let half_log =
            |figure: &Self| figure.interval.filter(|i| i.low > 0.0).map(|i| libm::log(i.high / i.low) / 2.0);
        let interval = half_log(self).zip(half_log(base)).map(|(a, b)| {
            let half = libm::sqrt(a * a + b * b);
            Interval { low: value * libm::exp(-half), high: value * libm::exp(half) }
        });
        Self { value, interval }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_ratio_is_wider_than_each_of_its_two() {
        let figure = |value: f64, half: f64| Figure {
            value,
            interval: Some(Interval { low: value * (1.0 - half), high: value * (1.0 + half) }),
        };
        let ratio = figure(110.0, 0.03).ratio_to(&figure(100.0, 0.04));
        // √(0.03² + 0.04²) = 0.05.
        assert!((ratio.value - 1.1).abs() < 1e-12);
        assert!((ratio.half_width_ratio().unwrap() - 0.05).abs() < 2e-4, "{ratio:?}");
        let without = Figure { value: 100.0, interval: None };
        assert_eq!(figure(110.0, 0.03).ratio_to(&without).interval, None);
        assert_eq!(figure(110.0, 0.03).ratio_to(&figure(100.0, 1.0)).interval, None);
    }
}
