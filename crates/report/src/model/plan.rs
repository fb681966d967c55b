//! What was asked for, as a result tells it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The model of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// Requests by a schedule.
    Open,
    /// Clients that wait for their answers.
    Closed,
    /// Users who think between an answer and the next request.
    Users,
}

/// What was asked for. Rates and counts are totals for the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The model of load.
    pub model: Model,
    /// How arrivals lie in time, in an open loop.
    pub arrivals: Option<String>,
    /// The rate of an open loop, where it is constant.
    pub rate_per_s: Option<f64>,
    /// The rate over time of an open loop, where it is not.
    pub stages: Option<Vec<Stage>>,
    /// Clients of a closed loop.
    pub clients: Option<u64>,
    /// Users of a population.
    pub users: Option<u64>,
    /// How long they think.
    pub think: Option<String>,
    /// The length of the measured part; `null` where the number of requests alone ends it.
    pub duration_ns: Option<u64>,
    /// The number of measured requests that ends it.
    pub requests: Option<u64>,
    /// Before the measured part and on top of it.
    pub warmup_ns: u64,
    /// The longest wait for an answer, from each copy's send; `null` for no limit.
    pub timeout_ns: Option<u64>,
    /// The longest time for connecting and the TLS handshake; `null` for no limit.
    pub connect_timeout_ns: Option<u64>,
    /// How long answers are waited for after the schedule's end; `null` for no limit.
    pub drain_ns: Option<u64>,
    /// Copies of requests that stay unanswered.
    pub retry: Option<Retry>,
    /// `send`, or `skip:D` where requests later than D are dropped.
    pub late: String,
    /// A request due while so many are under way is dropped.
    pub max_in_flight: Option<u64>,
    /// The most connections open at once.
    pub connections_max: u64,
    /// How workers waited for the next due time.
    pub wait_strategy: String,
    /// Whose clock stamped the answers: `kernel` or `user`.
    pub receive_clock: String,
    /// Threads that made the load.
    pub workers: u32,
    /// The seed of every random number.
    pub seed: u64,
    /// The percentiles that were asked for, by the names they have in distributions.
    pub percentiles: Vec<String>,
    /// The kinds of requests.
    pub operations: Vec<PlannedOperation>,
}

/// A piece of a rate over time: it goes straight from one rate to the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// The rate at its start.
    pub from_per_s: f64,
    /// The rate at its end.
    pub to_per_s: f64,
    /// How long it lasts; `null` for as long as the run.
    pub length_ns: Option<u64>,
}

/// Copies of requests that stay unanswered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Retry {
    /// The wait after each copy's send before the next.
    pub after_ns: u64,
    /// The most copies, the first included.
    pub copies: u32,
}

/// A kind of request, as planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedOperation {
    /// Its name.
    pub name: String,
    /// The whole URL, without user and password.
    pub target: String,
    /// The protocol.
    pub protocol: String,
    /// HTTP: the method. PostgreSQL: the query mode.
    pub method: String,
    /// PostgreSQL: the statements, with `$1` where values go.
    #[serde(default)]
    pub sql: Vec<String>,
    /// Names and values of headers in their order; secret values are replaced.
    pub headers: Vec<(String, String)>,
    /// The length of the body without what variables add.
    pub body_bytes: u64,
    /// Its share of all requests is weight / sum of weights.
    pub weight: u64,
    /// What counts as success.
    pub success: String,
}
