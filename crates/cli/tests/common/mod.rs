//! What the end-to-end tests share: the program under test, the servers it is pointed at, and what
//! must hold of every result whatever was measured.

pub(crate) mod certificates;
pub(crate) mod laws;
pub(crate) mod nginx;
pub(crate) mod postgres;
pub(crate) mod program;
pub(crate) mod scripted;

use std::time::{Duration, Instant};

/// A guard against hanging, at least ten times what anything here takes.
pub(crate) const HANG: Duration = Duration::from_secs(120);

/// Waits until `seen` holds.
pub(crate) fn eventually(what: &str, mut seen: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !seen() {
        assert!(begun.elapsed() < HANG, "{what}: not within {HANG:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A program from the machine that a test needs. The test fails where it is missing.
pub(crate) fn machine_program(name: &str, remedy: &str) -> std::path::PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Programs of the administrator are not always on an ordinary user's path.
    let more = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    std::env::split_paths(&path)
        .chain(more)
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("{name} is missing; {remedy}"))
}
