//! Readiness by kqueue, edge-triggered (`EV_CLEAR`), with nanosecond timeouts.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use plimsoll_core::Span;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::kqueue::{self, Event, EventFilter, EventFlags};

use crate::system::Ready;

/// The most events taken up in one wait.
const BATCH: usize = 128;

/// The longest single sleep; the caller asks again.
const LONGEST: Span = Span::from_secs(60);

/// A kqueue and the events of its last wait.
pub struct Poller {
    queue: OwnedFd,
    events: Vec<Event>,
    next: usize,
}

impl Poller {
    /// A poller that watches nothing yet.
    ///
    /// # Errors
    /// When the kernel has no descriptor or memory left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { queue: kqueue::kqueue()?, events: Vec::with_capacity(BATCH), next: 0 })
    }

    /// Watches `source` for reading and writing, told on edges, until it is closed.
    ///
    /// # Errors
    /// As `kevent`.
    pub fn add(&self, source: impl AsFd, key: u64) -> io::Result<()> {
        let descriptor = source.as_fd().as_raw_fd();
        let flags = EventFlags::ADD | EventFlags::CLEAR;
        let data = key as usize as *mut std::ffi::c_void;
        let changes = [
            Event::new(EventFilter::Read(descriptor), flags, data),
            Event::new(EventFilter::Write(descriptor), flags, data),
        ];
        let mut none: [Event; 0] = [];
        // SAFETY: the descriptor is open for the length of this call, and the kernel forgets it
        // when it is closed; the user data is a number that nobody dereferences.
        unsafe { kqueue::kevent_timespec(&self.queue, &changes, &mut none, Some(&Timespec::default()))? };
        Ok(())
    }

    /// Goes on watching `source`, for writing only where that is `wanted`.
    ///
    /// # Errors
    /// As `kevent`.
    pub fn watch_writes(&self, source: impl AsFd, key: u64, wanted: bool) -> io::Result<()> {
        let descriptor = source.as_fd().as_raw_fd();
        let flags = if wanted { EventFlags::ADD | EventFlags::CLEAR } else { EventFlags::DELETE };
        let data = key as usize as *mut std::ffi::c_void;
        let changes = [Event::new(EventFilter::Write(descriptor), flags, data)];
        let mut none: [Event; 0] = [];
        // SAFETY: as in `add`.
        unsafe { kqueue::kevent_timespec(&self.queue, &changes, &mut none, Some(&Timespec::default()))? };
        Ok(())
    }

    /// Nothing to do: the kernel forgets a descriptor when it is closed.
    pub fn remove(&self, _source: impl AsFd) {}

    /// Waits at most `timeout` and keeps what is ready; returns how many events.
    ///
    /// # Errors
    /// As `kevent`; a signal is no error.
    pub fn wait(&mut self, timeout: Span) -> io::Result<usize> {
        self.next = 0;
        self.events.clear();
        let ns = timeout.min(LONGEST).as_ns();
        let timeout = Timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
        // SAFETY: no change is made, so no descriptor is handed over.
        let found = unsafe {
            kqueue::kevent_timespec(&self.queue, &[], spare_capacity(&mut self.events), Some(&timeout))
        };
        match found {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// The next of what the last wait found, each once. Reading and writing come apart here.
    pub fn next_ready(&mut self) -> Option<Ready> {
        let event = self.events.get(self.next)?;
        self.next += 1;
        let readable = matches!(event.filter(), EventFilter::Read(_));
        Some(Ready {
            key: event.udata() as usize as u64,
            readable,
            writable: !readable,
            hang_up: event.flags().intersects(EventFlags::EOF | EventFlags::ERROR),
        })
    }
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller").field("queue", &self.queue).finish_non_exhaustive()
    }
}

// SAFETY: the pointers that keep this from being automatic are the events' user data, in which only
// numbers are kept.
unsafe impl Send for Poller {}
