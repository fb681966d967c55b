//! What there is to know of a run besides its requests.

use std::time::SystemTime;

use plimsoll_core::Span;
use plimsoll_core::Timestamp;
use plimsoll_core::plan::{Plan, WaitStrategy};
use plimsoll_stats::{ConnectionFacts, HostFacts, RunFacts};

use super::crew::Log;
use crate::os::limits::{self, ProcessUsage};

pub(super) fn gather(
    plan: &Plan,
    started_at: SystemTime,
    window: Span,
    strategy: WaitStrategy,
    interrupted: bool,
    used_before: &ProcessUsage,
    log: &Log,
) -> RunFacts {
    let process = limits::process_usage();
    let elapsed = log.finished().since(Timestamp::ZERO);
    let mut addresses: Vec<(String, u64)> = Vec::new();
    for (address, count) in log.ends.iter().flat_map(|end| &end.counts.by_address) {
        let name = address.to_string();
        match addresses.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += count,
            None => addresses.push((name, *count)),
        }
    }
    // The busiest worker counts: the others cannot take its share over.
    let busiest = log.ends.iter().filter_map(|end| end.busy_ratio).reduce(f64::max);
    let sum = |of: fn(&super::crew::End) -> u64| log.ends.iter().map(of).sum::<u64>();
    let fault = |end: &super::crew::End| {
        end.fault.as_ref().map(|error| {
            format!(
                "a worker ended before its time, since this machine could not wait for its sockets: {error}"
            )
        })
    };
    RunFacts {
        started_at,
        elapsed,
        window,
        interrupted,
        wait_strategy: match strategy {
            WaitStrategy::Auto => "auto",
            WaitStrategy::Spin => "spin",
            WaitStrategy::Sleep => "sleep",
        },
        receive_clock: receive_clock(log),
        cpu_user: process.cpu_user - used_before.cpu_user,
        cpu_system: process.cpu_system - used_before.cpu_system,
        busy_ratio: busiest,
        max_rss_bytes: Some(process.max_rss_bytes),
        connections: ConnectionFacts {
            wanted: log.wanted,
            established: log.established,
            peak: sum(|end| end.counts.peak),
            opened: sum(|end| end.counts.opened),
        },
        addresses,
        workers: plan.workers,
        notes: log.ends.iter().filter_map(fault).collect(),
        host: host(),
    }
}

/// Whose clock stamped the answers; workers that read nothing have no say.
fn receive_clock(log: &Log) -> &'static str {
    let mut clocks = log.ends.iter().filter_map(|end| end.kernel_stamps).peekable();
    if clocks.peek().is_some() && clocks.all(|kernel| kernel) { "kernel" } else { "user" }
}

fn host() -> HostFacts {
    let name = rustix::system::uname();
    HostFacts {
        os: name.sysname().to_string_lossy().into_owned(),
        kernel: name.release().to_string_lossy().into_owned(),
        cpus: limits::processors() as u32,
        cpu_model: cpu_model(),
        memory_bytes: memory_bytes(),
    }
}

#[cfg(target_os = "linux")]
fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(target_os = "linux")]
fn memory_bytes() -> Option<u64> {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).checked_mul(info.mem_unit.into())
}

#[cfg(not(target_os = "linux"))]
fn cpu_model() -> Option<String> {
    None
}

#[cfg(not(target_os = "linux"))]
fn memory_bytes() -> Option<u64> {
    None
}
