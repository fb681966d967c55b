//! The result file `plimsoll-profile/1` of `capacity` and `profile`: names, units and meaning of everything in
//! it. The rules are those of `plimsoll-run/1`: absent is `null`, and fields may be added, never changed.
//!
//! ```text
//! RunV1 (one a trial) ─► TrialV1 ─┐
//! Peak, RateBounds ───────────────┴─► ProfileV1 ─┬─► JSON
//!                              (profile::build)  └─► text   (profile::text)
//! ```

pub mod build;
pub mod text;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{
    Connections, Distribution, Host, Model, Objective, PlannedOperation, Program, Rates, Trust, Warning,
};

pub use build::Findings;

/// The name and version of the format.
pub const FORMAT: &str = "plimsoll-profile/1";

/// The result of a search for a server's limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileV1 {
    /// `plimsoll-profile/1`.
    #[schemars(extend("const" = "plimsoll-profile/1"))]
    pub format: String,
    /// The program that made it.
    pub plimsoll: Program,
    /// The wall clock at the first trial's start, RFC 3339 in UTC.
    pub started_at: String,
    /// From the first trial's set-up to the end of the last.
    pub elapsed_ns: u64,
    /// An interrupt ended it; what had been measured is here.
    pub interrupted: bool,
    /// The machine the load came from.
    pub host: Host,
    /// What was asked for.
    pub plan: ProfilePlan,
    /// The highest rate of the closed loop; `null` where none was found, or it was given.
    pub peak: Option<Peak>,
    /// The highest rate that meets the objectives; `null` where there were none.
    pub capacity_at_objective: Option<CapacityAtObjective>,
    /// Where the curves turn, each with its method's name.
    pub knee: Vec<Knee>,
    /// Laws fitted to the sweep.
    pub fits: Fits,
    /// What queueing theory says of such a server; `null` where it says nothing.
    pub references: Option<References>,
    /// Every trial in the order it was made, those not used included.
    pub trials: Vec<TrialV1>,
    /// What a reader should know before using the numbers.
    pub warnings: Vec<Warning>,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfilePlan {
    /// `capacity` or `profile`.
    pub command: String,
    /// The kinds of requests.
    pub operations: Vec<PlannedOperation>,
    /// The most clients of the sweep; `null` without one.
    pub clients_max: Option<u64>,
    /// The least time of a trial of the sweep.
    pub trial_least_ns: u64,
    /// The most.
    pub trial_most_ns: u64,
    /// A trial of the sweep ends before that when the interval of its rate is within this share of it.
    pub rate_precision_ratio: f64,
    /// The peak as it was given, in place of a sweep.
    pub peak_given_per_s: Option<f64>,
    /// The fractions of the peak that latency is measured at.
    pub fractions_ratio: Vec<f64>,
    /// The least time of a step of the curve, and of a trial of the search for the objectives.
    pub step_least_ns: Option<u64>,
    /// The most.
    pub step_most_ns: Option<u64>,
    /// A step of the curve ends before that when the interval of its p99 is within this share of it.
    pub p99_precision_ratio: Option<f64>,
    /// The law of arrivals of the open loop.
    pub arrivals: Option<String>,
    /// Objectives, all of which a rate must meet.
    pub objectives: Vec<String>,
    /// Before each trial.
    pub warmup_ns: u64,
    /// For each attempt; `null` for none.
    pub timeout_ns: Option<u64>,
    /// Of all random numbers.
    pub seed: u64,
}

/// The highest rate of the closed loop: the best trial of the sweep, measured again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Peak {
    /// Whole answers a second.
    pub rate_per_s: f64,
    /// The low end of its 95 % interval; `null` where none could be made.
    pub low: Option<f64>,
    /// The high end.
    pub high: Option<f64>,
    /// The fewest clients of the sweep that reached it.
    pub clients: u64,
    /// What set the limit: `server`, `generator`, `connections` (the server's limit of them), or `clients` (the
    /// most that were to be tried).
    pub limited_by: String,
    /// The server does at least this much: the generator was the limit.
    pub is_lower_bound: bool,
    /// It was measured a second time, and this is the second figure.
    pub confirmed: bool,
    /// The server let so many connections stand and no more; `null` where that was not met.
    pub connections_established: Option<u64>,
}

