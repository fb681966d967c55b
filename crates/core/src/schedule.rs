//! The stream of due times of an open loop.

use crate::arrival::{ArrivalLaw, Gaps};
use crate::profile::RateProfile;
use crate::random::Stream;
use crate::time::{Span, Timestamp};

/// A request that becomes due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its place in the whole run's stream, from 0.
    pub seq: u64,
    /// When it should leave.
    pub due: Timestamp,
}

/// Arrivals in order of time, generated when asked for: a backlog of any size costs no memory.
///
/// Every share of one schedule runs through the same whole stream and keeps its own arrivals, so
/// that n workers together send exactly the stream that one would.
#[derive(Clone, Debug)]
pub struct Schedule {
    profile: RateProfile,
    start: Timestamp,
    gaps: Option<Gaps>,
    /// The sum of the gaps so far: a place in the unit-rate stream, in requests.
    position: f64,
    cursor: usize,
    next_seq: u64,
    last_due: Timestamp,
    /// Arrivals with seq at or above it are not sent; `u64::MAX` without a limit.
    limit: u64,
    share: u64,
    of: u64,
}

impl Schedule {
    /// The arrivals of `law` under `profile`, whose time 0 lies at `start`. `stream` names the
    /// random gaps.
    pub fn new(profile: RateProfile, law: ArrivalLaw, stream: Stream, start: Timestamp) -> Self {
        let gaps = law.gaps(stream);
        Self {
            profile,
            start,
            gaps,
            position: 0.0,
            cursor: 0,
            next_seq: 0,
            last_due: start,
            limit: u64::MAX,
            share: 0,
            of: 1,
        }
    }

    /// Ends after `requests` arrivals, unless the profile ends before.
    #[must_use]
    pub fn limited_to(mut self, requests: u64) -> Self {
        self.limit = requests;
        self
    }

    /// The arrivals with seq % `of` == `share`.
    ///
    /// # Panics
    /// When `share` is not below `of`, or arrivals were already taken.
    #[must_use]
    pub fn share(mut self, share: u64, of: u64) -> Self {
        assert!(share < of, "share {share} of {of}");
        assert_eq!(self.next_seq, 0, "a share is taken before the first arrival");
        (self.share, self.of) = (share, of);
        self
    }

    /// When the arrival after the last allowed one would be due: the end of the window of a run
    /// that a request count ends. `None` where there is no count, or the profile ends first. Random
    /// arrivals have to be run through for it.
    pub fn due_after_limit(&self) -> Option<Timestamp> {
        if self.limit == u64::MAX {
            return None;
        }
        if self.gaps.is_none() {
            return self.profile.due_of_index(self.limit, &mut 0).map(|offset| self.start + offset);
        }
        let mut whole = Self { share: 0, of: 1, limit: self.limit.saturating_add(1), ..self.clone() };
        whole.by_ref().last().filter(|last| last.seq == self.limit).map(|last| last.due)
    }

    /// The next arrival of the whole stream, whoever's share it is.
    #[inline]
    fn next_of_all(&mut self) -> Option<Arrival> {
        if self.next_seq >= self.limit {
            return None;
        }
        let offset = match &mut self.gaps {
            None => self.profile.due_of_index(self.next_seq, &mut self.cursor)?,
            Some(gaps) => {
                self.position += gaps.next_gap();
                self.profile.due_of_position(self.position, &mut self.cursor)?
            }
        };
        // Rounding inside a ramp must not let a later arrival come before an earlier one.
        self.last_due = self.last_due.max(self.start + offset);
        let arrival = Arrival { seq: self.next_seq, due: self.last_due };
        self.next_seq += 1;
        Some(arrival)
    }

    /// How many arrivals of the whole stream have gone by, whoever's share they were.
    pub fn passed(&self) -> u64 {
        self.next_seq
    }

    /// True when the request count, not the profile's end, leaves nothing more to come.
    pub fn is_limit_reached(&self) -> bool {
        self.next_seq >= self.limit
    }

