//! From what was recorded to what people and programs read.
//!
//! ```text
//! Plan + RunFacts + Recorder ─► RunV1 ─┬─► JSON   plimsoll-run/1, the whole result
//!                             (build)  └─► text   the summary, made from the RunV1 alone
//! ```
//!
//! [`RunV1`] is the published form: whatever a text shows stands in it, and a file written once can
//! be shown again by any later version.

pub mod build;
pub mod format;
pub mod model;
pub mod profile;
pub mod progress;
pub mod text;
mod trust;
mod warnings;

pub use model::RunV1;
pub use profile::{ProfileV1, TrialV1};
pub use progress::{Progress, progress_line};
