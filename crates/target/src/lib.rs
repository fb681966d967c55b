//! An HTTP/1.1 server with known behaviour, to measure against.
//!
//! Its answers come first come, first served by a number of workers, with service times of a given
//! law, and with stalls, errors, closes and resets where asked: all of it a function of a seed, so
//! what a measurement ought to find can be worked out beforehand. What the server itself saw it
//! tells to `GET /truth`.
//!
//! ```text
//! socket ─► connection ─► http ──► queue ◄── law, stall      (pure: http, queue, law, stall)
//!    ▲          │        requests    │ departures
//!    └──────────┴──── answer ◄───────┴───► truth
//! ```
//!
//! # Limits
//! - Linux only: the loop stands on epoll.
//! - One thread, whatever the number of workers: a worker is a place in the queue's arithmetic. The
//!   processor time of an answer (10 to 20 µs) comes on top where answers coincide, and shows in
//!   the truth as lateness.
//! - A request arrives when the server has read its last byte. It does not know how long the bytes
//!   lay in the kernel before.

mod answer;
pub mod config;
mod connection;
pub mod http;
mod io;
pub mod law;
pub mod queue;
mod running;
mod server;
mod slab;
pub mod stall;
mod tls;
pub mod truth;

pub use config::{ConfigError, Ratio, TargetConfig, TlsConfig, Workers};
pub use law::ServiceLaw;
pub use queue::Queue;
pub use running::{Running, Target, serve};
pub use stall::Stall;
pub use truth::Truth;
