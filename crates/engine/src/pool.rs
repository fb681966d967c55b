//! The pool: carries attempts over connections that it opens, reuses and replaces.
//!
//! A due request takes the idle connection used last. If none is idle and one may be opened, it
//! starts a connect and joins its target's one line; the first connection to become free or
//! established serves the head of the line. So there are never more requests in line than connects
//! under way, and a connect that fails takes the head of the line with it only when no other
//! connect is left for it.
//!
//! The file holds what happens to connections; `connection` is one of them, `lane` the part
//! that belongs to one target.

mod connection;
mod lane;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;

use plimsoll_core::plan::{Plan, Protocol};
use plimsoll_core::value::Variable;
use plimsoll_core::{Failure, Span, Template, Timestamp};
use plimsoll_proto::http1::Http1;
use plimsoll_proto::{Answer, Cancelled, Event, Fault, Request, RequestKind, Token};
use plimsoll_stats::Recorder;

use crate::execute::{Attempt, AttemptEnd, AttemptResult, Execute, Progress, Room};
use crate::list::SlotList;
use crate::slots::{Id, Slots};
use crate::system::{Address, Ready, System};
use crate::tls::{self, TlsSetup};
use connection::{Connection, State};
use lane::Lane;

/// The most connects under way at once.
const CONNECTS_AT_ONCE: usize = 256;
/// One read takes at most so much.
const READ_BYTES: usize = 64 * 1024;
/// So many full reads of one socket in a turn, then the others get theirs.
const READS_A_TURN: usize = 8;

/// What a pool needs to know of a target.
#[derive(Clone, Debug)]
pub struct TargetSetup {
    /// Where its connections go; tried in this order.
    pub addresses: Vec<Address>,
    /// TLS on top of them.
    pub tls: Option<TlsSetup>,
}

/// The bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// The most connections open at once.
    pub connections: usize,
    /// For the transport and the TLS handshake together.
    pub connect_timeout: Span,
    /// For an answer, from each attempt's send; [`Span::MAX`] for none.
    pub timeout: Span,
}

/// Connections of a whole run, or of one worker's share of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Established now.
    pub established: u64,
    /// The most established at one time.
    pub peak: u64,
    /// Ever established.
    pub opened: u64,
    /// Ever established, by address.
    pub by_address: Vec<(Address, u64)>,
}

/// Carries attempts over connections of its own.
#[derive(Debug)]
pub struct Pool<S: System> {
    operations: Vec<OperationSetup>,
    variables: Vec<Variable>,
    lanes: Vec<Lane>,
    limits: PoolLimits,
    connections: Slots<Connection<S::Socket>>,
    attempts: Slots<Flight>,
    /// Attempts that were sent, the oldest first.
    answer_timers: SlotList,
    /// Connections being opened, the oldest first.
    connect_timers: SlotList,
    progress: VecDeque<Progress>,
    counts: ConnectionCounts,
    /// How long each connection took that was established since the last report.
    connects: Vec<Span>,
    /// Failures with their text, the first of each kind since the last report.
    texts: Vec<(Failure, Cow<'static, str>)>,
    /// Bytes since the last report.
    bytes: Bytes,
    scratch: Scratch,
}

/// What the pool must know of an operation.
#[derive(Debug)]
struct OperationSetup {
    lane: usize,
    kind: RequestKind,
    request: Template,
    /// The request's bytes, where all requests have the same.
    fixed: Option<Vec<u8>>,
}

/// An attempt on its way.
#[derive(Debug)]
struct Flight {
    attempt: Attempt,
    /// `None` while it stands in line.
    connection: Option<u32>,
    sent: Option<Timestamp>,
    first_byte: Option<Timestamp>,
}

/// Bytes on connections.
#[derive(Debug, Default)]
struct Bytes {
    sent: u64,
    received: u64,
    /// Received, and no request had asked for them.
    surplus: u64,
}

/// Buffers used again and again.
#[derive(Debug)]
struct Scratch {
    read: Vec<u8>,
    request: Vec<u8>,
    plain: Vec<u8>,
    out: Vec<u8>,
    events: Vec<Event>,
}

impl<S: System> Pool<S> {
    /// The pool for `plan`'s operations, `targets` being as many as the plan's.
    pub fn new(plan: &Plan, targets: &[TargetSetup], limits: PoolLimits) -> Self {
        let operation = |o: &plimsoll_core::plan::Operation| OperationSetup {
            lane: o.target,
            kind: match o.protocol {
                Protocol::Http1 { head_only, close } => RequestKind::Http1 { head_only, close },
            },
            fixed: o.request.fixed(),
            request: o.request.clone(),
        };
        Self {
            operations: plan.operations.iter().map(operation).collect(),
            variables: plan.variables.clone(),
            lanes: targets.iter().cloned().map(Lane::new).collect(),
            limits,
            connections: Slots::default(),
            attempts: Slots::default(),
            answer_timers: SlotList::default(),
            connect_timers: SlotList::default(),
            progress: VecDeque::new(),
            counts: ConnectionCounts::default(),
            connects: Vec::new(),
            texts: Vec::new(),
            bytes: Bytes::default(),
            scratch: Scratch {
                read: vec![0; READ_BYTES],
                request: Vec::new(),
                plain: Vec::new(),
                out: Vec::new(),
                events: Vec::new(),
            },
        }
    }

