//! The ends of attempts and of connections.

use std::borrow::Cow;
use std::io;

use plimsoll_core::{Failure, Timestamp};
use plimsoll_proto::{Cancelled, Fault, Token};

use super::connection::{Connection, State};
use super::{CONNECTS_AT_ONCE, Flight, Pool};
use crate::execute::{AttemptEnd, AttemptResult, Progress};
use crate::slots::Id;
use crate::system::{Ready, System};

impl<S: System> Pool<S> {
    /// An attempt has ended at `at`, as far as its moments allow.
    pub(super) fn end(&mut self, flight: u32, at: Timestamp, read: Option<Timestamp>, result: AttemptResult) {
        let Some(id) = self.attempts.id(flight) else { return };
        let Some(flight_ended) = self.attempts.remove(id) else { return };
        self.answer_timers.remove(flight);
        let at = flight_ended.sent.map_or(at, |sent| at.max(sent));
        let at = read.map_or(at, |read| at.min(read));
        let first_byte = flight_ended.first_byte.map(|first| first.min(at));
        let end = AttemptEnd { sent: flight_ended.sent, first_byte, at, read, result };
        self.progress.push_back(Progress::Ended { request: flight_ended.attempt.request, end });
    }

    /// A connection broke for a reason worth telling.
    pub(super) fn broken(&mut self, system: &mut S, id: Id, now: Timestamp, failure: Failure, text: String) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.state.is_opening() {
            self.address_failed(system, id, failure, text, now);
            return;
        }
        self.note(failure, text);
        self.close_broken(system, id, now, failure);
    }

    /// Closes a connection that broke; the attempt on it, if any, fails with `failure`.
    pub(super) fn close_broken(&mut self, system: &mut S, id: Id, now: Timestamp, failure: Failure) {
        if self.connections.get_mut(id).is_some_and(|connection| connection.state.is_opening()) {
            return self.opening_failed(system, id, failure, now);
        }
        let busy = self.connections.get_mut(id).and_then(|connection| match connection.state {
            State::Busy(flight) => Some(flight),
            _ => None,
        });
        if let Some(flight) = busy {
            let begun = self.attempts.at(flight).is_some_and(|f| f.first_byte.is_some());
            let failure = match failure {
                Failure::ClosedInResponse if !begun => Failure::ClosedBeforeResponse,
                other => other,
            };
            self.end(flight, now, None, AttemptResult::Failed(failure));
        }
        self.close(system, id);
    }

    /// Closes a connection that no attempt is on.
    pub(super) fn close(&mut self, system: &mut S, id: Id) {
        let Some(connection) = self.connections.remove(id) else { return };
        debug_assert!(
            !matches!(connection.state, State::Busy(flight)
                if self.attempts.at(flight).is_some_and(|f| f.connection == Some(id))),
            "an attempt must end before its connection is closed"
        );
        if connection.state.is_established() {
            self.counts.established -= 1;
        }
        self.lanes[connection.lane].idle.remove(id.slot);
        self.connect_timers.remove(id.slot);
        self.messengers.remove(id.slot);
        for socket in connection.socket.into_iter().chain(connection.speaks_of) {
            system.close(socket);
        }
    }

    /// Nothing is waited for any more: servers are told of what they still work on, where that is possible.
    pub(super) fn cancel_all(&mut self, system: &mut S) {
        for flight in self.attempts.ids() {
            let Some(Flight { connection: Some(id), .. }) = self.attempts.get_mut(flight) else { continue };
            let id = *id;
            self.answer_timers.remove(flight.slot);
            self.attempts.remove(flight);
            if self.connections.get_mut(id).is_some() {
                self.cancel(system, id, flight.slot);
            }
        }
    }

    /// The attempt in slot `flight` has timed out on this connection.
    pub(super) fn cancel(&mut self, system: &mut S, id: Id, flight: u32) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let (lane, address) = (connection.lane, connection.address);
        let Some(codec) = &mut connection.codec else { return };
        self.scratch.out.clear();
        match codec.cancel(Token(flight), &mut self.scratch.out) {
            Cancelled::CloseConnection => self.close(system, id),
            Cancelled::CloseAndTellElsewhere => {
                // Its socket stays until the word is there: poolers look for whom it speaks of.
                let socket = self.connections.get_mut(id).and_then(|connection| connection.socket.take());
                self.close(system, id);
                self.tell(system, lane, address, socket);
            }
            Cancelled::KeepConnection => {
                self.encrypt_and_write(system, id);
                self.release(system, id);
            }
        }
    }

    /// Sends the bytes in `scratch.out` over a connection of their own, which no request waits for, and then
    /// closes `socket`, of which they speak.
    fn tell(&mut self, system: &mut S, lane: usize, address: usize, socket: Option<S::Socket>) {
        if self.messengers.len() >= CONNECTS_AT_ONCE {
            socket.into_iter().for_each(|socket| system.close(socket));
            return;
        }
        let now = system.now();
        let mut messenger = Connection::new(lane, address, now);
        messenger.state = State::Telling(false);
        messenger.speaks_of = socket;
        messenger.unsent.extend_from_slice(&self.scratch.out);
        let id = self.connections.insert(messenger);
        self.messengers.push_back(id.slot);
        match system.connect(&self.lanes[lane].setup.addresses[address], id.to_bits()) {
            Ok(socket) => {
                if let Some(messenger) = self.connections.get_mut(id) {
                    messenger.socket = Some(socket);
                }
            }
            Err(_) => self.close(system, id),
        }
    }

    /// Something can be learned of a messenger: it speaks once it is connected, and goes when the server
    /// has closed, which it does without an answer.
    pub(super) fn on_messenger_ready(&mut self, system: &mut S, id: Id, ready: Ready) {
        let Some(messenger) = self.connections.get_mut(id) else { return };
        let Some(socket) = &mut messenger.socket else { return };
        if messenger.state == State::Telling(false) {
            if !ready.writable && !ready.hang_up {
                return;
            }
            if system.connected(socket).is_err() {
                return self.close(system, id);
            }
            messenger.state = State::Telling(true);
        }
        if ready.writable {
            self.flush(system, id);
        }
        let Some(Connection { socket: Some(socket), .. }) = self.connections.get_mut(id) else { return };
        if ready.readable || ready.hang_up {
            // There is no answer: anything but silence is the end.
            match system.receive(socket, &mut self.scratch.read) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => self.close(system, id),
            }
        }
    }

    /// Keeps what the codec of a connection has to say of a fault it told of, the first time.
    pub(super) fn note_fault(&mut self, id: Id, fault: Fault) {
        let failure = Self::fault(fault);
        if self.texts.iter().any(|(known, _)| *known == failure) {
            return;
        }
        if let Some(codec) = self.connections.get_mut(id).and_then(|connection| connection.codec.as_ref()) {
            let text = codec.explain(fault);
            self.texts.push((failure, text));
        }
    }

    pub(super) fn note(&mut self, failure: Failure, text: impl Into<Cow<'static, str>>) {
        if !self.texts.iter().any(|(known, _)| *known == failure) {
            self.texts.push((failure, text.into()));
        }
    }
}
