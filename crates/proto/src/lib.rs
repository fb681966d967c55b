//! Client sides of protocols, sans-IO: bytes in, bytes and events out; no clock, no socket.
//!
//! A codec is a state machine for one connection. The caller owns the socket, the timers and the
//! accounting, and drives the codec:
//!
//! ```text
//!            open(out) ─────────► events: Ready
//! request ─► start(token, …, out)
//! socket  ─► receive(bytes, …) ─► events: FirstByte, Done, Surplus
//! FIN     ─► eof(events) ───────► events: Done
//! timeout ─► cancel(token, out) ► what to do with the connection
//! ```
//!
//! Whatever the peer sends, a codec never panics and never holds more than its stated limits.

pub mod http1;

/// A request on its way, named by the caller; it comes back in events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

/// A request to be started.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The rendered request: for HTTP/1.1 the very bytes to send.
    pub bytes: &'a [u8],
    /// What the codec must know of it to read the answer.
    pub kind: RequestKind,
}

/// What a codec must know of a request to read its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// An HTTP/1.1 request.
    Http1 {
        /// The method is HEAD: the answer has no body, whatever its head says.
        head_only: bool,
        /// The request says `Connection: close`: the connection is not used again, whatever the
        /// answer says.
        close: bool,
    },
}

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP: the status of the final head, 200..=599 or whatever three digits came.
    pub status: u16,
    /// Bytes of the body as they came, chunk framing left out, nothing decoded.
    pub body_bytes: u64,
}

/// Why no whole answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The peer closed before the first byte of an answer.
    ClosedBeforeResponse,
    /// The peer closed inside an answer.
    ClosedInResponse,
    /// The peer broke the protocol, or a limit of this codec; a short name in snake_case.
    Protocol(&'static str),
}

impl Fault {
    /// What happened, in a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Self::ClosedBeforeResponse => "the server closed the connection without an answer",
            Self::ClosedInResponse => "the server closed the connection inside its answer",
            Self::Protocol(name) => http1::explain(name),
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
}

/// What must happen to a connection whose request was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The connection can take other requests; bytes to tell the peer may be in `out`.
    KeepConnection,
    /// Only closing the connection ends the request.
    CloseConnection,
}

/// One connection's codec.
///
/// States: new → (`open`) → ready ⇄ busy → closed. `start` is allowed after [`Event::Ready`] while
/// fewer than `capacity` requests are busy. After an event that says `reusable: false`, after
/// [`Event::Surplus`] and after `eof` nothing but dropping the codec is allowed.
pub trait Connection: Send {
    /// The transport is up: appends to `out` what the protocol says first, and tells Ready when
    /// requests may start.
    fn open(&mut self, out: &mut Vec<u8>, events: &mut Vec<Event>);

    /// Appends the bytes of `request` to `out`; its answer will bear `token`.
    fn start(&mut self, token: Token, request: Request<'_>, out: &mut Vec<u8>);

    /// Bytes came. All of them are taken; `out` may get bytes to send back.
    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>, events: &mut Vec<Event>);

    /// The peer will send no more.
    fn eof(&mut self, events: &mut Vec<Event>);

    /// The request is no longer wanted.
    fn cancel(&mut self, token: Token, out: &mut Vec<u8>) -> Cancelled;

    /// How many requests may be busy at once.
    fn capacity(&self) -> usize {
        1
    }
}
