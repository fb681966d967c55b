//! The server's loop: one thread, one epoll, the queue's clockwork on the real clock.
//!
//! ```text
//! loop:
//!     answer what is due by now
//!     in a stall: sleep until it ends, deaf to everything but commands
//!     wait until a socket is ready or the next answer is due
//!     for each ready socket: read, take requests into the queue, answer what is due meanwhile
//! ```

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use plimsoll_core::{Span, Timestamp};
use rustix::fd::OwnedFd;
use rustls::{HandshakeKind, ServerConfig};

use crate::answer::{Answers, Status, json};
use crate::config::TargetConfig;
use crate::connection::{Buffers, Connection, Flushed, Intake, ReceiveError, Reply, Standing};
use crate::http::{Event, Fault, Form, Persist, Request};
use crate::io::{self as os, Accepted, Clock, Events, Interest, Poller, Waker};
use crate::law::{Fate, Fates, ServiceTimes};
use crate::queue::{Admission, Departure, Queue};
use crate::slab::{Slab, Token};
use crate::stall::Stall;
use crate::truth::{Recorder, Truth};

/// Tokens of what is no connection; a slab's tokens stay below.
const LISTENER: u64 = u64::MAX;
const WAKER: u64 = u64::MAX - 1;

/// Connections accepted in one turn, so that a storm of them does not hold up the answers.
const MOST_ACCEPTS: usize = 64;

/// How long the client may take to close its side after the last answer.
const LINGER: Span = Span::from_secs(1);

/// Bounds of the calibrated spinning margin, and the number and length of the sleeps that find it.
const MARGIN: (Span, Span) = (Span::from_us(20), Span::from_us(300));
const CALIBRATIONS: u32 = 32;
const CALIBRATION_SLEEP: Span = Span::from_us(50);

/// What another thread may ask of the server.
pub(crate) enum Command {
    Truth(Sender<Truth>),
    Stop,
}

pub(crate) struct Server {
    clock: Clock,
    /// The last reading of the clock.
    now: Timestamp,
    poller: Poller,
    waker: Arc<Waker>,
    commands: Receiver<Command>,
    listener: OwnedFd,
    /// False while there is no descriptor for another connection.
    accepts: bool,
    tls: Option<Arc<ServerConfig>>,
    answers: Answers,
    stall: Option<Stall>,
    queue: Queue<Job>,
    times: ServiceTimes,
    fates: Fates,
    /// Requests read since the start.
    requests: u64,
    connections: Slab<Connection>,
    /// Connections that wait for the client's end, and until when, in order.
    lingering: VecDeque<(Timestamp, Token)>,
    buffers: Buffers,
    recorder: Recorder,
    /// How often the account was taken.
    edition: u64,
    /// How long before a due answer sleeping gives way to spinning; `None` never.
    margin: Option<Span>,
    busy: bool,
}

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
struct Job {
    token: Token,
    /// Its number among the answers owed to the connection.
    number: u32,
    fate: Fate,
}

