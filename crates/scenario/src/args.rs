//! A run as the command line gives it: every value still text, nothing checked.

use std::path::PathBuf;

/// The values of `plimsoll run`. `None` and empty mean "not given", so that the defaults stand in one
/// place, where the values are read.
#[derive(Clone, Debug, Default)]
pub struct RunArgs {
    /// The URL.
    pub target: String,

    /// `--rate`: open loop at this total rate, or `max`.
    pub rate: Option<String>,
    /// `--clients`: closed loop with so many clients.
    pub clients: Option<String>,
    /// `--users`: a user population.
    pub users: Option<String>,
    /// `--think`: the law of a user's think time.
    pub think: Option<String>,
    /// `--stages`: open loop in steps and ramps.
    pub stages: Option<String>,
    /// `--arrivals`: how the requests of an open loop lie in time.
    pub arrivals: Option<String>,
    /// `--duration`: the length of the schedule.
    pub duration: Option<String>,
    /// `--requests`: end after so many.
    pub requests: Option<String>,
    /// `--warmup`: before the measured part.
    pub warmup: Option<String>,
    /// `--timeout`: for each attempt.
    pub timeout: Option<String>,
    /// `--connect-timeout`: TCP connect and TLS handshake together.
    pub connect_timeout: Option<String>,
    /// `--drain`: wait after the schedule's end.
    pub drain: Option<String>,
    /// `--retry`: the wait before a copy is sent.
    pub retry: Option<String>,
    /// `--retry-copies`: the most copies.
    pub retry_copies: Option<String>,
    /// `--connections`: the most connections open at once.
    pub connections: Option<String>,
    /// `--max-in-flight`: the most requests in flight.
    pub max_in_flight: Option<String>,
    /// `--late`: what happens to a request that cannot be sent in time.
    pub late: Option<String>,
    /// `--seed`: of all random numbers.
    pub seed: Option<String>,
    /// `--workers`: the number of threads.
    pub workers: Option<String>,
    /// `--wait`: how a worker waits.
    pub wait: Option<String>,
    /// `--percentiles`: those to be reported.
    pub percentiles: Option<String>,

    /// `--request`: the method.
    pub method: Option<String>,
    /// `--header`, in the order given: `Name: value`.
    pub headers: Vec<String>,
    /// `--data`: the body, files already read.
    pub body: Option<Vec<u8>>,
    /// `--user`: `user:password`.
    pub user: Option<String>,
    /// `--var`, in the order given: `name=law`.
    pub variables: Vec<String>,
    /// `--no-keepalive`: a connection for each request.
    pub no_keepalive: bool,

    /// `--insecure`: the server's certificate is not checked.
    pub insecure: bool,
    /// `--cacert`: the PEM text of the roots to trust.
    pub ca_certificates: Option<Vec<u8>>,
    /// `--sni`: the name for the TLS handshake.
    pub sni: Option<String>,
    /// `--resolve`, in the order given: `host:port:address`.
    pub resolve: Vec<String>,
    /// `--connect-to`, in the order given: `host1:port1:host2:port2`.
    pub connect_to: Vec<String>,
    /// `-4`: IPv4 only.
    pub ipv4: bool,
    /// `-6`: IPv6 only.
    pub ipv6: bool,
    /// `--unix-socket`: its path.
    pub unix_socket: Option<PathBuf>,
}

/// What must be known of this machine to fill in defaults and check limits.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The processors this process may use, at least 1.
    pub cpus: u32,
    /// The most descriptors this process may have open (the hard limit, since it is raised to that).
    pub descriptor_limit: u64,
}
