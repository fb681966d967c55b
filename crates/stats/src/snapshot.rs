//! The state of a run at an instant, as it is shown, kept and merged.

use crate::recorder::Recorder;

/// Everything recorded from a run's start up to an instant.
///
/// Snapshots are cumulative: the last one holds all, so losing one loses nothing. Numbers rise by
/// one from 1; of two snapshots of the same run the higher number replaces the lower. Snapshots of
/// different machines are merged by their recorders.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its place in the run's sequence, from 1.
    pub number: u64,
    /// The version of what a recorder holds and means, [`Snapshot::VERSION`].
    pub version: u32,
    /// All that was recorded.
    pub recorder: Recorder,
}

impl Snapshot {
    /// Raised whenever the meaning of a recorder's contents changes, so that machines of different
    /// versions do not add up different things.
    pub const VERSION: u32 = 1;

    /// The snapshot with this number.
    pub fn new(number: u64, recorder: Recorder) -> Self {
        Self { number, version: Self::VERSION, recorder }
    }
}
