//! The one place that reads time.

use plimsoll_core::{Span, Timestamp};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of the machine's monotonic clock, from an origin of its own.
#[inline]
pub fn monotonic_ns() -> u64 {
    as_ns(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds of the machine's wall clock since 1970.
pub(super) fn wall_ns() -> u64 {
    as_ns(clock_gettime(ClockId::Realtime))
}

/// Processor time this thread has used.
pub fn thread_cpu() -> Span {
    Span::from_ns(as_ns(clock_gettime(ClockId::ThreadCPUTime)))
}

#[inline]
fn as_ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The run's clock: monotonic time since the run's common start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin_ns: u64,
}

impl Clock {
    /// The clock whose zero is `origin_ns` of [`monotonic_ns`].
    pub const fn new(origin_ns: u64) -> Self {
        Self { origin_ns }
    }

    /// The present; zero before the start.
    #[inline]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_ns(monotonic_ns().saturating_sub(self.origin_ns))
    }

    /// The moment of a monotonic reading, or `None` for one before the start.
    #[inline]
    pub(super) fn at_monotonic(&self, monotonic_ns: u64) -> Option<Timestamp> {
        monotonic_ns.checked_sub(self.origin_ns).map(Timestamp::from_ns)
    }
}
