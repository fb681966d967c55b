//! A worker's or a machine's share of a plan: which clients, which arrivals, how much of a limit.

use crate::dispatch::{ClosedLoop, Dispatcher, Limits, Mix, OpenLoop};
use crate::plan::{Load, Plan};
use crate::profile::{ProfileError, RateProfile, Stage};
use crate::random::Stream;
use crate::schedule::Schedule;
use crate::time::{Span, Timestamp};

/// Share `number` of `of` equal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which one, from 0.
    pub number: u32,
    /// Of how many.
    pub of: u32,
}

impl Share {
    /// The only share.
    pub const WHOLE: Self = Self { number: 0, of: 1 };

    /// This share of `total` things; shares differ by at most one and add up to `total`.
    pub fn part(self, total: u64) -> u64 {
        let (number, of) = (u64::from(self.number), u64::from(self.of));
        total / of + u64::from(number < total % of)
    }
}

/// The moments of a run that its plan alone decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The end of the warm-up and start of the measured part.
    pub start: Timestamp,
    /// The end of the measured part: of what can become due, and of the window that rates are
    /// counted in. [`Timestamp::MAX`] where a closed loop's request count alone ends it.
    pub end: Timestamp,
}

impl Times {
    /// The moments of `plan`. With a request count this runs through all of an open loop's random arrivals.
    pub fn of(plan: &Plan) -> Self {
        let start = Timestamp::ZERO + plan.warmup;
        let end = match &plan.load {
            Load::Closed { duration, .. } => {
                duration.map_or(Timestamp::MAX, |length| start.saturating_add(length))
            }
            Load::Open { .. } => {
                let schedule = measured_schedule(plan);
                schedule.due_after_limit().unwrap_or(schedule.end())
            }
        };
        Self { start, end }
    }
}

/// The dispatcher of a share of `plan`.
///
/// # Panics
/// When the plan's stages start with a rate that cannot be kept up for its warm-up: the plan's
/// maker has ruled it out.
pub fn dispatcher(plan: &Plan, share: Share) -> Box<dyn Dispatcher + std::marker::Send> {
    let mix = Mix::new(&plan.operations, plan.seed);
    match &plan.load {
        Load::Open { .. } => {
            let (number, of) = (share.number.into(), share.of.into());
            let warmup = warmup_schedule(plan).map(|schedule| schedule.share(number, of));
            Box::new(OpenLoop::new(warmup, measured_schedule(plan).share(number, of), mix))
        }
        Load::Closed { clients, requests, .. } => {
            let times = Times::of(plan);
            let limits = Limits {
                warmup_end: times.start,
                end: times.end,
                requests: requests.map_or(u64::MAX, |n| share.part(n)),
            };
            Box::new(ClosedLoop::new(*clients, share.number, share.of, limits, mix))
        }
    }
}

fn measured_schedule(plan: &Plan) -> Schedule {
    let Load::Open { profile, arrivals, requests } = &plan.load else {
        panic!("only an open loop has a schedule")
    };
    let start = Timestamp::ZERO + plan.warmup;
    let schedule = Schedule::new(profile.clone(), *arrivals, Stream::new(plan.seed, "arrivals"), start);
    match requests {
        Some(requests) => schedule.limited_to(*requests),
        None => schedule,
    }
}

/// The warm-up keeps the rate with which the measured part begins; `None` without one, or where
/// that rate is zero.
fn warmup_schedule(plan: &Plan) -> Option<Schedule> {
    let Load::Open { profile, arrivals, .. } = &plan.load else { return None };
    let rate = profile.stages().first()?.from;
    let profile = match RateProfile::new(vec![Stage { from: rate, to: rate, length: plan.warmup }]) {
        Ok(profile) => profile,
        Err(ProfileError::ZeroLength | ProfileError::NoRequests) => return None,
        Err(error) => panic!("the first rate of a usable profile is usable: {error}"),
    };
    Some(Schedule::new(profile, *arrivals, Stream::new(plan.seed, "warm-up arrivals"), Timestamp::ZERO))
}

/// The length with which the series' windows begin. How long a run will be is not known: a count, an interrupt
/// or intervals that are narrow enough may end it.
pub const FIRST_WINDOW_LENGTH: Span = Span::from_ms(100);

/// The least length of the windows of a run that is over, with a measured part of length `measured`: 100 ms
/// under 20 s or where it is unknown, else 1 s.
pub fn window_length(measured: Span) -> Span {
    if (Span::from_secs(20)..Span::MAX).contains(&measured) {
        Span::from_secs(1)
    } else {
        FIRST_WINDOW_LENGTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_a_run_that_is_over_are_seconds_from_20_s_on() {
        let length_ms = |ms: u64| window_length(Span::from_ms(ms)).as_ns() / 1_000_000;
        assert_eq!([0, 2_000, 19_999, 20_000, 3_600_000].map(length_ms), [100, 100, 100, 1_000, 1_000]);
        assert_eq!(window_length(Span::MAX), FIRST_WINDOW_LENGTH);
    }

    #[test]
    fn shares_of_a_total_differ_by_at_most_one_and_lose_nothing() {
        for total in 0..40 {
            for of in 1..9 {
                let parts: Vec<u64> = (0..of).map(|number| Share { number, of }.part(total)).collect();
                assert_eq!(parts.iter().sum::<u64>(), total);
                assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1);
            }
        }
    }
}
