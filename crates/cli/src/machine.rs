//! What must be known of this machine to check a run.

use plimsoll_scenario::Machine;
use rustix::process::{Resource, getrlimit};

/// Asks this machine.
pub(crate) fn this_machine() -> Machine {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // The hard limit: the soft one is raised to it before connections are opened.
    let descriptors = getrlimit(Resource::Nofile).maximum;
    Machine {
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        descriptor_limit: descriptors.unwrap_or(u64::MAX),
    }
}
