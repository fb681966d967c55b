//! The engine: takes a plan's due times to sockets, and what came of them to a recorder.
//!
//! ```text
//! Dispatcher ─► Worker ─► Execute (Pool) ─► codec ─► System (Os) ─► the network
//!                 │            connections    proto     clock, sockets, wait
//!                 ▼
//!             Recorder
//! ```
//!
//! One thread a worker; workers share nothing but a command channel. This is the only crate of the
//! project with `unsafe` code (receive time stamps, kqueue, getrusage) and with threads of its own.

mod busy;
pub mod execute;
mod growth;
mod list;
pub mod os;
pub mod pool;
pub mod resolve;
pub mod run;
pub mod session;
mod slots;
pub mod system;
pub mod tls;
pub mod worker;

pub use run::{Outcome, RunError, Unwatched, Watch, run};
pub use slots::Id;
