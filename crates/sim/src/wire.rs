//! How bytes travel in the simulated world, and how well its machine keeps time.

use plimsoll_core::{Span, Timestamp};

/// How bytes travel.
#[derive(Clone, Debug)]
pub struct Wire {
    /// One way, for everything.
    pub delay: Span,
    /// A client's write takes at most so many bytes; the next must wait for `write_pause`.
    pub write_bytes: usize,
    /// See above.
    pub write_pause: Span,
    /// A server's bytes arrive in pieces of at most so many…
    pub read_bytes: usize,
    /// … so long after each other.
    pub read_pause: Span,
    /// The machine is late: the first wait that ends at or after a moment ends so much later.
    pub late_wakes: Vec<(Timestamp, Span)>,
    /// Every reading of the clock takes so long, as it does on real machines: then no two readings
    /// of one turn are the same.
    pub reading: Span,
    /// Reads carry the moment at which their last byte came.
    pub stamps: bool,
}

impl Default for Wire {
    /// No delay, whole writes and reads, a machine that is never late.
    fn default() -> Self {
        Self {
            delay: Span::ZERO,
            write_bytes: usize::MAX,
            write_pause: Span::ZERO,
            read_bytes: usize::MAX,
            read_pause: Span::ZERO,
            late_wakes: Vec::new(),
            reading: Span::ZERO,
            stamps: true,
        }
    }
}
