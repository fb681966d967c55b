//! From bytes on a socket to what the codec tells of them.

use std::io;

use plimsoll_core::{Failure, Timestamp};
use plimsoll_proto::{Answer, Event, Fault};

use super::connection::State;
use super::{Pool, READS_A_TURN};
use crate::execute::AttemptResult;
use crate::slots::Id;
use crate::system::System;
use crate::tls;

impl<S: System> Pool<S> {
    /// Reads what is there; true when there is more than one turn should take.
    pub(super) fn read(&mut self, system: &mut S, id: Id, hang_up: bool) -> bool {
        for _ in 0..READS_A_TURN {
            let Some(connection) = self.connections.get_mut(id) else { return false };
            let Some(socket) = &mut connection.socket else { return false };
            match system.receive(socket, &mut self.scratch.read) {
                Ok(received) if received.bytes == 0 => {
                    let now = system.now();
                    self.end_of_stream(system, id, received.stamp, now);
                    return false;
                }
                Ok(received) => {
                    let read = system.now();
                    let done = received.stamp.map_or(read, |stamp| stamp.min(read));
                    self.bytes.received += received.bytes as u64;
                    self.bytes_came(system, id, received.bytes, done, read);
                    // A short read has emptied the socket; only the peer's end may stand behind it.
                    if received.bytes < self.scratch.read.len() && !hang_up {
                        return false;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let now = system.now();
                    let failure = if is_reset(&error) { Failure::Reset } else { Failure::LocalError };
                    self.broken(system, id, now, failure, error.to_string());
                    return false;
                }
            }
        }
        true
    }

    /// `count` bytes lie in `scratch.read`; the last of them came at `done` and had been read at `read`.
    pub(super) fn bytes_came(
        &mut self,
        system: &mut S,
        id: Id,
        count: usize,
        done: Timestamp,
        read: Timestamp,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        self.scratch.out.clear();
        self.scratch.events.clear();
        let Some(session) = connection.tls.as_mut() else {
            if let Some(codec) = &mut connection.codec {
                codec.receive(&self.scratch.read[..count], &mut self.scratch.out, &mut self.scratch.events);
            }
            if !self.scratch.out.is_empty() {
                self.write_out(system, id);
            }
            self.take_events(system, id, done, read);
            return;
        };
        self.scratch.plain.clear();
        let result =
            session.decrypt(&self.scratch.read[..count], &mut self.scratch.plain, &mut self.scratch.out);
        if !self.scratch.out.is_empty() {
            self.write_out(system, id);
        }
        let decrypted = match result {
            Ok(decrypted) => decrypted,
            Err(error) => {
                let failure = Failure::Tls(tls::reason(&error));
                self.broken(system, id, read, failure, error.to_string());
                return;
            }
        };
        if decrypted.established {
            let plain = std::mem::take(&mut self.scratch.plain);
            self.tls_established(system, id, read);
            self.scratch.plain = plain;
        }
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let Some(codec) = &mut connection.codec {
            self.scratch.out.clear();
            self.scratch.events.clear();
            if !self.scratch.plain.is_empty() {
                codec.receive(&self.scratch.plain, &mut self.scratch.out, &mut self.scratch.events);
            }
            if decrypted.closed {
                codec.eof(&mut self.scratch.events);
                // What its last answer frees must not carry another request.
                connection.hung_up = true;
            }
            if !self.scratch.out.is_empty() {
                self.encrypt_and_write(system, id);
            }
            self.take_events(system, id, done, read);
        }
        if decrypted.closed {
            self.close_broken(system, id, read, Failure::ClosedInResponse);
        }
    }

    /// The peer has closed its side of the transport.
    pub(super) fn end_of_stream(&mut self, system: &mut S, id: Id, stamp: Option<Timestamp>, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let State::Connecting | State::Handshaking = connection.state {
            let failure = Failure::Tls("closed_in_handshake");
            self.broken(
                system,
                id,
                now,
                failure,
                "the server closed the connection inside the handshake".into(),
            );
            return;
        }
        // Without TLS's own good-bye an end may be anybody's doing, so an answer that only an end
        // completes is not whole (RFC 9112, section 9.8). Before the first request there is none.
        if connection.tls.is_none() || connection.state == State::Starting {
            if let Some(codec) = &mut connection.codec {
                self.scratch.events.clear();
                codec.eof(&mut self.scratch.events);
            }
            self.take_events(system, id, stamp.map_or(now, |stamp| stamp.min(now)), now);
        }
        self.close_broken(system, id, now, Failure::ClosedInResponse);
    }

    /// Acts on what the codec told about bytes that came at `done` and had been read at `read`.
    pub(super) fn take_events(&mut self, system: &mut S, id: Id, done: Timestamp, read: Timestamp) {
        let mut events = std::mem::take(&mut self.scratch.events);
        // What a later event may still take away is not given to the next request in line.
        let mut free = false;
        for event in events.drain(..) {
            match event {
                Event::Ready => {
                    self.established(id, read);
                    free = true;
                }
                Event::StartTls => self.tls_begins(system, id),
                Event::Refused(fault) => {
                    self.note_fault(id, fault);
                    self.refused(system, id, Self::fault(fault), read);
                }
                Event::Closing(fault) => {
                    free = false;
                    self.note_fault(id, fault);
                    self.ended_idle(system, id, Self::fault(fault), read);
                }
                Event::FirstByte(token) => {
                    if let Some(flight) = self.attempts.at_mut(token.0) {
                        flight.first_byte = flight.sent.map(|sent| done.max(sent));
                    }
                }
                Event::Done { token, result, reusable } => {
                    let (result, read) = match result {
                        Ok(answer) => {
                            match answer {
                                Answer::Http1 { .. } => {}
                                Answer::Rows(rows) => {
                                    self.bytes.rows += rows;
                                    self.mind_pause(id, reusable, read);
                                }
                                Answer::SqlError(state) => {
                                    self.note_fault(id, Fault::SqlState(state));
                                    self.mind_pause(id, reusable, read);
                                }
                            }
                            (AttemptResult::Answered(answer), Some(read))
                        }
                        Err(fault) => {
                            self.note_fault(id, fault);
                            (AttemptResult::Failed(Self::fault(fault)), None)
                        }
                    };
                    self.end(token.0, done, read, result);
                    free = reusable;
                    if !reusable {
                        self.close(system, id);
                    }
                }
                Event::Surplus { bytes } => {
                    free = false;
                    self.bytes.surplus += bytes as u64;
                    self.close(system, id);
                }
            }
        }
        events.clear();
        self.scratch.events = events;
        if free {
            self.release(system, id);
        }
    }

    /// A connection has answered: whether its target's servers are well again, or end what they let in.
    #[inline]
    fn mind_pause(&mut self, id: Id, reusable: bool, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let lane = &mut self.lanes[connection.lane];
        match reusable {
            true => lane.answered(),
            false => lane.failed(now),
        }
    }

    pub(super) fn fault(fault: Fault) -> Failure {
        match fault {
            Fault::ClosedBeforeResponse => Failure::ClosedBeforeResponse,
            Fault::ClosedInResponse => Failure::ClosedInResponse,
            Fault::Protocol(name) => Failure::Protocol(name),
            Fault::SqlState(state) => Failure::SqlState(state.0),
        }
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe
    )
}
