//! PostgreSQL, the client's side, of protocol version 3.0: logging in, and statements one after the other.
//!
//! Messages are those of the `postgres-protocol` crate; where they begin and end is read here, so that
//! rows are counted where they lie and never copied.
//!
//! # A connection's life
//!
//! ```text
//! open ─► (TLS asked for ─► StartTls ─► secured) ─► login ─► statements tried ─► Ready
//! start ─► statement ─► statement … ─► Done
//!              └─ error ─► ROLLBACK where a transaction is open ─► Done
//! ```
//!
//! Before it is ready every statement is parsed once ([`Mode::Simple`] cannot). One that the server
//! refuses makes the connection refused, so that a mistake is told before anything is measured; unless it
//! is one of several in a transaction, where an earlier one may create what it names.
//!
//! # A request
//!
//! Its statements are sent one at a time, the next when the one before has succeeded, as programs do.
//! After an error the rest is not sent; an open transaction is rolled back, and only then the request
//! ends. A request that ends inside a transaction is rolled back too and is a fault, since the next one
//! would go on in it.
//!
//! | the server sends | what is made of it |
//! |---|---|
//! | rows | counted, skipped |
//! | an error | the request's end, under its SQLSTATE; its text is kept for [`Connection::explain`] |
//! | an error of severity FATAL or PANIC | the request's end and the connection's |
//! | notices, notifications, changed settings | skipped, at any time |
//! | a wish for data of COPY FROM STDIN | refused, which makes the statement fail |
//! | data of COPY TO STDOUT | skipped |
//! | 26000, a prepared statement is not there | the request fails, and the statement is prepared anew with its next use |
//!
//! # Limits
//!
//! Of a message's body at most [`MAX_KEPT_BYTES`] are kept; a login message may not be longer.

mod encode;
mod explain;
mod frames;
mod login;
mod setup;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use crate::{Answer, Cancelled, Connection, Event, Fault, Request, SqlState, Token};
use explain::ServerError;
use frames::Frames;
pub use frames::MAX_KEPT_BYTES;
use login::Login;
use setup::Prepared;
pub use setup::{Binding, Mode, Part, Settings, Setup, Statement, TlsUse};

/// The codec of one PostgreSQL connection; the module's text says how it behaves.
#[derive(Debug)]
pub struct Postgres {
    frames: Frames,
    session: Session,
}

/// Everything but the framing, so that a message can lie in the one while the other acts on it.
#[derive(Debug)]
struct Session {
    setup: Arc<Setup>,
    tls: TlsUse,
    phase: Phase,
    /// By prepared statement: whether this connection has it.
    prepared: Vec<bool>,
    /// What a request to cancel must prove itself with, once the server has said it.
    cancel_key: Option<(i32, i32)>,
    /// The busy request's messages, statement by statement, and where each one's end.
    queue: BytesMut,
    ends: Vec<usize>,
    /// What the server said of its last error.
    error: ServerError,
    scratch: BytesMut,
}

#[derive(Debug)]
enum Phase {
    New,
    /// TLS was asked for; the answer is one byte.
    TlsAsked,
    /// TLS is being agreed on below.
    Securing,
    Login(Login),
    /// The statement with this index is being tried.
    Trying(usize),
    Idle,
    Busy(Exchange),
    Closed,
}

/// A request on its way.
#[derive(Debug)]
struct Exchange {
    token: Token,
    transaction: usize,
    /// The statement that is under way.
    at: usize,
    rolling_back: bool,
    /// The server has said that it is done with the statement under way.
    complete: bool,
    /// It was told that no data come for COPY.
    copy_refused: bool,
    rows: u64,
    failed: Option<Fault>,
    /// True once a byte came for it.
    heard: bool,
}

impl Postgres {
    /// The codec of a connection that is not up yet.
    pub fn new(setup: Arc<Setup>) -> Self {
        let tls = setup.tls();
        Self::with(setup, tls)
    }

    /// The same for a connection that is tried without TLS, after it could not be had with it.
    pub fn without_tls(setup: Arc<Setup>) -> Self {
        Self::with(setup, TlsUse::Never)
    }

    fn with(setup: Arc<Setup>, tls: TlsUse) -> Self {
        let session = Session {
            tls,
            phase: Phase::New,
            prepared: vec![false; setup.prepared().len()],
            cancel_key: None,
            queue: BytesMut::new(),
            ends: Vec::new(),
            error: ServerError::default(),
            scratch: BytesMut::new(),
            setup,
        };
        Self { frames: Frames::default(), session }
    }
}

impl Connection for Postgres {
    fn open(&mut self, out: &mut Vec<u8>, events: &mut Vec<Event>) {
        let session = &mut self.session;
        if session.tls == TlsUse::Never {
            return session.log_in(None, out, events);
        }
        session.write(out, frontend::ssl_request);
        session.phase = Phase::TlsAsked;
    }

