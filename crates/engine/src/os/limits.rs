//! What this machine allows: descriptors, processors, memory used.

use plimsoll_core::Span;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open descriptors to the hard one; returns the limit in force.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}

/// The processors this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What this process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUsage {
    /// Processor time in its own code.
    pub cpu_user: Span,
    /// Processor time in the kernel on its behalf.
    pub cpu_system: Span,
    /// The most memory it had resident, in bytes.
    pub max_rss_bytes: u64,
}

/// Reads what this process has used so far.
pub fn process_usage() -> ProcessUsage {
    // SAFETY: an all-zero rusage is valid, and getrusage fills the one it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let span = |t: libc::timeval| Span::from_ns(t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000);
    // Linux tells kilobytes, macOS bytes.
    let unit = if cfg!(target_os = "linux") { 1024 } else { 1 };
    ProcessUsage {
        cpu_user: span(usage.ru_utime),
        cpu_system: span(usage.ru_stime),
        max_rss_bytes: resident_peak_bytes().unwrap_or(usage.ru_maxrss as u64 * unit),
    }
}

/// The peak of this program alone. On Linux `getrusage` counts what the process was before it began
/// this program too: started by a large one it would tell that one's memory.
#[cfg(target_os = "linux")]
fn resident_peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(not(target_os = "linux"))]
fn resident_peak_bytes() -> Option<u64> {
    None
}
