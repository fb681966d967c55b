//! What is kept of a run and what is asked of it: counts, histograms, the series over time, and
//! the objectives they are held against.
//!
//! Nothing here reads a clock or does IO. The data flow inside the crate:
//!
//! ```text
//! Sample ─► Recorder ─┬─ Counts        the one account
//!  (one a worker)     ├─ Histogram     by span and by end
//!                     └─ Windows       the same over time
//! Recorder + Recorder ─► Snapshot (cumulative) ─┬─► Series ─► n_eff, intervals ─┐
//!                                               └──────────────────────────────┴► Objective, (report)
//! what was observed of a whole run ─► trust: the checks that a verdict rests on
//! ```
//!
//! Everything a [`Recorder`] holds adds up: merging the recorders of any split of the samples gives
//! what one recorder fed with all of them would hold.

mod buckets;
pub mod counts;
pub mod dependence;
pub mod facts;
pub mod fit;
pub mod histogram;
pub mod interval;
pub mod knee;
pub mod queueing;
pub mod recorder;
pub mod search;
pub mod slo;
pub mod snapshot;
pub mod trust;
pub mod windows;

pub use counts::Counts;
pub use dependence::Series;
pub use facts::{ConnectionFacts, HostFacts, RunFacts};
pub use histogram::Histogram;
pub use interval::{Interval, QuantileInterval};
pub use recorder::{OperationRecorder, Recorder, RecorderConfig};
pub use slo::{Evaluation, Objective, Status};
pub use snapshot::Snapshot;
pub use trust::Trust;
pub use windows::{WindowRow, Windows};