    fn secured(&mut self, binding: Option<&[u8]>, out: &mut Vec<u8>, events: &mut Vec<Event>) {
        debug_assert!(matches!(self.session.phase, Phase::Securing), "TLS was not asked for");
        self.session.log_in(Some(binding), out, events);
    }

    fn start(&mut self, token: Token, request: Request<'_>, out: &mut Vec<u8>) {
        let Request::Postgres { transaction, value } = request else {
            unreachable!("a PostgreSQL connection is given SQL");
        };
        debug_assert!(matches!(self.session.phase, Phase::Idle), "the connection is not free");
        let session = &mut self.session;
        session.phase = Phase::Busy(Exchange {
            token,
            transaction,
            at: 0,
            rolling_back: false,
            complete: false,
            copy_refused: false,
            rows: 0,
            failed: None,
            heard: false,
        });
        session.queue.clear();
        session.ends.clear();
        let mut first = 0;
        for statement in session.setup.transaction(transaction) {
            encode::run(session.setup.mode(), statement, first, value, &mut session.queue);
            session.ends.push(session.queue.len());
            first += statement.parameters;
        }
        session.send_statement(transaction, 0, out);
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>, events: &mut Vec<Event>) {
        let mut rest = bytes;
        let session = &mut self.session;
        if let Phase::TlsAsked = session.phase
            && !session.take_tls_answer(&mut rest, out, events)
        {
            return;
        }
        if let Phase::Busy(exchange) = &mut session.phase
            && !exchange.heard
            && !rest.is_empty()
        {
            exchange.heard = true;
            events.push(Event::FirstByte(exchange.token));
        }
        while !matches!(session.phase, Phase::Closed) {
            match self.frames.next(&mut rest, session.phase.wants()) {
                Ok(Some(message)) => session.take(message.tag, message.body, out, events),
                Ok(None) => return,
                Err(name) => session.fail(Fault::Protocol(name), events),
            }
        }
    }

    fn eof(&mut self, events: &mut Vec<Event>) {
        let session = &mut self.session;
        let fault = match &session.phase {
            Phase::Closed | Phase::Idle => {
                session.phase = Phase::Closed;
                return;
            }
            Phase::Busy(exchange) if exchange.heard => Fault::ClosedInResponse,
            Phase::Busy(_) => Fault::ClosedBeforeResponse,
            _ => Fault::Protocol("closed_in_login"),
        };
        session.fail(fault, events);
    }

    fn cancel(&mut self, token: Token, out: &mut Vec<u8>) -> Cancelled {
        let session = &mut self.session;
        match &session.phase {
            Phase::Busy(exchange) if exchange.token == token => {}
            Phase::Closed => return Cancelled::CloseConnection,
            _ => return Cancelled::KeepConnection,
        }
        session.phase = Phase::Closed;
        let Some((process, key)) = session.cancel_key else { return Cancelled::CloseConnection };
        session.write(out, |message| frontend::cancel_request(process, key, message));
        Cancelled::CloseAndTellElsewhere
    }

    fn explain(&self, fault: Fault) -> Cow<'static, str> {
        explain::explain(fault, &self.session.error, &self.session.setup)
    }
}

impl Phase {
    /// The messages that may come now.
    fn wants(&self) -> frames::Wants {
        match self {
            Self::New | Self::TlsAsked | Self::Securing | Self::Login(_) => frames::Wants::Login,
            Self::Trying(_) | Self::Idle | Self::Busy(_) | Self::Closed => frames::Wants::Exchange,
        }
    }
}

impl Session {
    /// Appends a message of the library's to `out`.
    fn write(&mut self, out: &mut Vec<u8>, message: impl FnOnce(&mut BytesMut)) {
        self.scratch.clear();
        message(&mut self.scratch);
        out.extend_from_slice(&self.scratch);
        self.scratch.clear();
    }

    /// Takes the one byte that answers the wish for TLS; true when messages follow it.
    fn take_tls_answer(&mut self, rest: &mut &[u8], out: &mut Vec<u8>, events: &mut Vec<Event>) -> bool {
        let Some((answer, more)) = rest.split_first() else { return false };
        match answer {
            // What came in the clear before TLS may be anybody's.
            b'S' if !more.is_empty() => self.fail(Fault::Protocol("bytes_before_tls"), events),
            b'S' => {
                self.phase = Phase::Securing;
                events.push(Event::StartTls);
            }
            b'N' if self.tls == TlsUse::Required => {
                self.fail(Fault::Protocol("tls_refused"), events);
            }
            b'N' => {
                *rest = more;
                self.log_in(None, out, events);
                return true;
            }
            // An error in place of an answer: too many connections, say.
            b'E' => {
                self.phase = Phase::Login(Login::default());
                return true;
            }
            _ => self.fail(Fault::Protocol("not_postgres"), events),
        }
        false
    }

