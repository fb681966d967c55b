//! The checked description of a run. What builds it has checked it; nothing checks it again.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::arrival::ArrivalLaw;
use crate::profile::RateProfile;
use crate::template::Template;
use crate::time::Span;
use crate::value::Variable;

/// Everything a run needs to know. Rates and counts are totals for the run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The model of load and its length.
    pub load: Load,
    /// Before the measured part and on top of it; zero for none.
    pub warmup: Span,
    /// The longest wait for an answer, from each copy's send; [`Span::MAX`] for no limit.
    pub timeout: Span,
    /// The longest time for connecting and the TLS handshake together.
    pub connect_timeout: Span,
    /// How long answers are waited for after the schedule's end.
    pub drain: Span,
    /// Copies of requests that stay unanswered.
    pub retry: Option<Retry>,
    /// What happens to a request that cannot be sent when it is due.
    pub late: LatePolicy,
    /// A request due while so many are under way is dropped; `None` for no limit.
    pub max_in_flight: Option<u64>,
    /// The most connections open at once, at least 1.
    pub connections: u64,
    /// How a worker waits for the next due time.
    pub wait: WaitStrategy,
    /// The number of workers, at least 1.
    pub workers: u32,
    /// The seed of every random number of the run.
    pub seed: u64,
    /// The servers. At least one.
    pub targets: Vec<Target>,
    /// The kinds of requests. At least one.
    pub operations: Vec<Operation>,
    /// The variables that request templates may name.
    pub variables: Vec<Variable>,
}

/// The timeout, the connect timeout and the drain of a plan that says nothing else.
pub const DEFAULT_TIMEOUT: Span = Span::from_secs(5);
/// The most connections of an open loop that says nothing else.
pub const DEFAULT_CONNECTIONS: u64 = 10_000;

impl Plan {
    /// `load` on one kind of request to one target, everything else as the command line has it unless
    /// told otherwise: no warm-up, no copies, [`DEFAULT_TIMEOUT`], one worker, seed 1; connections up to
    /// [`DEFAULT_CONNECTIONS`], in a closed loop one a client.
    pub fn new(load: Load, target: Target, operation: Operation) -> Self {
        let connections = match load {
            Load::Open { .. } => DEFAULT_CONNECTIONS,
            Load::Closed { clients, .. } => clients.into(),
        };
        Self {
            load,
            warmup: Span::ZERO,
            timeout: DEFAULT_TIMEOUT,
            connect_timeout: DEFAULT_TIMEOUT,
            drain: DEFAULT_TIMEOUT,
            retry: None,
            late: LatePolicy::Send,
            max_in_flight: None,
            connections,
            wait: WaitStrategy::Auto,
            workers: 1,
            seed: 1,
            targets: vec![target],
            operations: vec![operation],
            variables: Vec::new(),
        }
    }
}

/// The model of load.
#[derive(Clone, Debug)]
pub enum Load {
    /// Requests by a schedule.
    Open {
        /// The rate over time; its length is the length of the measured part.
        profile: RateProfile,
        /// How arrivals lie under it.
        arrivals: ArrivalLaw,
        /// The exact number of measured requests, where the profile is long enough.
        requests: Option<u64>,
    },
    /// Clients that wait for their answers.
    Closed {
        /// How many, at least 1.
        clients: u32,
        /// The length of the measured part; `None` where the request count alone ends it.
        duration: Option<Span>,
        /// The number of measured requests after which it ends.
        requests: Option<u64>,
    },
}

/// The same request is sent again while it is unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The wait after each copy's send before the next one.
    pub after: Span,
    /// The most copies, the first one included; at least 2.
    pub copies: u32,
}

/// What happens to a request that cannot be sent when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatePolicy {
    /// It is sent as soon as it can be.
    Send,
    /// It is dropped, and counted, when it cannot be sent within this span of its due time.
    Skip(Span),
}

/// How a worker waits for the next due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStrategy {
    /// Sleeps until a calibrated margin before it and spins the rest, where a processor is free.
    Auto,
    /// Never sleeps.
    Spin,
    /// Only sleeps.
    Sleep,
}

/// A server and the way to it.
#[derive(Clone, Debug)]
pub struct Target {
    /// How it is shown: `http://127.0.0.1:8080`.
    pub name: String,
    /// Where connections go.
    pub endpoint: Endpoint,
    /// TLS on top of the connection.
    pub tls: Option<Tls>,
    /// The protocol spoken on it, and how it begins.
    pub session: Session,
}

impl Target {
    /// An HTTP server without TLS at a host and port.
    pub fn tcp(host: &str, port: u16) -> Self {
        let endpoint =
            Endpoint::Tcp { host: host.to_owned(), port, family: Family::Any, addresses: Vec::new() };
        Self { name: format!("http://{host}:{port}"), endpoint, tls: None, session: Session::Http1 }
    }
}

/// The protocol that connections to a target speak, and how it begins.
#[derive(Clone, Debug)]
pub enum Session {
    /// HTTP/1.1, which has no beginning of its own.
    Http1,
    /// PostgreSQL, which begins with who, which database, and statements to be prepared.
    Postgres(PostgresSession),
}

