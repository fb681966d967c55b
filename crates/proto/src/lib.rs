//! Client sides of protocols, sans-IO: bytes in, bytes and events out; no clock, no socket.
//!
//! A codec is a state machine for one connection. The caller owns the socket, the timers and the
//! accounting, and drives the codec:
//!
//! ```text
//!            open(out) ─────────► events: Ready, or later StartTls, Ready, Refused
//! TLS     ─► secured(…, out)
//! request ─► start(token, …, out)
//! socket  ─► receive(bytes, …) ─► events: FirstByte, Done, Surplus, Closing
//! FIN     ─► eof(events) ───────► events: Done, Refused
//! timeout ─► cancel(token, out) ► what to do with the connection
//! ```
//!
//! Whatever the peer sends, a codec never panics and never holds more than its stated limits.

use std::borrow::Cow;

pub mod http1;
pub mod postgres;

/// A request on its way, named by the caller; it comes back in events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

/// A request to be started.
#[derive(Clone, Copy)]
pub enum Request<'a> {
    /// An HTTP/1.1 request.
    Http1 {
        /// The very bytes to send.
        bytes: &'a [u8],
        /// The method is HEAD: the answer has no body, whatever its head says.
        head_only: bool,
        /// The request says `Connection: close`: the connection is not used again, whatever the
        /// answer says.
        close: bool,
    },
    /// SQL statements, known to the codec from its set-up.
    Postgres {
        /// The index of the statements among those of the set-up.
        transaction: usize,
        /// The value of the parameter with this index, counted through all the statements.
        value: &'a dyn Fn(usize) -> Value<'a>,
    },
}

/// A value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A whole number.
    Whole(i64),
    /// Text.
    Text(&'a str),
}

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// HTTP.
    Http1 {
        /// The status of the final head, 200..=599 or whatever three digits came.
        status: u16,
        /// Bytes of the body as they came, chunk framing left out, nothing decoded.
        body_bytes: u64,
    },
    /// PostgreSQL: all statements succeeded, and returned so many rows.
    Rows(u64),
    /// PostgreSQL: a statement failed; the transaction it was in has been rolled back.
    SqlError(SqlState),
}

/// The code of an SQL error: five ASCII digits or capital letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqlState(pub [u8; 5]);

/// Why no whole answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The peer closed before the first byte of an answer.
    ClosedBeforeResponse,
    /// The peer closed inside an answer.
    ClosedInResponse,
    /// The peer broke the protocol, or a limit of this codec; a short name in snake_case.
    Protocol(&'static str),
    /// An SQL error: the peer turned the connection away.
    SqlState(SqlState),
}

impl Fault {
    /// A sentence for the ends that all protocols know; `None` for those of one.
    fn common_text(self) -> Option<&'static str> {
        match self {
            Self::ClosedBeforeResponse => Some("the server closed the connection without an answer"),
            Self::ClosedInResponse => Some("the server closed the connection inside its answer"),
            Self::Protocol(_) | Self::SqlState(_) => None,
        }
    }
}

/// What a codec has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection can take requests.
    Ready,
    /// The first byte of an answer (for HTTP/1.1: of anything sent back, interim heads included).
    FirstByte(Token),
    /// A request has ended.
    Done {
        /// Which one.
        token: Token,
        /// How.
        result: Result<Answer, Fault>,
        /// True when the connection can take another request.
        reusable: bool,
    },
    /// Bytes that no request asked for; the connection must be closed.
    Surplus {
        /// How many.
        bytes: usize,
    },
    /// The peer takes TLS: it begins now, and [`Connection::secured`] follows once it is there.
    StartTls,
    /// The connection never came to be ready, and must be closed.
    Refused(Fault),
    /// The peer has said that it ends the connection, which carries no request; it must be closed.
    Closing(Fault),
}

/// What must happen to a connection whose request was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The connection can take other requests; bytes to tell the peer may be in `out`.
    KeepConnection,
    /// Only closing the connection ends the request.
    CloseConnection,
    /// The same, and the peer ends its work on it when the bytes in `out` come to it over a connection
    /// of their own, without TLS and without an answer.
    CloseAndTellElsewhere,
}

/// One connection's codec.
///
/// States: new → (`open`) → ready ⇄ busy → closed. `start` is allowed after [`Event::Ready`] while
/// fewer than `capacity` requests are busy. After an event that says `reusable: false`, after
/// [`Event::Surplus`], [`Event::Refused`], [`Event::Closing`] and after `eof` nothing but dropping the
/// codec is allowed.
pub trait Connection: Send {
    /// The transport is up: appends to `out` what the protocol says first, and tells Ready when
    /// requests may start.
    fn open(&mut self, out: &mut Vec<u8>, events: &mut Vec<Event>);

    /// The TLS that [`Event::StartTls`] asked for is there. `binding` is what a login can be tied to
    /// it by: the hash of the server's certificate (RFC 5929, `tls-server-end-point`), where there is one.
    fn secured(&mut self, _binding: Option<&[u8]>, _out: &mut Vec<u8>, _events: &mut Vec<Event>) {}

    /// Appends the bytes of `request` to `out`; its answer will bear `token`.
    fn start(&mut self, token: Token, request: Request<'_>, out: &mut Vec<u8>);

    /// Bytes came. All of them are taken; `out` may get bytes to send back.
    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>, events: &mut Vec<Event>);

    /// The peer will send no more.
    fn eof(&mut self, events: &mut Vec<Event>);

    /// The request is no longer wanted.
    fn cancel(&mut self, token: Token, out: &mut Vec<u8>) -> Cancelled;

    /// What happened, in a sentence, for a fault or an SQL error that an event of the last call told of.
    fn explain(&self, fault: Fault) -> Cow<'static, str>;

    /// How many requests may be busy at once.
    fn capacity(&self) -> usize {
        1
    }
}