/// The highest rate that meets the objectives: two bounds, not a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityAtObjective {
    /// The objectives, joined by `and`.
    pub objective: String,
    /// The highest rate a second at which all were met; `null` where they were at none.
    pub low: Option<f64>,
    /// The lowest at which one was missed, or the peak; `null` where there is neither.
    pub high: Option<f64>,
    /// `high` is the peak, which no open loop above it is sustained at, and not a trial.
    pub high_is_peak: bool,
    /// The least and the greatest rate between the bounds at which trials could not decide.
    pub undecided: Option<(f64, f64)>,
    /// The lowest rate at which the generator was the limit.
    pub generator_per_s: Option<f64>,
    /// The search ended by itself.
    pub complete: bool,
}

/// Where a curve turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// The method's name.
    pub method: String,
    /// The curve: `sweep` or `latency`.
    pub curve: String,
    /// The clients there, for the sweep.
    pub clients: Option<u64>,
    /// The rate there.
    pub rate_per_s: f64,
    /// The value of the curve there: the mean response of the sweep, the p99 of the latency curve.
    pub response_ns: f64,
}

/// Laws fitted to the sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fits {
    /// Gunther 2007: X(N) = λN / (1 + σ(N − 1) + κN(N − 1)); `null` with fewer than six usable points.
    pub universal_scalability: Option<UniversalScalability>,
}

/// A fit of the Universal Scalability Law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UniversalScalability {
    /// λ: the rate of one client.
    pub lambda_per_s: f64,
    /// σ: contention.
    pub sigma: f64,
    /// κ: coherency.
    pub kappa: f64,
    /// The share of the rates' variation that it explains.
    pub r_squared: f64,
    /// The points it was fitted to.
    pub points: u64,
    /// The clients at which the rate is highest; `null` where it rises for ever.
    pub peak_clients: Option<f64>,
    /// The highest rate, or the one that is approached; `null` where nothing bounds it.
    pub peak_rate_per_s: Option<f64>,
}

/// What queueing theory says of a single server that is never idle at the peak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct References {
    /// `M/M/1` or `M/D/1`: the law whose service times vary more nearly like the response of one client.
    pub law: String,
    /// 1 ÷ peak: the service of one request.
    pub service_mean_ns: f64,
    /// The standard deviation of one client's response as a share of that: 1 for M/M/1, 0 for M/D/1.
    pub service_cv_ratio: f64,
    /// What one client waits beyond the service: the way there and back, added to every response.
    pub way_ns: f64,
    /// One for each step of the curve whose rate is below the peak.
    pub points: Vec<ReferencePoint>,
}

/// The response that a law gives at a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferencePoint {
    /// The rate.
    pub rate_per_s: f64,
    /// The mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: f64,
    /// The 99th percentile.
    pub p99_ns: f64,
}

/// What a trial was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The sweep over clients.
    Sweep,
    /// Its best trial, measured again.
    PeakAgain,
    /// The latency curve.
    Curve,
    /// The search for the highest rate that meets the objectives.
    Objective,
}

/// A trial: the summary of one run, without its series over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialV1 {
    /// What it was made for.
    pub part: Part,
    /// Whether its numbers were used.
    pub used: bool,
    /// Why not.
    pub reason: Option<String>,
    /// The model of load.
    pub model: Model,
    /// The clients of a closed loop.
    pub clients: Option<u64>,
    /// The rate of an open loop.
    pub rate_per_s: Option<f64>,
    /// That rate as a share of the peak.
    pub fraction_ratio: Option<f64>,
    /// The most time it might take.
    pub planned_ns: Option<u64>,
    /// Totals.
    pub rates: Rates,
    /// Whole answers, in the window and after it.
    pub answered: u64,
    /// ok / (ok + failed + timed_out + unfinished).
    pub success_ratio: Option<f64>,
    /// Clients ÷ achieved rate, which by Little's law is the mean response of a closed loop.
    pub clients_over_rate_ns: Option<f64>,
    /// The headline response.
    pub response_ns: Option<Distribution>,
    /// From send to end, client view.
    pub service_ns: Option<Distribution>,
    /// The generator's own lateness in sending.
    pub schedule_lag_ns: Option<Distribution>,
    /// Connections.
    pub connections: Connections,
    /// The busiest worker's share of time that was work, spinning apart.
    pub busy_ratio: Option<f64>,
    /// Failures by kind.
    pub errors: BTreeMap<String, u64>,
    /// What the first failure of a kind said of itself.
    pub error_texts: BTreeMap<String, String>,
    /// Whether its numbers can be believed; `null` where that was not examined.
    pub trust: Option<Trust>,
    /// What it was held against.
    pub objectives: Vec<Objective>,
}

impl ProfileV1 {
    /// The result as JSON text, ending in a line break.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("every key is text and every number finite");
        text.push('\n');
        text
    }

    /// The JSON Schema of the format.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(ProfileV1).into()
    }
}
