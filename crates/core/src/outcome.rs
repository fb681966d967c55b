//! How a request ends: exactly one [`Outcome`] each, and never an `Err`: a failed request is data.

use std::fmt;

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A whole answer that counts as a success.
    Ok,
    /// A whole answer that does not, or no answer for another reason than time.
    Failed(Failure),
    /// Sent, and not answered within the timeout.
    TimedOut,
    /// Not answered, or not even sent, when the drain ended.
    Unfinished,
    /// Due, and by policy never sent.
    Dropped(DropReason),
}

/// The policy that dropped a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// It could not be sent within `--late skip:D` of its due time.
    Late,
    /// `--max-in-flight` requests were already under way when it was due.
    MaxInFlight,
}

impl DropReason {
    /// Every reason, in the order reports list them.
    pub const ALL: [Self; 2] = [Self::Late, Self::MaxInFlight];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::MaxInFlight => "max_in_flight",
        }
    }
}

/// Why a request failed. Grouped by whose doing it is: the generator's machine, the way to the
/// server, the connection, the protocol, the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// This machine had no descriptor left for a socket (EMFILE, ENFILE).
    DescriptorLimit,
    /// This machine had no local port left towards the server (EADDRNOTAVAIL).
    NoLocalPort,
    /// This machine could not make or use a socket for another reason.
    LocalError,
    /// The server refused the connection.
    ConnectRefused,
    /// No route to the server, or its network or host was reported unreachable.
    Unreachable,
    /// Connecting was not done within the connect timeout.
    ConnectTimeout,
    /// Connecting failed in another way.
    ConnectFailed,
    /// The TLS handshake was not done within the connect timeout.
    TlsTimeout,
    /// The TLS handshake or a TLS record failed; the name of the reason follows `tls_`.
    Tls(&'static str),
    /// The server reset the connection.
    Reset,
    /// The server closed the connection before the first byte of an answer.
    ClosedBeforeResponse,
    /// The server closed the connection inside an answer.
    ClosedInResponse,
    /// The answer broke the protocol; the name of the fault follows `protocol_`.
    Protocol(&'static str),
    /// A whole answer whose status is not a success.
    Status(u16),
    /// The server answered with an SQL error of this code (SQLSTATE: five digits or capital letters).
    SqlState([u8; 5]),
}

impl Failure {
    /// True where a whole answer came: it counts as answered, though not as a success.
    pub const fn is_answer(self) -> bool {
        matches!(self, Self::Status(_) | Self::SqlState(_))
    }

    /// True where this machine, not the server, is to blame.
    pub const fn is_generators_own(self) -> bool {
        matches!(self, Self::DescriptorLimit | Self::NoLocalPort | Self::LocalError)
    }
}

impl fmt::Display for Failure {
    /// Its name in results, such as `connect_refused` or `status_503`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DescriptorLimit => "descriptor_limit",
            Self::NoLocalPort => "no_local_port",
            Self::LocalError => "local_error",
            Self::ConnectRefused => "connect_refused",
            Self::Unreachable => "unreachable",
            Self::ConnectTimeout => "connect_timeout",
            Self::ConnectFailed => "connect_failed",
            Self::TlsTimeout => "tls_timeout",
            Self::Tls(reason) => return write!(f, "tls_{reason}"),
            Self::Reset => "reset",
            Self::ClosedBeforeResponse => "closed_before_response",
            Self::ClosedInResponse => "closed_in_response",
            Self::Protocol(fault) => return write!(f, "protocol_{fault}"),
            Self::Status(status) => return write!(f, "status_{status}"),
            Self::SqlState(code) => {
                return write!(f, "sqlstate_{}", std::str::from_utf8(code).unwrap_or("invalid"));
            }
        })
    }
}
