//! The pool's connections until they can carry requests: transport, addresses in turn, TLS, the
//! protocol's start.

use std::io;

use plimsoll_core::{Failure, Timestamp};

use super::Pool;
use super::connection::{Connection, State};
use crate::execute::AttemptResult;
use crate::slots::Id;
use crate::system::{Address, System};

impl<S: System> Pool<S> {
    pub(super) fn open(&mut self, system: &mut S, lane: usize, now: Timestamp) {
        let address = self.lanes[lane].preferred;
        let id = self.connections.insert(Connection::new(lane, address, now));
        self.connect_timers.push_back(id.slot);
        self.try_address(system, id, now);
    }

    /// Begins to connect to the connection's present address.
    pub(super) fn try_address(&mut self, system: &mut S, id: Id, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let address = &self.lanes[connection.lane].setup.addresses[connection.address];
        match system.connect(address, id.to_bits()) {
            Ok(socket) => connection.socket = Some(socket),
            Err(error) => {
                let (failure, text) = connect_failure(&error, address);
                self.address_failed(system, id, failure, text, now);
            }
        }
    }

    /// An address of the target did not answer: the next one is tried, with the whole time again;
    /// after the last the connect has failed.
    pub(super) fn address_failed(
        &mut self,
        system: &mut S,
        id: Id,
        failure: Failure,
        text: String,
        now: Timestamp,
    ) {
        self.note(failure, text);
        let handshaking = self.connections.get_mut(id).is_some_and(|c| c.state == State::Handshaking);
        if handshaking && matches!(failure, Failure::Tls(_)) && self.try_without_tls(system, id) {
            return;
        }
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let Some(socket) = connection.socket.take() {
            system.close(socket);
        }
        let lane = &mut self.lanes[connection.lane];
        let addresses = lane.setup.addresses.len();
        connection.tried += 1;
        if connection.tried < addresses && !failure.is_generators_own() {
            connection.address = (connection.address + 1) % addresses;
            if lane.preferred != connection.address && !lane.has_opened(lane.preferred) {
                lane.preferred = connection.address;
            }
            self.begin_again(system, id);
            return;
        }
        self.opening_failed(system, id, failure, now);
    }

    /// Begins to connect anew, to what is the connection's address now.
    fn begin_again(&mut self, system: &mut S, id: Id) {
        self.connect_timers.remove(id.slot);
        // Under a new name, so that late news of the old socket is not taken for the new one's.
        let Some(mut connection) = self.connections.remove(id) else { return };
        if let Some(socket) = connection.socket.take() {
            system.close(socket);
        }
        // From the present: the moment of a failure may lie far behind a late worker.
        let now = system.now();
        connection.restart(now);
        let id = self.connections.insert(connection);
        self.connect_timers.push_back(id.slot);
        self.try_address(system, id, now);
    }

    /// The protocol did not let the connection in.
    pub(super) fn refused(&mut self, system: &mut S, id: Id, failure: Failure, now: Timestamp) {
        // invalid_authorization_specification: no line of the server's rules fits, which may be for the TLS.
        let by_rules = failure == Failure::SqlState(*b"28000");
        if !(by_rules && self.try_without_tls(system, id)) {
            self.opening_failed(system, id, failure, now);
        }
    }

