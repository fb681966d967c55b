//! The pure heart of plimsoll: what is sent, when it is due, and how a request ends.
//!
//! Nothing here reads a clock, opens a socket, spawns a thread or draws unseeded randomness; the
//! caller passes `now`. The data flow inside the crate:
//!
//! ```text
//! RateProfile ─┐
//! ArrivalLaw ──┴─► Schedule ─► Dispatcher ─► Send ……(engine)…… ► Sample ─► (stats)
//! Plan ─────────────────────────┘
//! ```

pub mod arrival;
pub mod dispatch;
pub mod outcome;
pub mod plan;
pub mod profile;
pub mod random;
pub mod rate;
pub mod sample;
pub mod schedule;
pub mod share;
pub mod template;
pub mod time;
pub mod value;

pub use arrival::ArrivalLaw;
pub use dispatch::{Action, Dispatcher, Send};
pub use outcome::{DropReason, Failure, Outcome};
pub use plan::Plan;
pub use profile::RateProfile;
pub use rate::Rate;
pub use sample::{Phase, Sample};
pub use schedule::{Arrival, Schedule};
pub use template::Template;
pub use time::{Span, Timestamp};
