//! The ends of attempts and of connections.

use std::borrow::Cow;

use plimsoll_core::{Failure, Timestamp};
use plimsoll_proto::{Cancelled, Token};

use super::Pool;
use super::connection::State;
use crate::execute::{AttemptEnd, AttemptResult, Progress};
use crate::slots::Id;
use crate::system::System;

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
        if let State::Connecting | State::Handshaking = connection.state {
            self.address_failed(system, id, failure, text, now);
            return;
        }
        self.note(failure, text);
        self.close_broken(system, id, now, failure);
    }

    /// Closes a connection that broke; the attempt on it, if any, fails with `failure`.
    pub(super) fn close_broken(&mut self, system: &mut S, id: Id, now: Timestamp, failure: Failure) {
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
        if let Some(socket) = connection.socket {
            system.close(socket);
        }
    }

    /// The attempt in slot `flight` has timed out on this connection.
    pub(super) fn cancel(&mut self, system: &mut S, id: Id, flight: u32) {
        let Some(codec) = self.connections.get_mut(id).and_then(|c| c.codec.as_mut()) else { return };
        self.scratch.out.clear();
        match codec.cancel(Token(flight), &mut self.scratch.out) {
            Cancelled::CloseConnection => self.close(system, id),
            Cancelled::KeepConnection => {
                self.encrypt_and_write(system, id);
                self.release(system, id);
            }
        }
    }

    pub(super) fn note(&mut self, failure: Failure, text: impl Into<Cow<'static, str>>) {
        if !self.texts.iter().any(|(known, _)| *known == failure) {
            self.texts.push((failure, text.into()));
        }
    }
}
