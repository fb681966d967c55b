//! The part of the pool that belongs to one target.

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
    opened: Vec<u64>,
}

impl Lane {
    pub(super) fn new(setup: TargetSetup) -> Self {
        let opened = vec![0; setup.addresses.len()];
        Self { setup, idle: SlotList::default(), waiters: SlotList::default(), preferred: 0, opened }
    }

    /// A connection to `address` was established.
    pub(super) fn opened(&mut self, address: usize) {
        self.opened[address] += 1;
        self.preferred = address;
    }

    pub(super) fn has_opened(&self, address: usize) -> bool {
        self.opened[address] > 0
    }

    pub(super) fn opened_by_address(&self) -> impl Iterator<Item = (Address, u64)> + '_ {
        self.setup.addresses.iter().cloned().zip(self.opened.iter().copied()).filter(|(_, count)| *count > 0)
    }
}