    /// Begins to open a connection to the first target that no request waits for: the set-up of a
    /// closed loop. False when no more may be opened now.
    pub fn open_ahead(&mut self, system: &mut S, now: Timestamp) -> bool {
        let room = self.may_open();
        if room {
            self.open(system, 0, now);
        }
        room
    }

    /// Connects under way.
    pub fn connecting(&self) -> usize {
        self.connect_timers.len()
    }

    /// Connections so far.
    pub fn counts(&self) -> ConnectionCounts {
        let mut counts = self.counts.clone();
        counts.by_address = self.lanes.iter().flat_map(Lane::opened_by_address).collect();
        counts
    }

    fn may_open(&self) -> bool {
        self.connections.len() < self.limits.connections && self.connecting() < CONNECTS_AT_ONCE
    }

    // ---- opening -----------------------------------------------------------------------------

    fn open(&mut self, system: &mut S, lane: usize, now: Timestamp) {
        let address = self.lanes[lane].preferred;
        let id = self.connections.insert(Connection::new(lane, address, now));
        self.connect_timers.push_back(id.slot);
        self.try_address(system, id, now);
    }

    /// Begins to connect to the connection's present address.
    fn try_address(&mut self, system: &mut S, id: Id, now: Timestamp) {
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
    fn address_failed(&mut self, system: &mut S, id: Id, failure: Failure, text: String, now: Timestamp) {
        self.note(failure, text);
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
            // From the present: the moment of the failure may lie far behind a late worker.
            connection.restart(system.now());
            // Under a new name, so that late news of the old socket is not taken for the new one's.
            self.connect_timers.remove(id.slot);
            if let Some(connection) = self.connections.remove(id) {
                let id = self.connections.insert(connection);
                self.connect_timers.push_back(id.slot);
                self.try_address(system, id, now);
            }
            return;
        }
        let lane = connection.lane;
        self.connect_timers.remove(id.slot);
        self.connections.remove(id);
        let waiting = self.lanes[lane].waiters.len();
        if waiting > self.lane_connecting(lane)
            && let Some(slot) = self.lanes[lane].waiters.pop_front()
        {
            self.end(slot, now, None, AttemptResult::Failed(failure));
        }
    }

    fn lane_connecting(&self, lane: usize) -> usize {
        match self.lanes.len() {
            1 => self.connecting(),
            _ => self
                .connect_timers
                .iter()
                .filter(|slot| self.connections.at(*slot).is_some_and(|c| c.lane == lane))
                .count(),
        }
    }

    /// The transport is there: TLS begins, or the codec does.
    fn transport_established(&mut self, system: &mut S, id: Id, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        match &self.lanes[connection.lane].setup.tls {
            Some(setup) => {
                let mut session = setup.begin();
                self.scratch.out.clear();
                session.write_pending(&mut self.scratch.out);
                connection.tls = Some(Box::new(session));
                connection.state = State::Handshaking;
                self.write_out(system, id);
            }
            None => self.protocol_begins(system, id, now),
        }
    }