    /// Tries the same address without TLS, where it was tried with and need not be; false where not.
    fn try_without_tls(&mut self, system: &mut S, id: Id) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return false };
        let lane = &mut self.lanes[connection.lane];
        if connection.tls.is_none() || !lane.setup.session.tls_is_optional() {
            return false;
        }
        lane.without_tls = true;
        self.begin_again(system, id);
        true
    }

    /// A connection could not be opened, and there is no other way to try; with it goes the head of the
    /// line, where no other is being opened for it.
    pub(super) fn opening_failed(&mut self, system: &mut S, id: Id, failure: Failure, now: Timestamp) {
        let Some(connection) = self.connections.remove(id) else { return };
        let lane = connection.lane;
        if let Some(socket) = connection.socket {
            system.close(socket);
        }
        self.connect_timers.remove(id.slot);
        self.lanes[lane].failed(now);
        self.shorten_line(lane, failure, now);
    }

    /// The server ended a connection that carried nothing, perhaps just after it was opened for somebody.
    pub(super) fn ended_idle(&mut self, system: &mut S, id: Id, failure: Failure, now: Timestamp) {
        let Some(lane) = self.connections.get_mut(id).map(|connection| connection.lane) else { return };
        self.close(system, id);
        self.lanes[lane].failed(now);
        self.shorten_line(lane, failure, now);
    }

    /// Ends the head of a line that is longer than the connects under way for it.
    fn shorten_line(&mut self, lane: usize, failure: Failure, now: Timestamp) {
        let waiting = self.lanes[lane].waiters.len();
        if waiting > self.lane_connecting(lane)
            && let Some(slot) = self.lanes[lane].waiters.pop_front()
        {
            self.end(slot, now, None, AttemptResult::Failed(failure));
        }
    }

    pub(super) fn lane_connecting(&self, lane: usize) -> usize {
        match self.lanes.len() {
            1 => self.connecting(),
            _ => self
                .connect_timers
                .iter()
                .filter(|slot| self.connections.at(*slot).is_some_and(|c| c.lane == lane))
                .count(),
        }
    }

    /// The transport is there: TLS begins, or the protocol does and asks for TLS itself.
    pub(super) fn transport_established(&mut self, system: &mut S, id: Id, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let setup = &self.lanes[connection.lane].setup;
        if setup.tls.is_some() && setup.session.begins_with_tls() {
            self.tls_begins(system, id);
        } else {
            self.protocol_begins(system, id, now);
        }
    }

    pub(super) fn tls_begins(&mut self, system: &mut S, id: Id) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Some(setup) = &self.lanes[connection.lane].setup.tls else { return };
        let mut session = setup.begin();
        self.scratch.out.clear();
        session.write_pending(&mut self.scratch.out);
        connection.tls = Some(Box::new(session));
        connection.state = State::Handshaking;
        self.write_out(system, id);
    }

    /// TLS is there: the protocol begins on it, or goes on.
    pub(super) fn tls_established(&mut self, system: &mut S, id: Id, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let (Some(codec), Some(tls)) = (&mut connection.codec, &connection.tls) else {
            return self.protocol_begins(system, id, now);
        };
        self.scratch.out.clear();
        self.scratch.events.clear();
        let binding = tls.server_end_point();
        codec.secured(binding.as_deref(), &mut self.scratch.out, &mut self.scratch.events);
        connection.state = State::Starting;
        self.protocol_goes_on(system, id, now);
    }

    /// The transport, and TLS where it comes first, are there: the codec opens.
    fn protocol_begins(&mut self, system: &mut S, id: Id, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let lane = &self.lanes[connection.lane];
        let mut codec = lane.setup.session.codec(lane.without_tls);
        self.scratch.out.clear();
        self.scratch.events.clear();
        codec.open(&mut self.scratch.out, &mut self.scratch.events);
        connection.codec = Some(codec);
        connection.state = State::Starting;
        self.protocol_goes_on(system, id, now);
    }

    fn protocol_goes_on(&mut self, system: &mut S, id: Id, now: Timestamp) {
        if !self.scratch.out.is_empty() {
            self.encrypt_and_write(system, id);
        }
        self.take_events(system, id, now, now);
    }

    /// The protocol can take requests: from now on the connection counts.
    pub(super) fn established(&mut self, id: Id, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        self.connect_timers.remove(id.slot);
        self.lanes[connection.lane].opened(connection.address);
        self.connects.push(now.since_or_zero(connection.begun));
        self.counts.opened += 1;
        self.counts.established += 1;
        self.counts.peak = self.counts.peak.max(self.counts.established);
    }
}

/// The kind of a failed connect, and a sentence about it.
pub(super) fn connect_failure(error: &io::Error, address: &Address) -> (Failure, String) {
    use io::ErrorKind as Kind;
    let failure = match error.kind() {
        Kind::ConnectionRefused => Failure::ConnectRefused,
        Kind::NetworkUnreachable | Kind::HostUnreachable => Failure::Unreachable,
        Kind::AddrNotAvailable => Failure::NoLocalPort,
        Kind::TimedOut => Failure::ConnectTimeout,
        Kind::ConnectionReset => Failure::Reset,
        _ => match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => Failure::DescriptorLimit,
            _ => Failure::ConnectFailed,
        },
    };
    (failure, format!("{address}: {error}"))
}
