//! The seam between a worker and its machine: a clock, sockets, and a way to wait.
//!
//! [`crate::os::Os`] is the real machine; the simulation has one of its own on virtual time. A
//! worker is generic over it, so that the very code that measures is the code that is tested.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use plimsoll_core::{Span, Timestamp};

/// Where a connection goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// A stream socket in the file system.
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A socket of which something can be learned now. Edges, not levels: what is told once is not
/// told again until it happens anew, so the caller reads until it is told to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The key given to [`System::connect`].
    pub key: u64,
    /// Bytes, the peer's end, or an error are there to be read.
    pub readable: bool,
    /// Bytes can be written again, or connecting has come to an end.
    pub writable: bool,
    /// The peer has closed its side or the connection is broken: read until the end is seen.
    pub hang_up: bool,
}

/// What one read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// How many bytes; 0 is the peer's end.
    pub bytes: usize,
    /// When the last of them reached this machine, where the machine knows.
    pub stamp: Option<Timestamp>,
}

/// Processor time of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All of it.
    pub cpu: Span,
    /// The part that was spinning towards a due time.
    pub spun: Span,
}

/// A clock, sockets, and a way to wait.
///
/// Sockets do not block: an operation that would, fails with [`io::ErrorKind::WouldBlock`], and the
/// key turns up in [`System::next_ready`] when it is worth another try.
pub trait System {
    /// A connection.
    type Socket;

    /// The present. Never goes back.
    fn now(&mut self) -> Timestamp;

    /// Waits until a socket is ready, or `due` or `timer` has come, whichever is first. For `due`
    /// the wait strategy spends what it may to be back in time; `timer` may be met late.
    ///
    /// # Errors
    /// When the machine cannot wait at all, which ends the run.
    fn wait(&mut self, due: Timestamp, timer: Timestamp) -> io::Result<()>;

    /// The next of the sockets the last wait found ready, each once.
    fn next_ready(&mut self) -> Option<Ready>;

    /// Begins to connect; ready (writable or hang_up) when that has come to an end.
    ///
    /// # Errors
    /// When it is known at once that it cannot be.
    fn connect(&mut self, address: &Address, key: u64) -> io::Result<Self::Socket>;

    /// How connecting ended, once the socket is ready.
    ///
    /// # Errors
    /// Why it failed.
    fn connected(&mut self, socket: &Self::Socket) -> io::Result<()>;

    /// Writes what the socket takes of `bytes`.
    ///
    /// # Errors
    /// As sockets do; [`io::ErrorKind::WouldBlock`] when it takes nothing now.
    fn send(&mut self, socket: &mut Self::Socket, bytes: &[u8]) -> io::Result<usize>;

    /// Reads into `buffer`.
    ///
    /// # Errors
    /// As sockets do; [`io::ErrorKind::WouldBlock`] when there is nothing now.
    fn receive(&mut self, socket: &mut Self::Socket, buffer: &mut [u8]) -> io::Result<Received>;

    /// Closes the connection. Its key may still turn up once among those found ready before.
    fn close(&mut self, socket: Self::Socket);

    /// Whether reads have carried stamps, all but a few of them; `None` before there was any.
    fn has_stamps(&self) -> Option<bool>;

    /// Processor time used so far.
    fn usage(&self) -> Usage;
}
