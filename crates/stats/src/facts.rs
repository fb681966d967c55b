//! What the engine tells about a run beside its requests. It is filled there and read by reports.

use std::time::SystemTime;

use plimsoll_core::Span;

/// A run as a whole.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// The wall clock at the run's common start: a label, never part of a calculation.
    pub started_at: SystemTime,
    /// From the common start to the end of the drain.
    pub elapsed: Span,
    /// The length of the rate window: what every rate is divided by.
    pub window: Span,
    /// The run was ended by an interrupt.
    pub interrupted: bool,
    /// The wait strategy that was used: `auto`, `spin` or `sleep`.
    pub wait_strategy: &'static str,
    /// Whose clock stamped the answers: `kernel` or `user`.
    pub receive_clock: &'static str,
    /// Processor time of the process in its own code.
    pub cpu_user: Span,
    /// Processor time of the process in the kernel.
    pub cpu_system: Span,
    /// The busiest worker's share of its rate window that was work, spinning apart; 0..=1, `None` where
    /// it was not measured.
    pub busy_ratio: Option<f64>,
    /// The largest resident memory of the process.
    pub max_rss_bytes: Option<u64>,
    /// Connections.
    pub connections: ConnectionFacts,
    /// Every address that was connected to, and how many connections it got.
    pub addresses: Vec<(String, u64)>,
    /// The number of workers that ran.
    pub workers: u32,
    /// Whole sentences worth a warning, such as a limit of this machine that changed the plan.
    pub notes: Vec<String>,
    /// The machine.
    pub host: HostFacts,
}

/// Connections of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionFacts {
    /// What the plan wanted open before the start; `None` where they are opened as needed.
    pub wanted: Option<u64>,
    /// How many of those stood at the start.
    pub established: u64,
    /// The most open at once.
    pub peak: u64,
    /// How many were opened in all.
    pub opened: u64,
}

/// The machine the load came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// The operating system.
    pub os: String,
    /// Its kernel's version.
    pub kernel: String,
    /// Processors this process may use.
    pub cpus: u32,
    /// The processor's name; `None` where it is not known.
    pub cpu_model: Option<String>,
    /// Memory of the machine; `None` where it is not known.
    pub memory_bytes: Option<u64>,
}