    /// Says who comes. `tls` holds what TLS gives to be tied to, where there is TLS.
    fn log_in(&mut self, tls: Option<Option<&[u8]>>, out: &mut Vec<u8>, events: &mut Vec<Event>) {
        let mut message = std::mem::take(&mut self.scratch);
        message.clear();
        let written = login::startup(&self.setup, &mut message);
        out.extend_from_slice(&message);
        message.clear();
        self.scratch = message;
        self.phase = Phase::Login(Login::new(tls));
        if written.is_err() {
            self.fail(Fault::Protocol("zero_byte_in_login"), events);
        }
    }

    fn take(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>, events: &mut Vec<Event>) {
        match tag {
            // Notices, changed settings and notifications may come at any time.
            b'N' | b'S' | b'A' => {}
            b'E' => self.take_error(body, events),
            b'Z' => match body {
                [status @ (b'I' | b'T' | b'E')] => self.take_ready(*status, out, events),
                _ => self.fail(Fault::Protocol("bad_message"), events),
            },
            _ => match &mut self.phase {
                Phase::Login(_) => self.take_login(tag, body, out, events),
                Phase::Busy(exchange) => match tag {
                    b'D' => exchange.rows += 1,
                    b'C' | b'I' => exchange.complete = true,
                    b'1' => {
                        let (transaction, at) = (exchange.transaction, exchange.at);
                        if let Some(index) = self.setup.prepared_index(transaction, at) {
                            self.prepared[index] = true;
                        }
                    }
                    b'G' if exchange.copy_refused => self.fail(Fault::Protocol("bad_message"), events),
                    b'G' => {
                        exchange.copy_refused = true;
                        let extended = self.setup.mode() != Mode::Simple;
                        self.write(out, |message| encode::refuse_copy(extended, message));
                    }
                    b'W' => self.fail(Fault::Protocol("copy_both"), events),
                    _ => {}
                },
                Phase::Trying(_) => {}
                // Nobody asked for it.
                _ => {
                    self.phase = Phase::Closed;
                    events.push(Event::Surplus { bytes: body.len() + frames::HEADER_BYTES });
                }
            },
        }
    }

    fn take_login(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>, events: &mut Vec<Event>) {
        let Phase::Login(login) = &mut self.phase else { return };
        match tag {
            b'R' => match login.take(body, &self.setup, &mut self.scratch) {
                Ok(()) => {
                    out.extend_from_slice(&self.scratch);
                    self.scratch.clear();
                }
                Err(name) => self.fail(Fault::Protocol(name), events),
            },
            b'K' => match body {
                [p0, p1, p2, p3, k0, k1, k2, k3] => {
                    let process = i32::from_be_bytes([*p0, *p1, *p2, *p3]);
                    self.cancel_key = Some((process, i32::from_be_bytes([*k0, *k1, *k2, *k3])));
                }
                // Longer keys belong to later protocol versions, which were not asked for.
                _ => self.fail(Fault::Protocol("bad_message"), events),
            },
            _ => self.fail(Fault::Protocol("bad_message"), events),
        }
    }

    fn take_error(&mut self, body: &[u8], events: &mut Vec<Event>) {
        if self.error.read(body).is_err() {
            return self.fail(Fault::Protocol("bad_message"), events);
        }
        let (state, fatal) = (self.error.state(), self.error.is_fatal());
        match &mut self.phase {
            Phase::Busy(exchange) => {
                if fatal {
                    let token = exchange.token;
                    self.phase = Phase::Closed;
                    events.push(Event::Done { token, result: Ok(Answer::SqlError(state)), reusable: false });
                } else if !exchange.rolling_back {
                    exchange.failed.get_or_insert(Fault::SqlState(state));
                    let (transaction, at) = (exchange.transaction, exchange.at);
                    self.mind_prepared(transaction, at, state);
                } else {
                    self.fail(Fault::Protocol("rollback_failed"), events);
                }
            }
            Phase::Trying(at) => {
                let at = *at;
                self.take_trial_error(at, state, fatal, events);
            }
            Phase::Idle if !fatal => {}
            Phase::Idle => {
                self.phase = Phase::Closed;
                events.push(Event::Closing(Fault::SqlState(state)));
            }
            _ => self.fail(Fault::SqlState(state), events),
        }
    }

