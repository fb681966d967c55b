//! The engine's worker on virtual time: the code that measures, against a network and servers whose
//! every nanosecond is known.
//!
//! ```text
//! Worker ─► Pool ─► codec ─► SimSystem ─► World: clock, wire, Server
//! ```
//!
//! Nothing here reads a real clock or opens a socket; a run is a function of its plan, its server
//! and its wire, and replays exactly. Only tests use this crate.

pub mod chaos;
pub mod drive;
pub mod plans;
pub mod queue;
pub mod server;
pub mod testing;
pub mod theory;
pub mod wire;
pub mod world;

pub use drive::{Run, Simulation};
pub use server::{Acceptance, Net, Server};
pub use wire::Wire;
pub use world::{SimSystem, World};
