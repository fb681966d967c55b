//! Servers of the simulated world: what they are told and what they can do.

use plimsoll_core::{Span, Timestamp};

/// What a server does with a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// Takes it.
    Accept,
    /// Takes it so much later than it could.
    Later(Span),
    /// Refuses it, as a closed port does.
    Refuse,
    /// Never answers, as a black hole does.
    Ignore,
}

/// A server on virtual time. Its actions go through [`Net`] and take effect when it says.
pub trait Server {
    /// Somebody connects to address number `address`.
    fn connect(&mut self, _now: Timestamp, _connection: usize, _address: usize) -> Acceptance {
        Acceptance::Accept
    }

    /// A connection it took is established.
    fn accepted(&mut self, _now: Timestamp, _connection: usize, _net: &mut Net) {}

    /// So many bytes of a request have come, and its empty line has not.
    fn part(&mut self, _now: Timestamp, _connection: usize, _bytes: usize, _net: &mut Net) {}

    /// A whole request (up to its empty line) has come.
    fn request(&mut self, now: Timestamp, connection: usize, request: &[u8], net: &mut Net);

    /// A moment it asked for with [`Net::wake`] has come.
    fn wake(&mut self, _now: Timestamp, _tag: u64, _net: &mut Net) {}

    /// The client has closed the connection.
    fn closed(&mut self, _now: Timestamp, _connection: usize) {}
}

/// What a server wants done, and when.
#[derive(Debug, Default)]
pub struct Net {
    pub(crate) actions: Vec<(Timestamp, Deed)>,
}

/// One of a server's actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Send { connection: usize, bytes: Vec<u8> },
    Close { connection: usize },
    Reset { connection: usize },
    Wake { tag: u64 },
}

impl Net {
    /// Sends `bytes` at `at`.
    pub fn send(&mut self, at: Timestamp, connection: usize, bytes: impl Into<Vec<u8>>) {
        self.actions.push((at, Deed::Send { connection, bytes: bytes.into() }));
    }

    /// Closes the connection properly at `at`.
    pub fn close(&mut self, at: Timestamp, connection: usize) {
        self.actions.push((at, Deed::Close { connection }));
    }

    /// Resets the connection at `at`.
    pub fn reset(&mut self, at: Timestamp, connection: usize) {
        self.actions.push((at, Deed::Reset { connection }));
    }

    /// Calls [`Server::wake`] with `tag` at `at`.
    pub fn wake(&mut self, at: Timestamp, tag: u64) {
        self.actions.push((at, Deed::Wake { tag }));
    }
}

/// The answer most servers here give.
pub const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server made of one function that is called for each request.
pub struct Answers<F>(pub F);

impl<F: FnMut(Timestamp, usize, &mut Net)> Server for Answers<F> {
    fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
        (self.0)(now, connection, net);
    }
}
