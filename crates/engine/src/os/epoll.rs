//! Readiness by epoll, edge-triggered, with nanosecond timeouts (`epoll_pwait2`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use plimsoll_core::Span;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::Timespec;

use crate::system::Ready;

/// The most sockets taken up in one wait. More would only make the later ones wait longer for
/// their turn while they could as well wait in the kernel.
const BATCH: usize = 128;

/// The longest single sleep; the caller asks again.
const LONGEST: Span = Span::from_secs(60);

/// An epoll instance and the events of its last wait.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    next: usize,
}

impl Poller {
    /// A poller that watches nothing yet.
    ///
    /// # Errors
    /// When the kernel has no descriptor or memory left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(BATCH), next: 0 })
    }

    /// Watches `source` for reading and writing, told on edges, until it is closed.
    ///
    /// # Errors
    /// As `epoll_ctl`.
    pub fn add(&self, source: impl AsFd, key: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(key), flags(true))?)
    }

    /// Goes on watching `source`, for writing only where that is `wanted`.
    ///
    /// # Errors
    /// As `epoll_ctl`.
    pub fn watch_writes(&self, source: impl AsFd, key: u64, wanted: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, EventData::new_u64(key), flags(wanted))?)
    }

    /// Nothing to do: the kernel forgets a descriptor when it is closed.
    pub fn remove(&self, _source: impl AsFd) {}

    /// Waits at most `timeout` and keeps what is ready; returns how many.
    ///
    /// # Errors
    /// As `epoll_pwait2`; a signal is no error.
    #[inline]
    pub fn wait(&mut self, timeout: Span) -> io::Result<usize> {
        self.next = 0;
        self.events.clear();
        let ns = timeout.min(LONGEST).as_ns();
        let timeout = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// The next of what the last wait found, each once.
    #[inline]
    pub fn next_ready(&mut self) -> Option<Ready> {
        let event = self.events.get(self.next)?;
        self.next += 1;
        let flags = event.flags;
        Some(Ready {
            key: event.data.u64(),
            readable: flags.contains(EventFlags::IN),
            writable: flags.contains(EventFlags::OUT),
            hang_up: flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR),
        })
    }
}

fn flags(writes: bool) -> EventFlags {
    let reads = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if writes { reads | EventFlags::OUT } else { reads }
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}

// SAFETY: the pointer that keeps this from being automatic is one face of a union whose other face,
// a number, is the only one written and read here.
unsafe impl Send for Poller {}