    /// What an error says about the prepared statement that was used.
    fn mind_prepared(&mut self, transaction: usize, at: usize, state: SqlState) {
        let Some(index) = self.setup.prepared_index(transaction, at) else { return };
        match &state.0 {
            b"26000" => self.prepared[index] = false,
            b"42P05" => self.prepared[index] = true,
            _ => {}
        }
    }

    /// A statement was refused while it was tried: so is the connection, unless it is there already (behind
    /// a pooler that shares the server's sessions), or names what an earlier statement of its transaction
    /// may make.
    fn take_trial_error(&mut self, at: usize, state: SqlState, fatal: bool, events: &mut Vec<Event>) {
        self.prepared[at] = &state.0 == b"42P05";
        // A table, column, function, other object or schema that does not exist.
        let missing = matches!(&state.0, b"42P01" | b"42703" | b"42883" | b"42704" | b"3F000");
        let tolerable = self.prepared[at] || (missing && !self.setup.prepared()[at].stands_alone);
        if fatal || !tolerable {
            self.fail(Fault::SqlState(state), events);
        }
    }

    fn take_ready(&mut self, status: u8, out: &mut Vec<u8>, events: &mut Vec<Event>) {
        match &mut self.phase {
            Phase::Login(login) => match login.finish(&self.setup) {
                Ok(()) => self.try_statements(out, events),
                Err(name) => self.fail(Fault::Protocol(name), events),
            },
            Phase::Trying(at) => {
                *at += 1;
                if *at == self.prepared.len() {
                    self.become_ready(events);
                }
            }
            Phase::Busy(_) => self.take_statement_end(status, out, events),
            _ => self.fail(Fault::Protocol("bad_message"), events),
        }
    }

    /// Has every statement parsed, all in one go; each is followed by a Sync, so that one that is
    /// refused takes no other with it.
    fn try_statements(&mut self, out: &mut Vec<u8>, events: &mut Vec<Event>) {
        let setup = Arc::clone(&self.setup);
        if setup.prepared().is_empty() {
            return self.become_ready(events);
        }
        self.phase = Phase::Trying(0);
        self.prepared.fill(true);
        for Prepared { parse, .. } in setup.prepared() {
            out.extend_from_slice(parse);
            self.write(out, frontend::sync);
        }
    }

    fn become_ready(&mut self, events: &mut Vec<Event>) {
        self.phase = Phase::Idle;
        events.push(Event::Ready);
    }

    /// Sends the statement at `at` of the busy request, which lies ready in the queue.
    fn send_statement(&mut self, transaction: usize, at: usize, out: &mut Vec<u8>) {
        if let Some(index) = self.setup.prepared_index(transaction, at)
            && (self.setup.mode() == Mode::Unnamed || !self.prepared[index])
        {
            // In one go with its use: where it fails, the server skips the rest up to the Sync.
            out.extend_from_slice(&self.setup.prepared()[index].parse);
        }
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        out.extend_from_slice(&self.queue[begin..self.ends[at]]);
    }

    /// The server has done what it was last asked for, and its transaction is in `status`.
    fn take_statement_end(&mut self, status: u8, out: &mut Vec<u8>, events: &mut Vec<Event>) {
        let Phase::Busy(exchange) = &mut self.phase else { return };
        if exchange.failed.is_none() {
            // Without it nothing says that this is the end of what was asked, and answers would shift.
            if !std::mem::take(&mut exchange.complete) {
                return self.fail(Fault::Protocol("bad_message"), events);
            }
            let (transaction, next) = (exchange.transaction, exchange.at + 1);
            if next < self.ends.len() {
                exchange.at = next;
                exchange.copy_refused = false;
                return self.send_statement(transaction, next, out);
            }
            if status != b'I' {
                exchange.failed = Some(Fault::Protocol("transaction_left_open"));
            }
        }
        if status != b'I' {
            if exchange.rolling_back {
                return self.fail(Fault::Protocol("rollback_failed"), events);
            }
            exchange.rolling_back = true;
            return self.write(out, encode::roll_back);
        }
        let (token, rows) = (exchange.token, exchange.rows);
        let result = match exchange.failed {
            None => Ok(Answer::Rows(rows)),
            Some(Fault::SqlState(state)) => Ok(Answer::SqlError(state)),
            Some(fault) => Err(fault),
        };
        self.phase = Phase::Idle;
        events.push(Event::Done { token, result, reusable: true });
    }

    /// The connection cannot go on.
    fn fail(&mut self, fault: Fault, events: &mut Vec<Event>) {
        let event = match &self.phase {
            Phase::Closed => return,
            Phase::Busy(exchange) => {
                Event::Done { token: exchange.token, result: Err(fault), reusable: false }
            }
            Phase::Idle => Event::Closing(fault),
            _ => Event::Refused(fault),
        };
        self.phase = Phase::Closed;
        events.push(event);
    }
}
