//! From what a user gives to a checked [`Plan`](plimsoll_core::Plan), with all faults reported at once.
//!
//! Pure: files are read, and the machine is asked, by the caller.
//!
//! ```text
//! RunArgs (text) + Machine + Environment ─► lower ─► Lowered { plan, quantiles, … }
//!                                                └─► Faults: every value that is wrong, the limit, the remedy
//! ```

mod args;
mod environment;
mod fault;
mod files;
mod limits;
mod load;
mod lower;
mod postgres;
mod request;
mod url;
mod variables;
mod way;

pub use args::{Machine, RunArgs, SqlFile, SqlText};
pub use environment::{Environment, SOCKET_DIRECTORIES};
pub use fault::{Fault, Faults};
pub use limits::DESCRIPTORS_KEPT;
pub use load::MAX_CLIENTS;
pub use lower::{Lowered, lower};