    /// The schedule's end: its start and the profile's length.
    pub fn end(&self) -> Timestamp {
        self.start.saturating_add(self.profile.length())
    }

    /// How long the profile lasts.
    pub fn length(&self) -> Span {
        self.profile.length()
    }
}

impl Iterator for Schedule {
    type Item = Arrival;

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        loop {
            let arrival = self.next_of_all()?;
            if arrival.seq % self.of == self.share {
                return Some(arrival);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Rate;
    use proptest::prelude::*;

    fn schedule(law: ArrivalLaw, per_second: u64, seconds: u64, seed: u64) -> Schedule {
        let profile = RateProfile::constant(Rate::per_second(per_second), Span::from_secs(seconds)).unwrap();
        Schedule::new(profile, law, Stream::new(seed, "arrivals"), Timestamp::from_ns(5))
    }

    #[test]
    fn poisson_due_times_are_pinned_to_the_bit() {
        // From an independent script in Python (SplitMix64 and math.log); another value here means
        // that old plans would run differently.
        let dues: Vec<u64> =
            schedule(ArrivalLaw::Poisson, 1000, 1, 1).take(4).map(|a| a.due.as_ns()).collect();
        assert_eq!(dues, PINNED);
    }
    const PINNED: [u64; 4] = [606_118, 2_106_030, 3_235_661, 5_406_116];

    #[test]
    fn counts_of_poisson_arrivals_have_the_dispersion_of_a_poisson_law() {
        // Variance over mean of the counts in 10 ms windows: 1, with standard error √(2/windows).
        let mut counts = vec![0f64; 10_000];
        for arrival in schedule(ArrivalLaw::Poisson, 1000, 100, 3) {
            counts[((arrival.due.as_ns() - 5) / 10_000_000) as usize] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|c| (c - mean) * (c - mean)).sum::<f64>() / counts.len() as f64;
        assert!(
            (variance / mean - 1.0).abs() < 5.0 * (2.0 / counts.len() as f64).sqrt(),
            "{}",
            variance / mean
        );
        assert!((mean - 10.0).abs() < 5.0 * (10.0 / counts.len() as f64).sqrt(), "{mean}");
    }

    #[test]
    fn a_request_count_makes_random_arrivals_exact() {
        let count = |n| schedule(ArrivalLaw::Poisson, 1000, 3600, 3).limited_to(n).count() as u64;
        assert_eq!([0, 1, 1000].map(count), [0, 1, 1000]);
    }

    #[test]
    fn the_window_of_a_counted_run_ends_where_the_next_arrival_would_be_due() {
        let even = schedule(ArrivalLaw::Even, 10, 3600, 1).limited_to(25);
        assert_eq!(even.due_after_limit(), Some(Timestamp::from_ns(5 + 2_500_000_000)));
        let longer_than_the_profile = schedule(ArrivalLaw::Even, 10, 1, 1).limited_to(25);
        assert_eq!(longer_than_the_profile.due_after_limit(), None);
    }

    proptest! {
        #[test]
        fn shares_together_are_the_whole_stream(of in 1u64..8, seed in 0u64..100, law in 0..3) {
            let law = [ArrivalLaw::Even, ArrivalLaw::Poisson, ArrivalLaw::Gamma { cv: 2.0 }][law as usize];
            let whole: Vec<Arrival> = schedule(law, 777, 1, seed).collect();
            let mut parts: Vec<Arrival> = (0..of).flat_map(|k| schedule(law, 777, 1, seed).share(k, of)).collect();
            parts.sort_by_key(|arrival| arrival.seq);
            prop_assert_eq!(whole, parts);
        }

        #[test]
        fn due_times_never_go_back(seed in 0u64..1000, cv in 0.1f64..5.0) {
            let dues: Vec<Timestamp> = schedule(ArrivalLaw::Gamma { cv }, 1000, 2, seed).map(|a| a.due).collect();
            prop_assert!(dues.is_sorted());
        }
    }
}
