//! The flags of `plimsoll run`, in groups that other commands share: names and help, values left as text. What they mean and whether they are
//! right is decided where all of them are seen together, so that all faults can be told at once.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;
use plimsoll_scenario::{Environment, RunArgs};

use crate::environment::environment;
use crate::output::OutputFlags;
use crate::sql_flags::SqlFlags;

/// The longest body or certificate file, in bytes. A body is held in memory whole.
const LONGEST_FILE_BYTES: u64 = 64 << 20;

/// Examples for `-h`.
pub(crate) const EXAMPLES: &str = "The load is one of --rate, --clients, --stages. See --help for examples.";

/// Examples for `--help`.
pub(crate) const LONG_EXAMPLES: &str = "Examples:\n  \
    plimsoll run http://127.0.0.1:8080/ --rate 500\n      \
    500 requests/s as independent users would send them, for 30 s\n  \
    plimsoll run http://127.0.0.1:8080/ --clients 64 -z 10s\n      \
    64 clients, each sending its next request when it has its answer\n  \
    plimsoll run http://127.0.0.1:8080/ --stages 100/s:30s,100/s..500/s:60s\n      \
    a step and a ramp\n  \
    plimsoll run 'http://127.0.0.1:8080/item/${id}' --var id=uniform:0..1000000 -r 2000\n      \
    a random item in every request\n  \
    plimsoll run postgres://bob@127.0.0.1/shop -r 200 --sql 'SELECT balance FROM accounts WHERE id = $1' \\\n      \
    --param uniform:0..1000000\n      \
    a query with a random id\n  \
    plimsoll run https://example.test/ -r 100 --slo 'p99 < 150ms' --slo 'success >= 99%'\n      \
    a gate for a build: exit code 1 when it fails";

/// Flags of `plimsoll run`.
#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    load: LoadFlags,
    #[command(flatten)]
    request: RequestFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    gates: GateFlags,
}

/// What every command that measures a server takes: the server, the requests, and the way to it.
#[derive(Debug, Args)]
pub(crate) struct RequestFlags {
    /// What to measure: an http://, https:// or postgres:// URL.
    ///
    /// HTTP: path and query are sent byte for byte as given, the fragment is left out; a user and password
    /// before the host become basic authentication. PostgreSQL: as for libpq, with PG* variables, the password
    /// file and sockets in the file system.
    // Not under the heading of the flags before it.
    #[arg(help_heading = None::<&'static str>)]
    target: String,
    #[command(flatten)]
    http: HttpFlags,
    #[command(flatten)]
    sql: SqlFlags,
    #[command(flatten)]
    connection: ConnectionFlags,
}

