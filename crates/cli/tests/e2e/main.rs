//! The program against real servers on this machine: nginx, the embedded target, and servers that
//! say exactly what a test wants. Tests are named after the cases they hold. Exact times are held by
//! the simulation; here times only bound from below what must have been waited for, and guard
//! against hanging.

#[path = "../common/mod.rs"]
mod common;

mod command_line;
mod connections;
mod faults;
mod framing;
mod interrupts;
mod live;
mod local_ports;
mod memory;
mod nginx;
mod nginx_tls;
mod output;
mod overload;
mod postgres_login;
mod postgres_outages;
mod postgres_queries;
mod search;
mod stopped;
mod text;
mod timing;
mod tls;

use plimsoll_target::{Running, Target, TargetConfig};

/// An embedded target; it stops when it is dropped.
fn target(config: TargetConfig) -> Running {
    Target::start(config).expect("a target on a free port")
}

/// Parses a part of a target's configuration.
fn read<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("one of the accepted forms")
}

/// The URL of a target.
fn url(target: &Running) -> String {
    format!("http://{}/", target.address())
}
