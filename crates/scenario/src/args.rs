//! A run as the command line gives it: every value still text, nothing checked.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::files::csv_parts;
use crate::{postgres, url};

/// The values of `plimsoll run`. `None` and empty mean "not given", so that the defaults stand in one
/// place, where the values are read.
#[derive(Clone, Default)]
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

    /// `--sql`, in the order given.
    pub sql: Vec<SqlText>,
    /// `--sql-file`, in the order given, already read.
    pub sql_files: Vec<SqlFile>,
    /// `--param`, in the order given: the law of `$1`, of `$2` and so on.
    pub params: Vec<String>,
    /// `--query-mode`: how statements are sent.
    pub query_mode: Option<String>,

    /// The names and contents of the files that other values name, see [`RunArgs::files_named`].
    pub files: Vec<(String, Vec<u8>)>,

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

/// `--sql`: a statement and its share.
#[derive(Clone, Debug, Default)]
pub struct SqlText {
    /// The statement.
    pub text: String,
    /// `--weight`: its share of all requests, 1 unless given.
    pub weight: Option<String>,
}

/// `--sql-file`: a transaction and its share.
#[derive(Clone, Debug, Default)]
pub struct SqlFile {
    /// The file, as it was named.
    pub path: String,
    /// Its text.
    pub text: String,
    /// `--weight`: its share of all requests, 1 unless given.
    pub weight: Option<String>,
}

impl RunArgs {
    /// The files that values name, each once. The caller reads them into [`RunArgs::files`] before the run
    /// is checked.
    pub fn files_named(&self, environment: &Environment) -> Vec<String> {
        let laws = self.variables.iter().filter_map(|text| Some(text.split_once('=')?.1));
        let laws = laws.chain(self.params.iter().map(String::as_str));
        let tables = laws.filter_map(csv_parts).map(|(file, _)| file.to_owned());
        let mut files: Vec<String> =
            tables.chain(postgres::root_certificates_named(&self.target, environment)).collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    /// The password file of a PostgreSQL run, which the caller reads into
    /// [`Environment::password_file`] where it exists; `home` is the home directory. `None` for other runs.
    pub fn password_file(&self, environment: &Environment, home: Option<&Path>) -> Option<PathBuf> {
        postgres::password_file(&self.target, environment, home)
    }
}

/// The target alone, and of it no password: the other values are many, and may be secret.
impl fmt::Debug for RunArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunArgs").field("target", &url::shown(&self.target)).finish_non_exhaustive()
    }
}

/// What must be known of this machine to fill in defaults and check limits.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The processors this process may use, at least 1.
    pub cpus: u32,
    /// The most descriptors this process may have open (the hard limit, since it is raised to that).
    pub descriptor_limit: u64,
}
