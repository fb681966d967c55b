//! The pool: carries attempts over connections that it opens, reuses and replaces.
//!
//! A due request takes the idle connection used last. If none is idle and one may be opened, it
//! starts a connect and joins its target's one line; the first connection to become free or
//! established serves the head of the line. So there are never more requests in line than connects
//! under way, and a connect that fails takes the head of the line with it only when no other
//! connect is left for it.
//!
//! This file holds what a worker asks of the pool. What goes on inside follows a connection's life:
//! `opening`, `sending`, `receiving`, `ending`; `connection` is one of them, `lane` the part that belongs
//! to one target.

mod connection;
mod ending;
mod lane;
mod opening;
mod receiving;
mod sending;

use std::borrow::Cow;
use std::collections::VecDeque;

use plimsoll_core::plan::{HttpRequest, Plan, Request};
use plimsoll_core::value::Variable;
use plimsoll_core::{Failure, Span, Timestamp};
use plimsoll_proto::Event;
use plimsoll_stats::Recorder;

use crate::execute::{Attempt, AttemptResult, Execute, Progress, Room};
use crate::list::SlotList;
use crate::session::SessionSetup;
use crate::slots::{Id, Slots};
use crate::system::{Address, Ready, System};
use crate::tls::TlsSetup;
use connection::{Connection, State};
use lane::Lane;
use opening::connect_failure;

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
    /// The protocol.
    pub session: SessionSetup,
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
    /// Connections that only carry word to a server, the oldest first.
    messengers: SlotList,
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
    request: RequestSetup,
}

/// What an operation sends.
#[derive(Debug)]
enum RequestSetup {
    Http1 {
        request: HttpRequest,
        /// Its bytes, where all requests have the same.
        fixed: Option<Vec<u8>>,
    },
    Postgres {
        /// The index of its statements among those of its target.
        transaction: usize,
        /// The variables its parameters take, statement after statement.
        parameters: Vec<usize>,
    },
}

/// An attempt on its way.
#[derive(Debug)]
struct Flight {
    attempt: Attempt,
    /// `None` while it stands in line.
    connection: Option<Id>,
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
    /// Rows of database answers.
    rows: u64,
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
        let mut transactions = vec![0; targets.len()];
        let mut operation = |o: &plimsoll_core::plan::Operation| OperationSetup {
            lane: o.target,
            request: match &o.request {
                Request::Http1(request) => {
                    RequestSetup::Http1 { fixed: request.bytes.fixed(), request: request.clone() }
                }
                Request::Postgres(statements) => {
                    transactions[o.target] += 1;
                    RequestSetup::Postgres {
                        transaction: transactions[o.target] - 1,
                        parameters: statements.iter().flat_map(|s| s.parameters.clone()).collect(),
                    }
                }
            },
        };
        Self {
            operations: plan.operations.iter().map(&mut operation).collect(),
            variables: plan.variables.clone(),
            lanes: targets.iter().cloned().map(Lane::new).collect(),
            limits,
            connections: Slots::default(),
            attempts: Slots::default(),
            answer_timers: SlotList::default(),
            connect_timers: SlotList::default(),
            messengers: SlotList::default(),
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

    /// Begins to open a connection to the first target that no request waits for, before the start.
    /// False when no more may be opened now.
    pub fn open_ahead(&mut self, system: &mut S, now: Timestamp) -> bool {
        let room = self.open_count() < self.limits.connections && self.connecting() < CONNECTS_AT_ONCE;
        if room {
            self.open(system, 0, now);
        }
        room
    }

    /// The run's clock begins: pauses of the time before are over.
    pub fn begin(&mut self) {
        self.lanes.iter_mut().for_each(Lane::no_pause);
    }

    /// True while word to a server is on its way that a request is no longer wanted.
    pub fn is_telling(&self) -> bool {
        !self.messengers.is_empty()
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

    /// Connections that are for requests.
    fn open_count(&self) -> usize {
        self.connections.len() - self.messengers.len()
    }
}

impl<S: System> Execute<S> for Pool<S> {
    #[inline]
    fn room(&self, operation: u16) -> Room {
        let lane = self.operations[operation as usize].lane;
        let open = self.open_count();
        if !self.lanes[lane].idle.is_empty() {
            Room::Free
        } else if open >= self.limits.connections {
            Room::AtConnectionLimit
        } else if self.connecting() < CONNECTS_AT_ONCE
            && self.lanes[lane].may_connect(|| self.lane_connecting(lane))
        {
            Room::MayOpen { open }
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

    fn abandon(&mut self, system: &mut S) {
        self.cancel_all(system);
    }

    #[inline]
    fn on_ready(&mut self, system: &mut S, ready: Ready) -> bool {
        let id = Id::from_bits(ready.key);
        let Some(connection) = self.connections.get_mut(id) else { return false };
        connection.hung_up |= ready.hang_up;
        if let State::Telling(_) = connection.state {
            self.on_messenger_ready(system, id, ready);
            return false;
        }
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
        let messenger = self.messengers.front().and_then(|slot| self.connections.at(slot));
        let messenger =
            messenger.map_or(Timestamp::MAX, |c| c.begun.saturating_add(self.limits.connect_timeout));
        let pause = self.lanes.iter().map(|lane| lane.pause_end).min().unwrap_or(Timestamp::MAX);
        answer.min(connect).min(messenger).min(pause)
    }

    fn on_timer(&mut self, system: &mut S, now: Timestamp) {
        self.lanes.iter_mut().for_each(|lane| lane.on_timer(now));
        while let Some(slot) = self.messengers.front() {
            let Some(messenger) = self.connections.at(slot) else { break };
            if messenger.begun.saturating_add(self.limits.connect_timeout) > now {
                break;
            }
            let Some(id) = self.connections.id(slot) else { break };
            self.close(system, id);
        }
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
            let id = *connection;
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
                State::Starting => (Failure::ConnectTimeout, "logging in at"),
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
        recorder.on_rows(self.bytes.rows);
        self.bytes = Bytes::default();
        for span in self.connects.drain(..) {
            recorder.on_connect(span);
        }
        for (failure, text) in self.texts.drain(..) {
            recorder.on_failure_text(failure, &text);
        }
    }
}