/// What every command that measures a server takes besides its load: times, threads, seed.
#[derive(Debug, Args)]
pub(crate) struct CommonFlags {
    /// Time before the measured part (default 0).
    ///
    /// Before and on top of the measured part of each run; its requests are sent and counted apart.
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    warmup: Option<String>,
    /// Longest wait for an answer, 0 for none (default 5s).
    ///
    /// For each attempt, from its send. A request that times out ends as timed_out, and its connection is
    /// replaced.
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    timeout: Option<String>,
    /// Longest time to connect, TLS included (default 5s).
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    connect_timeout: Option<String>,
    /// Seed of all random numbers (default 1).
    ///
    /// The same seed gives the same due times and the same requests.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<String>,
    /// Threads (default: half the processors).
    ///
    /// Half the processors this process may use, at least 1; never more than clients, half the connections or
    /// --max-in-flight.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    workers: Option<String>,
    /// Wait for due times: auto (default), spin or sleep.
    ///
    /// auto sleeps and spins the last stretch where a processor is free; spin never sleeps; sleep never spins.
    #[arg(long, value_name = "HOW")]
    wait: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load (exactly one model; rates and counts are totals for the run)")]
struct LoadFlags {
    /// Open loop at this total rate: 500, 30/m, 1/10s, or max.
    ///
    /// Requests are sent when they are due, however slow the answers are, and response times count from the
    /// due time. The rate is the total for the run, whatever the number of connections and workers. "max" is
    /// another spelling of a closed loop with --connections clients (64 unless given).
    #[arg(short, long, value_name = "R", allow_negative_numbers = true)]
    rate: Option<String>,
    /// Closed loop with this many clients.
    ///
    /// Each client sends its next request when its last one has ended, so a slow server is sent fewer.
    #[arg(short, long, value_name = "N", allow_negative_numbers = true)]
    clients: Option<String>,
    /// User population of this size (not yet supported).
    #[arg(long, value_name = "N")]
    users: Option<String>,
    /// Law of a user's think time (not yet supported).
    #[arg(long, value_name = "LAW")]
    think: Option<String>,
    /// Open loop in steps and ramps: 100/s:30s,100/s..500/s:60s.
    #[arg(long, value_name = "LIST")]
    stages: Option<String>,
    /// Arrivals: poisson (default), even, gamma:cv=2.
    ///
    /// How the requests of an open loop lie in time. poisson is what many independent users send; even is the
    /// gentlest load there is; gamma with cv above 1 comes in bursts.
    #[arg(long, value_name = "LAW")]
    arrivals: Option<String>,
    /// Length of the schedule (default 30s).
    #[arg(short = 'z', long, value_name = "D", allow_negative_numbers = true)]
    duration: Option<String>,
    /// End after this many requests.
    ///
    /// With --duration whichever comes first ends the run; alone there is no other limit.
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    requests: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
    /// Wait after the schedule's end (default: the timeout).
    ///
    /// What is unanswered when it is over ends as unfinished. Without a timeout it is 5s.
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    drain: Option<String>,
    /// Send a copy of a request unanswered for so long.
    ///
    /// The first copy to end decides.
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    retry: Option<String>,
    /// Most copies of a request, the first included (default 3).
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    retry_copies: Option<String>,
    /// Most connections open at once.
    ///
    /// Open loop: 10000 unless given (PostgreSQL: 10, opened before the start), or what the descriptor limit
    /// less 64 allows; a request that finds none free waits, which is reported as blocked. Closed loop: one for
    /// each client and copy unless given.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    connections: Option<String>,
    /// Drop requests that are due while N are in flight.
    ///
    /// Open loop. Dropped requests are counted.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_in_flight: Option<String>,
    /// Late requests: send (default), or drop by skip:100ms.
    ///
    /// Open loop. With skip:100ms a request that cannot be sent within 100 ms of its due time is dropped, and
    /// counted.
    #[arg(long, value_name = "HOW")]
    late: Option<String>,
    /// Percentiles to report, such as 50,99,99.9.
    ///
    /// 50,75,90,95,99,99.9,99.99 unless given; the same in every output.
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    percentiles: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
struct HttpFlags {
    /// Method (default GET, with a body POST).
    #[arg(short = 'X', long = "request", value_name = "METHOD")]
    method: Option<String>,
    /// Header, 'Name: value'; may be given again.
    ///
    /// It takes the place of one that would be sent by itself (Host, User-Agent, …). 'Name:' leaves such a one
    /// out, 'Name;' sends it empty. Neither the address connected to nor the TLS server name is changed by a
    /// Host header; --connect-to and --sni do that.
    #[arg(short = 'H', long = "header", value_name = "HEADER", allow_hyphen_values = true)]
    headers: Vec<String>,
    /// Body; @FILE reads it from a file.
    ///
    /// @- reads standard input. Bytes are sent as they are.
    #[arg(short, long, value_name = "BODY", allow_hyphen_values = true)]
    data: Option<String>,
    /// Basic authentication.
    #[arg(short, long, value_name = "USER:PASSWORD")]
    user: Option<String>,
    /// Variable for ${NAME} in URL, headers and body.
    ///
    /// uniform:A..B, zipf:A..B,s=1, normal:A..B,sd=S, exponential:A..B,mean=M, sequence:A..B (whole numbers from
    /// A, B left out; sequence counts for each client in a closed loop), or csv:FILE:COLUMN. May be given again.
    #[arg(long = "var", value_name = "NAME=LAW")]
    variables: Vec<String>,
    /// Use a connection for one request only.
    #[arg(long)]
    no_keepalive: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Connections and TLS")]
struct ConnectionFlags {
    /// Take any TLS certificate.
    ///
    /// The server may then be anyone.
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Trust the root certificates in this PEM file only.
    #[arg(long, value_name = "FILE")]
    cacert: Option<String>,
    /// TLS server name, in place of the URL's host.
    ///
    /// It is sent in the handshake, and the certificate is checked against it.
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// Use this address: HOST:PORT:ADDRESS.
    ///
    /// In place of what name resolution says; several addresses are parted by commas. * stands for any host.
    /// May be given again.
    #[arg(long, value_name = "ENTRY")]
    resolve: Vec<String>,
    /// Connect elsewhere: HOST1:PORT1:HOST2:PORT2.
    ///
    /// Connections for the first host and port go to the second; Host header and TLS server name stay those of
    /// the URL. An empty part stands for any, or for the URL's. May be given again.
    #[arg(long, value_name = "RULE")]
    connect_to: Vec<String>,
    /// Use IPv4 addresses only.
    #[arg(short = '4', long)]
    ipv4: bool,
    /// Use IPv6 addresses only.
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Connect to this socket in the file system.
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Gates")]
struct GateFlags {
    /// Objective, such as 'p99 < 150ms'; may be given again.
    ///
    /// Also 'success >= 99%' and 'rate >= 95%' (offered of intended). Exit code 1 when one is missed, 3 when it
    /// cannot be decided.
    #[arg(long = "slo", value_name = "OBJECTIVE")]
    objectives: Vec<String>,
    /// Exit with code 3 unless the measurement is valid.
    ///
    /// A suspect one is not enough then. With --slo an invalid one ends in code 3 in any case.
    #[arg(long)]
    strict: bool,
}

impl RequestFlags {
    /// Writes their values into `args`; the files that they name are read, and so is the environment that they
    /// are to be seen with. What cannot be read is added to `faults`.
    pub(crate) fn fill(&self, args: &mut RunArgs, faults: &mut Vec<String>) -> Environment {
        let Self { target, http, sql, connection } = self;
        args.target = target.clone();
        args.method = http.method.clone();
        args.headers = http.headers.clone();
        args.body = http.data.as_deref().map(|data| {
            // A body that cannot be read still counts as one, so that nothing else is said of it.
            data.strip_prefix('@')
                .map_or_else(|| data.into(), |path| read("-d @", path, faults).unwrap_or_default())
        });
        args.user = http.user.clone();
        args.variables = http.variables.clone();
        args.no_keepalive = http.no_keepalive;
        args.sql = sql.statements().0.to_vec();
        args.sql_files = sql.statements().1.to_vec();
        args.params = sql.params.clone();
        args.query_mode = sql.query_mode.clone();
        args.insecure = connection.insecure;
        args.ca_certificates = connection.cacert.as_deref().and_then(|path| read("--cacert ", path, faults));
        args.sni = connection.sni.clone();
        args.resolve = connection.resolve.clone();
        args.connect_to = connection.connect_to.clone();
        args.ipv4 = connection.ipv4;
        args.ipv6 = connection.ipv6;
        args.unix_socket = connection.unix_socket.clone();
        for file in &mut args.sql_files {
            if let Some(bytes) = read("--sql-file ", &file.path, faults) {
                match String::from_utf8(bytes) {
                    Ok(text) => file.text = text,
                    Err(_) => {
                        faults.push(format!("--sql-file {}: is not text in UTF-8; convert it", file.path));
                    }
                }
            }
        }
        let environment = environment(args);
        for path in args.files_named(&environment) {
            if let Some(bytes) = read("", &path, faults) {
                args.files.push((path, bytes));
            }
        }
        environment
    }
}

impl CommonFlags {
    /// Writes their values into `args`.
    pub(crate) fn fill(&self, args: &mut RunArgs) {
        args.warmup = self.warmup.clone();
        args.timeout = self.timeout.clone();
        args.connect_timeout = self.connect_timeout.clone();
        args.seed = self.seed.clone();
        args.workers = self.workers.clone();
        args.wait = self.wait.clone();
    }
}

impl RunFlags {
    /// The values for the plan; the files they name are read. What cannot be read is added to `faults`.
    pub(crate) fn args(&self, faults: &mut Vec<String>) -> (RunArgs, Environment) {
        let load = &self.load;
        let mut args = RunArgs {
            rate: load.rate.clone(),
            clients: load.clients.clone(),
            users: load.users.clone(),
            think: load.think.clone(),
            stages: load.stages.clone(),
            arrivals: load.arrivals.clone(),
            duration: load.duration.clone(),
            requests: load.requests.clone(),
            drain: load.drain.clone(),
            retry: load.retry.clone(),
            retry_copies: load.retry_copies.clone(),
            connections: load.connections.clone(),
            max_in_flight: load.max_in_flight.clone(),
            late: load.late.clone(),
            percentiles: load.percentiles.clone(),
            ..RunArgs::default()
        };
        load.common.fill(&mut args);
        let environment = self.request.fill(&mut args, faults);
        (args, environment)
    }

    /// Objectives as given.
    pub(crate) fn objectives(&self) -> &[String] {
        &self.gates.objectives
    }

    /// True when an invalid measurement is an error.
    pub(crate) fn strict(&self) -> bool {
        self.gates.strict
    }

    /// Where results go.
    pub(crate) fn output(&self) -> &OutputFlags {
        &self.output
    }
}

/// The bytes of the file at `path`, `-` being standard input.
fn read(flag: &str, path: &str, faults: &mut Vec<String>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let result = match path {
        "-" => io::stdin().lock().take(LONGEST_FILE_BYTES + 1).read_to_end(&mut bytes),
        _ => File::open(path).and_then(|file| file.take(LONGEST_FILE_BYTES + 1).read_to_end(&mut bytes)),
    };
    match result {
        Ok(length) if length as u64 <= LONGEST_FILE_BYTES => return Some(bytes),
        Ok(_) => faults.push(format!(
            "{flag}{path}: is longer than {LONGEST_FILE_BYTES} bytes, the most that is held in memory; give a shorter file"
        )),
        Err(error) => {
            faults.push(format!("{flag}{path}: cannot be read: {error}; give a path that can be read"));
        }
    }
    None
}
