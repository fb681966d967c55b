//! Giving connections to attempts, and their bytes to sockets.

use std::io;

use plimsoll_core::plan::HttpRequest;
use plimsoll_core::value;
use plimsoll_core::{Failure, Span, Timestamp};
use plimsoll_proto::{Request, Token, Value};

use super::connection::State;
use super::{Pool, RequestSetup};
use crate::execute::Progress;
use crate::slots::Id;
use crate::system::System;

impl<S: System> Pool<S> {
    /// Gives an established, free connection to the head of the line, or leaves it idle. One that no
    /// request may follow on is closed: the head of the line has a connect under way for it.
    pub(super) fn release(&mut self, system: &mut S, id: Id) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.is_spent() {
            return self.close(system, id);
        }
        connection.state = State::Idle;
        let lane = connection.lane;
        match self.next_in_line(lane) {
            Some(flight) => {
                let now = system.now();
                self.send(system, id, flight, now);
            }
            None => self.lanes[lane].idle.push_back(id.slot),
        }
    }

    /// Takes out the head of the line. A copy of a request that has just ended, which the worker has
    /// not heard of yet, is not sent any more.
    pub(super) fn next_in_line(&mut self, lane: usize) -> Option<u32> {
        while let Some(flight) = self.lanes[lane].waiters.pop_front() {
            let id = self.attempts.id(flight)?;
            let of = self.attempts.get_mut(id)?.attempt.request;
            let ended = |news: &Progress| matches!(news, Progress::Ended { request, .. } if *request == of);
            if !self.progress.iter().any(ended) {
                return Some(flight);
            }
            self.attempts.remove(id);
        }
        None
    }

    /// Sends the attempt in slot `flight` on a free connection; `now` was read just before.
    pub(super) fn send(&mut self, system: &mut S, id: Id, flight: u32, now: Timestamp) {
        let (Some(connection), Some(tenant)) = (self.connections.get_mut(id), self.attempts.at_mut(flight))
        else {
            return;
        };
        let operation = &self.operations[tenant.attempt.operation as usize];
        let codec = connection.codec.as_mut().expect("a free connection has its codec");
        self.scratch.out.clear();
        match &operation.request {
            RequestSetup::Http1 { request, fixed } => {
                let bytes = match fixed {
                    Some(bytes) => bytes,
                    None => {
                        self.scratch.request.clear();
                        request.bytes.write(&self.variables, tenant.attempt.key, &mut self.scratch.request);
                        &self.scratch.request
                    }
                };
                let HttpRequest { head_only, close, .. } = *request;
                let request = Request::Http1 { bytes, head_only, close };
                codec.start(Token(flight), request, &mut self.scratch.out);
            }
            RequestSetup::Postgres { transaction, parameters } => {
                let key = tenant.attempt.key;
                let value = |index: usize| match self.variables[parameters[index]].value(key) {
                    value::Value::Whole(number) => Value::Whole(number),
                    value::Value::Text(text) => Value::Text(text),
                };
                let request = Request::Postgres { transaction: *transaction, value: &value };
                codec.start(Token(flight), request, &mut self.scratch.out);
            }
        }
        connection.state = State::Busy(flight);
        tenant.connection = Some(id);
        tenant.sent = Some(now);
        let request = tenant.attempt.request;
        let first_write = self.encrypt_and_write(system, id);
        if first_write == Written::Refused {
            // The server had closed before: no byte left, and the connection is gone.
            if let Some(tenant) = self.attempts.at_mut(flight) {
                tenant.sent = None;
            }
            self.close_broken(system, id, now, Failure::ClosedBeforeResponse);
            return;
        }
        if self.limits.timeout != Span::MAX {
            self.answer_timers.push_back(flight);
        }
        self.progress.push_back(Progress::Sent { request, at: now });
    }

    /// Writes the plaintext in `scratch.out`, through TLS where there is one.
    pub(super) fn encrypt_and_write(&mut self, system: &mut S, id: Id) -> Written {
        if let Some(session) = self.connections.get_mut(id).and_then(|c| c.tls.as_mut()) {
            let plain = &mut self.scratch.plain;
            plain.clear();
            std::mem::swap(plain, &mut self.scratch.out);
            session.encrypt(plain, &mut self.scratch.out);
        }
        self.write_out(system, id)
    }

    /// Writes the bytes in `scratch.out`, behind those that wait already; keeps what is not taken.
    pub(super) fn write_out(&mut self, system: &mut S, id: Id) -> Written {
        let Some(connection) = self.connections.get_mut(id) else { return Written::Refused };
        let Some(socket) = &mut connection.socket else { return Written::Refused };
        let out = &self.scratch.out;
        if !connection.unsent.is_empty() {
            connection.unsent.extend_from_slice(out);
            return Written::Taken;
        }
        let mut at = 0;
        while at < out.len() {
            match system.send(socket, &out[at..]) {
                Ok(count) => at += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.unsent.extend_from_slice(&out[at..]);
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What the peer said before it closed may still be there to be read, so a broken
                // pipe behind the first byte is left for the read to find.
                Err(_) => {
                    self.bytes.sent += at as u64;
                    return if at == 0 { Written::Refused } else { Written::Taken };
                }
            }
        }
        self.bytes.sent += at as u64;
        Written::Taken
    }

    /// The socket takes bytes again.
    pub(super) fn flush(&mut self, system: &mut S, id: Id) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Some(socket) = &mut connection.socket else { return };
        let mut at = 0;
        while at < connection.unsent.len() {
            match system.send(socket, &connection.unsent[at..]) {
                Ok(count) => at += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Left for the read to find, as above.
                Err(_) => {
                    connection.unsent.clear();
                    return;
                }
            }
        }
        connection.unsent.drain(..at);
        self.bytes.sent += at as u64;
    }
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The bytes left, or wait in line to leave.
    Taken,
    /// The connection is broken, and none left.
    Refused,
}
