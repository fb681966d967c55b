//! One connection of the pool: its socket, its layers and where it stands.

use plimsoll_core::Timestamp;

use crate::tls::TlsSession;

/// Where a connection stands.
///
/// Connecting → (Handshaking →) Starting (→ Handshaking → Starting) → Idle ⇄ Busy; from each it can be
/// gone at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The transport is being connected.
    Connecting,
    /// TLS is being agreed on.
    Handshaking,
    /// The protocol is being started.
    Starting,
    /// Free.
    Idle,
    /// Carries the attempt in this slot.
    Busy(u32),
    /// Carries no request, only word to the server that one is no longer wanted; true once the transport
    /// is there.
    Telling(bool),
}

impl State {
    /// It can carry requests.
    pub(super) fn is_established(self) -> bool {
        matches!(self, Self::Idle | Self::Busy(_))
    }

    /// It is not yet what it was opened to be.
    pub(super) fn is_opening(self) -> bool {
        matches!(self, Self::Connecting | Self::Handshaking | Self::Starting)
    }
}

/// A connection from its first connect on.
pub(super) struct Connection<Socket> {
    /// The index of its target.
    pub(super) lane: usize,
    /// The index of its address among the target's.
    pub(super) address: usize,
    /// How many addresses have failed it.
    pub(super) tried: usize,
    /// When it was begun: the start of its connect time.
    pub(super) begun: Timestamp,
    /// When its present address was begun: the start of the connect timeout.
    pub(super) attempt_begun: Timestamp,
    pub(super) state: State,
    /// `None` only while no address could be tried yet.
    pub(super) socket: Option<Socket>,
    pub(super) tls: Option<Box<TlsSession>>,
    pub(super) codec: Option<Box<dyn plimsoll_proto::Connection>>,
    /// Bytes that the socket did not take yet.
    pub(super) unsent: Vec<u8>,
    /// The socket of the connection that a messenger speaks of.
    pub(super) speaks_of: Option<Socket>,
    /// The peer's end is known to be there, and may not have been read yet.
    pub(super) hung_up: bool,
}

impl<Socket> Connection<Socket> {
    pub(super) fn new(lane: usize, address: usize, now: Timestamp) -> Self {
        Self {
            lane,
            address,
            tried: 0,
            begun: now,
            attempt_begun: now,
            state: State::Connecting,
            socket: None,
            tls: None,
            codec: None,
            unsent: Vec::new(),
            speaks_of: None,
            hung_up: false,
        }
    }

    /// True when its exchange is over and no other may follow: the peer has closed, or it answered
    /// before it had got all of the request, and the next one would stand behind the rest.
    pub(super) fn is_spent(&self) -> bool {
        matches!(self.state, State::Busy(_)) && (self.hung_up || !self.unsent.is_empty())
    }

    /// Begins anew with another address.
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.state = State::Connecting;
        self.attempt_begun = now;
        self.tls = None;
        self.codec = None;
        self.unsent.clear();
        self.hung_up = false;
    }
}

impl<Socket> std::fmt::Debug for Connection<Socket> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("lane", &self.lane)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