/// How a PostgreSQL session begins and how its statements are sent.
#[derive(Clone)]
pub struct PostgresSession {
    /// The role to log in as.
    pub user: String,
    /// What it proves itself with, where it has to; never shown.
    pub password: Option<Vec<u8>>,
    /// The database.
    pub database: String,
    /// Settings sent at the start, names and values: `application_name`, `options`.
    pub settings: Vec<(String, String)>,
    /// A server without TLS is refused. Where there is no [`Target::tls`] none is asked for.
    pub tls_required: bool,
    /// Whether logging in is tied to the TLS connection.
    pub channel_binding: ChannelBinding,
    /// How statements are sent.
    pub query_mode: QueryMode,
}

impl fmt::Debug for PostgresSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSession")
            .field("user", &self.user)
            .field("database", &self.database)
            .field("query_mode", &self.query_mode)
            .finish_non_exhaustive()
    }
}

/// Whether logging in with SCRAM is tied to the TLS connection, against somebody in its middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// Where both sides can.
    Prefer,
    /// Always; a server that cannot is refused.
    Require,
}

/// How SQL statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryMode {
    /// Named prepared statements, prepared when a connection is opened.
    Prepared,
    /// The unnamed prepared statement, parsed for each request; works through transaction poolers.
    Unnamed,
    /// The simple protocol, values written into the text.
    Simple,
}

impl QueryMode {
    /// Its name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::Unnamed => "unnamed",
            Self::Simple => "simple",
        }
    }
}

/// Where connections go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A host to be resolved, and a port.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
        /// The kind of addresses wanted.
        family: Family,
        /// Addresses that stand in for what the machine would say of the host, in the order to be
        /// tried; empty for asking the machine.
        addresses: Vec<IpAddr>,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

/// The kind of addresses wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Any.
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// How a connection is secured.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The name sent (SNI, names only) and checked.
    pub server_name: String,
    /// Whether the certificate must be for that name; who signed it is checked by `verification`.
    pub check_name: bool,
    /// What the server's certificate is checked against.
    pub verification: Verification,
    /// Protocols offered in the handshake (ALPN), the best first.
    pub alpn: Vec<Vec<u8>>,
}

/// What a server's certificate is checked against.
#[derive(Clone, Debug)]
pub enum Verification {
    /// The roots this machine trusts.
    PlatformRoots,
    /// The roots in this PEM text, and no others.
    Roots(Vec<u8>),
    /// Nothing: any certificate is taken, so the server may be anyone.
    DangerouslyNone,
}

/// A kind of request.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its name in reports.
    pub name: String,
    /// The index of its target.
    pub target: usize,
    /// Its share of all requests: weight ÷ sum of weights.
    pub weight: u64,
    /// What is sent, and what counts as a success. Its protocol is that of the target's session.
    pub request: Request,
    /// What reports say of it.
    pub facts: RequestFacts,
}

impl Operation {
    /// An HTTP/1.1 request to the first target that is answered with a body and leaves its connection
    /// open, of weight 1.
    pub fn http1(name: &str, bytes: Template) -> Self {
        let request = HttpRequest { bytes, head_only: false, close: false, success: StatusRange::HTTP };
        Self {
            name: name.to_owned(),
            target: 0,
            weight: 1,
            request: Request::Http1(request),
            facts: RequestFacts::default(),
        }
    }
}

/// What one request sends.
#[derive(Clone, Debug)]
pub enum Request {
    /// An HTTP/1.1 request.
    Http1(HttpRequest),
    /// SQL statements, sent one after the other, each when the one before has succeeded. The request
    /// is a success when all have; the rest of a transaction that failed is rolled back.
    Postgres(Vec<Statement>),
}

/// An HTTP/1.1 request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The bytes to send.
    pub bytes: Template,
    /// The method is HEAD: the answer has no body, whatever its head says.
    pub head_only: bool,
    /// The request says `Connection: close`: the connection serves it alone.
    pub close: bool,
    /// The statuses that count as success.
    pub success: StatusRange,
}

/// An SQL statement with places for values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// Its text in pieces.
    pub parts: Vec<SqlPart>,
    /// The variables whose values its parameters take, as indices into the plan's.
    pub parameters: Vec<usize>,
}

/// A piece of a statement's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlPart {
    /// Text as it is.
    Text(String),
    /// The place of the statement's parameter with this index, from 0: `$1` is 0.
    Parameter(usize),
}

/// A closed range of statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    /// The least status that is a success.
    pub first: u16,
    /// The greatest.
    pub last: u16,
}

impl StatusRange {
    /// HTTP's rule: 200 to 399.
    pub const HTTP: Self = Self { first: 200, last: 399 };

    /// True when `status` is a success.
    pub const fn holds(self, status: u16) -> bool {
        self.first <= status && status <= self.last
    }
}

/// What reports say of a kind of request; secrets are not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// The whole URL without user and password.
    pub url: String,
    /// `http/1.1` or `postgres`.
    pub protocol: String,
    /// HTTP: the method. PostgreSQL: the query mode.
    pub method: String,
    /// PostgreSQL: the statements, with `$1` where values go.
    pub sql: Vec<String>,
    /// Header names and values; values of secret ones are replaced.
    pub headers: Vec<(String, String)>,
    /// The length of the body without what variables add.
    pub body_bytes: u64,
}

/// Operations that differ only in weight, for tests of the dispatchers.
#[cfg(test)]
pub(crate) fn test_operations(weights: &[u64]) -> Vec<Operation> {
    let operation = |weight: &u64| Operation { weight: *weight, ..Operation::http1("", Template::default()) };
    weights.iter().map(operation).collect()
}
