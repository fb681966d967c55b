//! The part of the pool that belongs to one target.

use plimsoll_core::dispatch::{BACK_OFF_FIRST, BACK_OFF_LONGEST};
use plimsoll_core::{Span, Timestamp};

use super::TargetSetup;
use crate::list::SlotList;
use crate::system::Address;

/// A target's idle connections, its line of requests, and its addresses.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) setup: TargetSetup,
    /// Free connections; the one used last stands at the end.
    pub(super) idle: SlotList,
    /// Attempts that wait for a connection, the oldest first.
    pub(super) waiters: SlotList,
    /// The address the next connection begins with: the first one, until it fails and another is
    /// established.
    pub(super) preferred: usize,
    /// The last pause; zero once a connection has answered.
    pause: Span,
    /// When the pause ends; [`Timestamp::MAX`] where there is none.
    pub(super) pause_end: Timestamp,
    /// The server could be had without TLS only, which the plan allows: it is not asked for again.
    pub(super) without_tls: bool,
    opened: Vec<u64>,
}

impl Lane {
    pub(super) fn new(setup: TargetSetup) -> Self {
        Self {
            opened: vec![0; setup.addresses.len()],
            setup,
            idle: SlotList::default(),
            waiters: SlotList::default(),
            preferred: 0,
            pause: Span::ZERO,
            pause_end: Timestamp::MAX,
            without_tls: false,
        }
    }

    /// A connection to `address` was established.
    pub(super) fn opened(&mut self, address: usize) {
        self.opened[address] += 1;
        self.preferred = address;
    }

    /// A connection could not be opened, or was ended by the server. Where opening one is dear, a pause
    /// follows, in which requests wait for the connections there are: as long as a client's back-off, and
    /// twice as long each time. Of several that fail together, the first begins it.
    pub(super) fn failed(&mut self, now: Timestamp) {
        if self.setup.session.opens_ahead() && self.pause_end == Timestamp::MAX {
            self.pause = self.pause.saturating_mul(2).clamp(BACK_OFF_FIRST, BACK_OFF_LONGEST);
            self.pause_end = now.saturating_add(self.pause);
        }
    }

    /// A connection has answered.
    #[inline]
    pub(super) fn answered(&mut self) {
        if !self.pause.is_zero() {
            self.no_pause();
        }
    }

    /// Nothing stands in the way of the next connect.
    pub(super) fn no_pause(&mut self) {
        self.pause = Span::ZERO;
        self.pause_end = Timestamp::MAX;
    }

    /// Ends the pause where its time has come.
    pub(super) fn on_timer(&mut self, now: Timestamp) {
        if self.pause_end <= now {
            self.pause_end = Timestamp::MAX;
        }
    }

    /// Whether a connection may be opened while `connecting` are being: after a failure one at a time.
    pub(super) fn may_connect(&self, connecting: impl FnOnce() -> usize) -> bool {
        self.pause.is_zero() || (self.pause_end == Timestamp::MAX && connecting() == 0)
    }

    pub(super) fn has_opened(&self, address: usize) -> bool {
        self.opened[address] > 0
    }

    pub(super) fn opened_by_address(&self) -> impl Iterator<Item = (Address, u64)> + '_ {
        self.setup.addresses.iter().cloned().zip(self.opened.iter().copied()).filter(|(_, count)| *count > 0)
    }
}