    /// Transport and TLS are there: the codec opens.
    fn protocol_begins(&mut self, system: &mut S, id: Id, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let mut codec: Box<dyn plimsoll_proto::Connection> = Box::new(Http1::new());
        self.scratch.out.clear();
        self.scratch.events.clear();
        codec.open(&mut self.scratch.out, &mut self.scratch.events);
        connection.codec = Some(codec);
        connection.state = State::Starting;
        self.connect_timers.remove(id.slot);
        let lane = &mut self.lanes[connection.lane];
        lane.opened(connection.address);
        self.connects.push(now.since_or_zero(connection.begun));
        self.counts.opened += 1;
        self.counts.established += 1;
        self.counts.peak = self.counts.peak.max(self.counts.established);
        if !self.scratch.out.is_empty() {
            self.encrypt_and_write(system, id);
        }
        self.take_events(system, id, now, now);
    }

    // ---- sending -----------------------------------------------------------------------------

    /// Gives an established, free connection to the head of the line, or leaves it idle. One that no
    /// request may follow on is closed: the head of the line has a connect under way for it.
    fn release(&mut self, system: &mut S, id: Id) {
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
    fn next_in_line(&mut self, lane: usize) -> Option<u32> {
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
    fn send(&mut self, system: &mut S, id: Id, flight: u32, now: Timestamp) {
        let (Some(connection), Some(tenant)) = (self.connections.get_mut(id), self.attempts.at_mut(flight))
        else {
            return;
        };
        let operation = &self.operations[tenant.attempt.operation as usize];
        let bytes = match &operation.fixed {
            Some(bytes) => bytes,
            None => {
                self.scratch.request.clear();
                operation.request.write(&self.variables, tenant.attempt.key, &mut self.scratch.request);
                &self.scratch.request
            }
        };
        let codec = connection.codec.as_mut().expect("a free connection has its codec");
        self.scratch.out.clear();
        codec.start(Token(flight), Request { bytes, kind: operation.kind }, &mut self.scratch.out);
        connection.state = State::Busy(flight);
        tenant.connection = Some(id.slot);
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
    fn encrypt_and_write(&mut self, system: &mut S, id: Id) -> Written {
        if let Some(session) = self.connections.get_mut(id).and_then(|c| c.tls.as_mut()) {
            let plain = &mut self.scratch.plain;
            plain.clear();
            std::mem::swap(plain, &mut self.scratch.out);
            session.encrypt(plain, &mut self.scratch.out);
        }
        self.write_out(system, id)
    }

    /// Writes the bytes in `scratch.out`, behind those that wait already; keeps what is not taken.
    fn write_out(&mut self, system: &mut S, id: Id) -> Written {
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
    fn flush(&mut self, system: &mut S, id: Id) {
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

    // ---- receiving ---------------------------------------------------------------------------

    /// Reads what is there; true when there is more than one turn should take.
    fn read(&mut self, system: &mut S, id: Id, hang_up: bool) -> bool {
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
    fn bytes_came(&mut self, system: &mut S, id: Id, count: usize, done: Timestamp, read: Timestamp) {
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
            self.protocol_begins(system, id, read);
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
            }
            if !self.scratch.out.is_empty() {
                self.encrypt_and_write(system, id);
            }
            self.take_events(system, id, done, read);
        }
        if decrypted.closed {
            self.close(system, id);
        }
    }

    /// The peer has closed its side of the transport.
    fn end_of_stream(&mut self, system: &mut S, id: Id, stamp: Option<Timestamp>, now: Timestamp) {
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
        // completes is not whole (RFC 9112, section 9.8).
        if connection.tls.is_none() {
            if let Some(codec) = &mut connection.codec {
                self.scratch.events.clear();
                codec.eof(&mut self.scratch.events);
            }
            self.take_events(system, id, stamp.map_or(now, |stamp| stamp.min(now)), now);
        }
        self.close_broken(system, id, now, Failure::ClosedInResponse);
    }

    /// Acts on what the codec told about bytes that came at `done` and had been read at `read`.
    fn take_events(&mut self, system: &mut S, id: Id, done: Timestamp, read: Timestamp) {
        let mut events = std::mem::take(&mut self.scratch.events);
        for event in events.drain(..) {
            match event {
                Event::Ready => self.release(system, id),
                Event::FirstByte(token) => {
                    if let Some(flight) = self.attempts.at_mut(token.0) {
                        flight.first_byte = flight.sent.map(|sent| done.max(sent));
                    }
                }
                Event::Done { token, result, reusable } => {
                    let (result, read) = match result {
                        Ok(Answer { status, .. }) => (AttemptResult::Answered(status), Some(read)),
                        Err(fault) => {
                            let failure = Self::fault(fault);
                            self.note(failure, fault.text());
                            (AttemptResult::Failed(failure), None)
                        }
                    };
                    self.end(token.0, done, read, result);
                    if reusable {
                        self.release(system, id);
                    } else {
                        self.close(system, id);
                    }
                }
                Event::Surplus { bytes } => {
                    self.bytes.surplus += bytes as u64;
                    self.close(system, id);
                }
            }
        }
        events.clear();
        self.scratch.events = events;
    }

    fn fault(fault: Fault) -> Failure {
        match fault {
            Fault::ClosedBeforeResponse => Failure::ClosedBeforeResponse,
            Fault::ClosedInResponse => Failure::ClosedInResponse,
            Fault::Protocol(name) => Failure::Protocol(name),
        }
    }

    // ---- ending ------------------------------------------------------------------------------

    /// An attempt has ended at `at`, as far as its moments allow.
    fn end(&mut self, flight: u32, at: Timestamp, read: Option<Timestamp>, result: AttemptResult) {
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
    fn broken(&mut self, system: &mut S, id: Id, now: Timestamp, failure: Failure, text: String) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let State::Connecting | State::Handshaking = connection.state {
            self.address_failed(system, id, failure, text, now);
            return;
        }
        self.note(failure, text);
        self.close_broken(system, id, now, failure);
    }

    /// Closes a connection that broke; the attempt on it, if any, fails with `failure`.
    fn close_broken(&mut self, system: &mut S, id: Id, now: Timestamp, failure: Failure) {
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
    fn close(&mut self, system: &mut S, id: Id) {
        let Some(connection) = self.connections.remove(id) else { return };
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
    fn cancel(&mut self, system: &mut S, id: Id, flight: u32) {
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

    fn note(&mut self, failure: Failure, text: impl Into<Cow<'static, str>>) {
        if !self.texts.iter().any(|(known, _)| *known == failure) {
            self.texts.push((failure, text.into()));
        }
    }
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// The bytes left, or wait in line to leave.
    Taken,
    /// The connection is broken, and none left.
    Refused,
}

impl<S: System> Execute<S> for Pool<S> {
    #[inline]
    fn room(&self, operation: u16) -> Room {
        let lane = &self.lanes[self.operations[operation as usize].lane];
        if !lane.idle.is_empty() {
            Room::Free
        } else if self.may_open() {
            Room::MayOpen { open: self.connections.len() }
        } else if self.connections.len() >= self.limits.connections {
            Room::AtConnectionLimit
        } else {
            Room::Connecting
        }
    }

    #[inline]
    fn submit(&mut self, system: &mut S, attempt: Attempt, now: Timestamp) {
        let lane = self.operations[attempt.operation as usize].lane;
        let flight = self.attempts.insert(Flight { attempt, connection: None, sent: None, first_byte: None });
        let idle = self.lanes[lane].idle.pop_back().and_then(|slot| self.connections.id(slot));
        match idle {
            Some(id) => self.send(system, id, flight.slot, now),
            None => {
                self.lanes[lane].waiters.push_back(flight.slot);
                self.open(system, lane, now);
            }
        }
    }

    fn forget_unsent(&mut self, request: Id) {
        for lane in &mut self.lanes {
            let attempts = &self.attempts;
            let unsent: Vec<u32> = lane
                .waiters
                .iter()
                .filter(|slot| attempts.at(*slot).is_some_and(|flight| flight.attempt.request == request))
                .collect();
            for slot in unsent {
                lane.waiters.remove(slot);
                if let Some(id) = self.attempts.id(slot) {
                    self.attempts.remove(id);
                }
            }
        }
    }

    #[inline]
    fn on_ready(&mut self, system: &mut S, ready: Ready) -> bool {
        let id = Id::from_bits(ready.key);
        let Some(connection) = self.connections.get_mut(id) else { return false };
        connection.hung_up |= ready.hang_up;
        if connection.state == State::Connecting {
            if !ready.writable && !ready.hang_up {
                return false;
            }
            let Some(socket) = &connection.socket else { return false };
            let connected = system.connected(socket);
            let now = system.now();
            match connected {
                Ok(()) => self.transport_established(system, id, now),
                Err(error) => {
                    let address = &self.lanes[connection.lane].setup.addresses[connection.address];
                    let (failure, text) = connect_failure(&error, address);
                    self.address_failed(system, id, failure, text, now);
                    return false;
                }
            }
        } else if ready.writable && !connection.unsent.is_empty() {
            self.flush(system, id);
        }
        (ready.readable || ready.hang_up) && self.read(system, id, ready.hang_up)
    }

    fn next_timer(&self) -> Timestamp {
        let answer = self.answer_timers.front().and_then(|slot| self.attempts.at(slot)?.sent);
        let answer = answer.map_or(Timestamp::MAX, |sent| sent.saturating_add(self.limits.timeout));
        let connect = self.connect_timers.front().and_then(|slot| self.connections.at(slot));
        let connect =
            connect.map_or(Timestamp::MAX, |c| c.attempt_begun.saturating_add(self.limits.connect_timeout));
        answer.min(connect)
    }

    fn on_timer(&mut self, system: &mut S, now: Timestamp) {
        while let Some(slot) = self.answer_timers.front() {
            let Some(Flight { sent: Some(sent), connection: Some(connection), .. }) = self.attempts.at(slot)
            else {
                break;
            };
            let deadline = sent.saturating_add(self.limits.timeout);
            if deadline > now {
                break;
            }
            // An answer that reached this machine in time must not be lost because the worker was
            // late itself: a last look before the verdict.
            let Some(id) = self.connections.id(*connection) else { break };
            let attempt = self.attempts.id(slot);
            self.read(system, id, false);
            if self.attempts.id(slot) == attempt && self.answer_timers.contains(slot) {
                self.end(slot, deadline, None, AttemptResult::TimedOut);
                self.cancel(system, id, slot);
            }
        }
        while let Some(slot) = self.connect_timers.front() {
            let Some(connection) = self.connections.at(slot) else { break };
            let deadline = connection.attempt_begun.saturating_add(self.limits.connect_timeout);
            if deadline > now {
                break;
            }
            let address = &self.lanes[connection.lane].setup.addresses[connection.address];
            let limit = self.limits.connect_timeout;
            let (failure, what) = match connection.state {
                State::Handshaking => (Failure::TlsTimeout, "the TLS handshake with"),
                _ => (Failure::ConnectTimeout, "connecting to"),
            };
            let text = format!("{what} {address} was not done within {limit}");
            let Some(id) = self.connections.id(slot) else { break };
            self.address_failed(system, id, failure, text, deadline);
        }
    }

    #[inline]
    fn next_progress(&mut self) -> Option<Progress> {
        self.progress.pop_front()
    }

    #[inline]
    fn report(&mut self, recorder: &mut Recorder) {
        recorder.on_bytes(self.bytes.sent, self.bytes.received);
        if self.bytes.surplus > 0 {
            recorder.on_surplus(self.bytes.surplus);
        }
        self.bytes = Bytes::default();
        for span in self.connects.drain(..) {
            recorder.on_connect(span);
        }
        for (failure, text) in self.texts.drain(..) {
            recorder.on_failure_text(failure, &text);
        }
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe
    )
}

/// The kind of a failed connect, and a sentence about it.
fn connect_failure(error: &io::Error, address: &Address) -> (Failure, String) {
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