impl Server {
    /// A server on a listening socket. Its start, from which stalls count, is now.
    pub(crate) fn new(
        config: &TargetConfig,
        listener: OwnedFd,
        tls: Option<Arc<ServerConfig>>,
        waker: Arc<Waker>,
        commands: Receiver<Command>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER, Interest::IN)?;
        poller.add(&*waker, WAKER, Interest::IN)?;
        Ok(Self {
            answers: Answers::new(config.body_bytes, config.gzip)?,
            clock: Clock::start(),
            now: Timestamp::ZERO,
            poller,
            waker,
            commands,
            listener,
            accepts: true,
            tls,
            stall: config.stall,
            queue: Queue::new(config.workers.count(), config.queue, config.stall),
            times: ServiceTimes::new(config.service, config.seed),
            fates: Fates::new(config.seed, config.error, config.close, config.reset),
            requests: 0,
            connections: Slab::default(),
            lingering: VecDeque::new(),
            buffers: Buffers::new(),
            recorder: Recorder::new(),
            edition: 0,
            margin: None,
            busy: config.busy,
        })
    }

    /// Serves until told to stop. An error is one of the machine's, never of a client.
    pub(crate) fn run(mut self) -> io::Result<()> {
        os::sharpen_timers();
        self.calibrate()?;
        let mut events = Events::new();
        loop {
            self.now = self.clock.now();
            self.answer_due()?;
            if let Some(thaw) = self.thaw() {
                if self.sleep_through(thaw)?.is_break() {
                    return Ok(());
                }
                continue;
            }
            self.end_lingering()?;
            let timeout = self.timeout();
            self.poller.wait(&mut events, timeout)?;
            self.now = self.clock.now();
            for event in events.iter() {
                // What a stall keeps from being read is reported again after it.
                if self.thaw().is_some() {
                    break;
                }
                match event {
                    (WAKER, _) => {
                        if self.obey().is_break() {
                            return Ok(());
                        }
                    }
                    (LISTENER, _) => self.accept()?,
                    (token, readiness) => self.serve(Token::from_u64(token), readiness)?,
                }
            }
        }
    }

    /// Finds how late sleeps end on this machine: from that long before a due answer the server
    /// spins. Without a second processor it never does, since it would spin in the client's place.
    fn calibrate(&mut self) -> io::Result<()> {
        if !os::has_spare_processor() {
            return Ok(());
        }
        let mut latest = Span::ZERO;
        for _ in 0..CALIBRATIONS {
            let before = self.clock.now();
            self.waker.wait(CALIBRATION_SLEEP)?;
            let slept = self.clock.now().since(before);
            latest = latest.max(Span::from_ns(slept.as_ns().saturating_sub(CALIBRATION_SLEEP.as_ns())));
        }
        self.margin = Some(latest.clamp(MARGIN.0, MARGIN.1));
        Ok(())
    }

    /// The end of the stall, in a stall.
    fn thaw(&self) -> Option<Timestamp> {
        self.stall.and_then(|stall| stall.thaw(self.now))
    }

    fn sleep_through(&mut self, thaw: Timestamp) -> io::Result<ControlFlow<()>> {
        let margin = self.margin.unwrap_or(Span::ZERO);
        while self.now < thaw {
            let left = thaw.since(self.now);
            if left > margin {
                self.waker.wait(left - margin)?;
                if self.obey().is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            } else {
                std::hint::spin_loop();
            }
            self.now = self.clock.now();
        }
        Ok(ControlFlow::Continue(()))
    }

    /// How long to wait for a socket: until the next answer is due or the next stall begins, less
    /// the margin. Inside the margin the sockets are asked without waiting, over and over.
    fn timeout(&self) -> Option<Span> {
        let next = self.queue.next_event();
        if self.busy && next.is_some() {
            return Some(Span::ZERO);
        }
        let freeze = self.stall.map(|stall| stall.freeze(self.now));
        let exact = [next, freeze].into_iter().flatten().min();
        let exact = exact.map(|moment| moment.saturating_sub(self.margin.unwrap_or(Span::ZERO)));
        let lingering = self.lingering.front().map(|(until, _)| *until);
        let until = [exact, lingering].into_iter().flatten().min();
        until.map(|moment| moment.since_or_zero(self.now))
    }

    /// Carries out the commands that have come.
    fn obey(&mut self) -> ControlFlow<()> {
        self.waker.clear();
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Stop => return ControlFlow::Break(()),
                Command::Truth(reply) => {
                    // Nobody waits for it when the asker is gone.
                    let _ = reply.send(self.take_truth());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn take_truth(&mut self) -> Truth {
        self.edition += 1;
        self.recorder.take(self.clock.now(), self.queue.len() as u64)
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..MOST_ACCEPTS {
            match os::accept(&self.listener)? {
                Accepted::Socket(socket) => {
                    self.recorder.counts.connections_accepted += 1;
                    let connection = Connection::new(socket, self.tls.as_ref(), self.edition)?;
                    let token = self.connections.insert(connection);
                    if let Some(connection) = self.connections.get(token) {
                        self.poller.add(&connection.socket, token.as_u64(), connection.interest)?;
                    }
                }
                Accepted::None => break,
                Accepted::Exhausted => {
                    // Deaf to new connections until one is closed; the event would else come at once
                    // again, for ever.
                    self.recorder.counts.accept_failures += 1;
                    self.accepts = self.connections.is_empty();
                    if !self.accepts {
                        self.poller.modify(&self.listener, LISTENER, Interest::empty())?;
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    /// A connection is ready.
    fn serve(&mut self, token: Token, readiness: Interest) -> io::Result<()> {
        if readiness.intersects(Interest::ERR | Interest::HUP) {
            return self.drop_connection(token);
        }
        if readiness.contains(Interest::OUT) {
            self.flush(token)?;
        }
        if readiness.contains(Interest::IN) {
            self.read(token)?;
        }
        Ok(())
    }

    fn read(&mut self, token: Token) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(token) else { return Ok(()) };
        let received = connection.receive(&mut self.buffers);
        self.now = self.clock.now();
        let received = match received {
            Ok(received) => received,
            Err(ReceiveError::Gone) => return self.drop_connection(token),
            Err(ReceiveError::Tls) => {
                self.recorder.counts.tls_failed += 1;
                // The alert says why; it is sent as far as it goes.
                connection.flush(&self.answers);
                return self.drop_connection(token);
            }
        };
        if let Some(kind) = received.handshake {
            self.count_handshake(token, kind);
        }
        let mut taken = 0;
        while let Some(connection) = self.connections.get_mut(token) {
            if connection.intake != Intake::Open {
                break;
            }
            let mut input = &self.buffers.plain[taken..received.bytes];
            let event = connection.reader.next(&mut input);
            taken = received.bytes - input.len();
            match event {
                Ok(None) => break,
                Ok(Some(Event::Continue)) => {
                    connection.owe(Form::INTERIM, Reply::Continue);
                }
                Ok(Some(Event::Request(request))) => {
                    if request.form.persist == Persist::Close {
                        connection.intake = Intake::Discarded;
                    }
                    if request.wants_truth {
                        self.tell_truth(token, request)
                    } else {
                        self.enqueue(token, request)
                    }
                }
                Err(fault) => {
                    let status = match fault {
                        Fault::Malformed => Status::BadRequest,
                        Fault::HeadTooLong => Status::HeadTooLong,
                    };
                    self.recorder.counts.status.count(status);
                    connection.standing = Standing::Counted;
                    connection.intake = Intake::Discarded;
                    connection.owe(Form::FAULT, Reply::Answer(status));
                }
            }
        }
        if received.ended
            && let Some(connection) = self.connections.get_mut(token)
        {
            connection.intake = Intake::Ended;
        }
        self.answer_due()?;
        self.flush(token)
    }

    /// A request was read to its last byte, at `self.now`.
    fn enqueue(&mut self, token: Token, request: Request) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.standing = Standing::Counted;
        let fate = self.fates.fate(self.requests);
        let service = self.times.next_service();
        self.requests += 1;
        self.recorder.arrival(self.now);
        let number = connection.owe(request.form, Reply::Waiting);
        if self.queue.arrive(self.now, Job { token, number, fate }, service) == Admission::Rejected {
            self.recorder.counts.rejected += 1;
            self.recorder.counts.status.count(Status::Unavailable);
            connection.settle(number, Reply::Answer(Status::Unavailable));
        }
    }

    fn tell_truth(&mut self, token: Token, request: Request) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if let Standing::Fresh(edition, handshake) = connection.standing
            && edition == self.edition
        {
            let counts = &mut self.recorder.counts;
            counts.connections_accepted -= 1;
            match handshake {
                Some(HandshakeKind::Resumed) => counts.tls_resumed -= 1,
                Some(_) => counts.tls_full -= 1,
                None => {}
            }
            connection.standing = Standing::Counted;
        }
        let truth = self.take_truth();
        // Plain data with names for keys: it cannot fail.
        let body = serde_json::to_vec_pretty(&truth).unwrap_or_default();
        if let Some(connection) = self.connections.get_mut(token) {
            connection.owe(request.form, Reply::Bytes(json(request.form.persist, &body)));
        }
    }

    fn count_handshake(&mut self, token: Token, kind: HandshakeKind) {
        match kind {
            HandshakeKind::Resumed => self.recorder.counts.tls_resumed += 1,
            HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest => {
                self.recorder.counts.tls_full += 1
            }
        }
        if let Some(connection) = self.connections.get_mut(token)
            && let Standing::Fresh(edition, _) = connection.standing
        {
            // A connection whose parts fall into two editions is left in both.
            connection.standing = if edition == self.edition {
                Standing::Fresh(edition, Some(kind))
            } else {
                Standing::Counted
            };
        }
    }

    /// Answers what is due by `self.now`; what becomes due meanwhile is for the next turn, so that
    /// reading is never held up for long.
    fn answer_due(&mut self) -> io::Result<()> {
        let due = self.now;
        while let Some(departure) = self.queue.complete(due) {
            self.now = self.clock.now();
            self.depart(departure)?;
        }
        Ok(())
    }

    fn depart(&mut self, departure: Departure<Job>) -> io::Result<()> {
        let Job { token, number, fate } = departure.job;
        let counts = &mut self.recorder.counts;
        let Some(connection) = self.connections.get_mut(token).filter(|connection| !connection.lingers)
        else {
            counts.client_gone += 1;
            return Ok(());
        };
        let reply = match fate {
            Fate::Answer => Reply::Answer(Status::Ok),
            Fate::Error => Reply::Answer(Status::Error),
            Fate::Close => Reply::Close,
            Fate::Reset => Reply::Reset,
        };
        match reply {
            Reply::Close => counts.closes += 1,
            Reply::Reset => counts.resets += 1,
            Reply::Answer(status) => counts.status.count(status),
            Reply::Waiting | Reply::Continue | Reply::Bytes(_) => {}
        }
        connection.settle(number, reply);
        self.recorder.departure(&departure, self.now);
        self.flush(token)
    }

    /// Writes what a connection is owed, and does what follows from it.
    fn flush(&mut self, token: Token) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(token) else { return Ok(()) };
        if connection.lingers {
            return if connection.intake == Intake::Ended { self.drop_connection(token) } else { Ok(()) };
        }
        match connection.flush(&self.answers) {
            Flushed::Idle | Flushed::Blocked => {}
            Flushed::Done if connection.intake == Intake::Ended => return self.drop_connection(token),
            Flushed::Done => {
                connection.linger();
                self.lingering.push_back((self.now.saturating_add(LINGER), token));
            }
            Flushed::Reset => {
                if let Some(connection) = self.connections.remove(token) {
                    os::reset(connection.socket);
                }
                return self.accept_again();
            }
            Flushed::Gone => return self.drop_connection(token),
        }
        let interest = connection.wanted_interest();
        if interest != connection.interest {
            connection.interest = interest;
            self.poller.modify(&connection.socket, token.as_u64(), interest)?;
        }
        Ok(())
    }

    /// Closes the connections whose client took too long to close its side.
    fn end_lingering(&mut self) -> io::Result<()> {
        while let Some((until, token)) = self.lingering.front().copied()
            && until <= self.now
        {
            self.lingering.pop_front();
            self.drop_connection(token)?;
        }
        Ok(())
    }

    fn drop_connection(&mut self, token: Token) -> io::Result<()> {
        self.connections.remove(token);
        self.accept_again()
    }

    /// A descriptor is free again.
    fn accept_again(&mut self) -> io::Result<()> {
        if !self.accepts {
            self.accepts = true;
            self.poller.modify(&self.listener, LISTENER, Interest::IN)?;
        }
        Ok(())
    }
}
