//! The result file `plimsoll-run/1`: names, units and meaning of everything in it.
//!
//! Absent is `null`, never NaN, infinity or a number that stands for something else. Every duration
//! stands under a key that ends in `_ns` or inside a distribution named so, every rate under
//! `_per_s`, every ratio (0..1) under `_ratio`. Fields may be added; none changes its meaning, is
//! renamed or goes, so that old files keep loading. The schema in `docs/schema` is made from here.

mod plan;
mod trust;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use plan::{Model, Plan, PlannedOperation, Retry, Stage};
pub use trust::{Check, CheckStatus, Trust, Verdict};

/// The name and version of the format.
pub const FORMAT: &str = "plimsoll-run/1";

/// The `receive_clock` of answers that the kernel stamped.
pub(crate) const KERNEL_CLOCK: &str = "kernel";

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunV1 {
    /// `plimsoll-run/1`.
    #[schemars(extend("const" = "plimsoll-run/1"))]
    pub format: String,
    /// The program that made it.
    pub plimsoll: Program,
    /// The wall clock at the run's common start, RFC 3339 in UTC.
    pub started_at: String,
    /// From the common start to the end of the drain.
    pub elapsed_ns: u64,
    /// The run was ended by an interrupt.
    pub interrupted: bool,
    /// The machine the load came from.
    pub host: Host,
    /// What was asked for.
    pub plan: Plan,
    /// The one account of the measured phase.
    pub counts: Counts,
    /// The same of the warm-up.
    pub counts_warmup: Counts,
    /// ok / (ok + failed + timed_out + unfinished).
    pub success_ratio: Option<f64>,
    /// Totals for the run.
    pub rates: Rates,
    /// From due to end of what ended ok, timed out or stayed unfinished, the last two censored: the
    /// headline.
    pub response_ns: Option<Distribution>,
    /// The same of what ended ok.
    pub response_ok_ns: Option<Distribution>,
    /// From due to the failure of what failed.
    pub response_failed_ns: Option<Distribution>,
    /// From send to end (client view) of the headline's requests, as far as they were sent.
    pub service_ns: Option<Distribution>,
    /// The wait for a connection of all that was not dropped.
    pub blocked_ns: Option<Distribution>,
    /// The generator's own lateness in sending.
    pub schedule_lag_ns: Option<Distribution>,
    /// The generator's own lateness in reading.
    pub read_lag_ns: Option<Distribution>,
    /// Without the kernel's stamps: from one look at the sockets to the next while answers were awaited,
    /// sleep apart. `null` with stamps.
    #[serde(default)]
    pub poll_gap_ns: Option<Distribution>,
    /// From send to the first byte of the answer.
    pub first_byte_ns: Option<Distribution>,
    /// Connecting, the TLS handshake included, for every connection that was established.
    pub connect_ns: Option<Distribution>,
    /// What the server says it took, where it says so.
    pub server_ns: Option<Distribution>,
    /// Whole answers by status.
    pub statuses: BTreeMap<String, u64>,
    /// Failures by kind.
    pub errors: BTreeMap<String, u64>,
    /// What the first failure of a kind said of itself.
    pub error_texts: BTreeMap<String, String>,
    /// Rows of all database answers, the warm-up's included.
    #[serde(default)]
    pub rows: u64,
    /// Bytes over all connections.
    pub bytes: Bytes,
    /// Connections.
    pub connections: Connections,
    /// Connections by the address they went to.
    pub addresses: BTreeMap<String, u64>,
    /// Requests sent and not ended, over the rate window. Of several workers `max` is the sum of
    /// each one's.
    pub in_flight: Level,
    /// Requests due and not ended, over the rate window; `max` is the largest mean of a window.
    pub outstanding: Level,
    /// What the load cost this machine.
    pub generator: Generator,
    /// By kind of request, where there is more than one.
    pub operations: Vec<Operation>,
    /// The series over time, contiguous from the schedule's start to the end of the drain.
    pub windows: Vec<Window>,
    /// Whether the numbers can be believed; `null` where nothing was due.
    pub trust: Option<Trust>,
    /// What the run was held against.
    pub objectives: Vec<Objective>,
    /// What a reader should know before using the numbers.
    pub warnings: Vec<Warning>,
}

/// The program that made a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// The commit it was built from, where that is known.
    pub commit: Option<String>,
}

/// The machine the load came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The operating system.
    pub os: String,
    /// Its kernel's version.
    pub kernel: String,
    /// Processors the program might use.
    pub cpus: u32,
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// The machine's memory.
    pub memory_bytes: Option<u64>,
}

/// The one account: due = ok + failed + timed_out + unfinished + dropped, and
/// sent = due − dropped − failed_unsent − unfinished_unsent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Requests that became due.
    pub due: u64,
    /// Those that began to leave.
    pub sent: u64,
    /// Whole answers that are successes.
    pub ok: u64,
    /// Other whole answers, and requests without an answer for another reason than time.
    pub failed: u64,
    /// Those of `failed` that never left.
    pub failed_unsent: u64,
    /// Sent and not answered within the timeout.
    pub timed_out: u64,
    /// Not answered, or not even sent, when the drain ended.
    pub unfinished: u64,
    /// Those of `unfinished` that never left.
    pub unfinished_unsent: u64,
    /// Never sent, by policy, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Copies sent, the first of each request included: what the server should have counted.
    pub attempts: u64,
    /// Requests that stood in line because no further connection might be opened.
    pub waited_for_connection: u64,
    /// Whole answers, successes or not.
    pub answered: u64,
    /// Those of `sent` that left after the rate window.
    pub sent_in_drain: u64,
    /// Those of `answered` that came after the rate window.
    pub answered_in_drain: u64,
}

/// Rates over the rate window: from the schedule's start to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// The length of the rate window.
    pub window_ns: u64,
    /// Requests due: the load that was asked for.
    pub intended_per_s: Option<f64>,
    /// Requests sent inside the window: the load that was made.
    pub offered_per_s: Option<f64>,
    /// Whole answers received inside the window.
    pub achieved_per_s: Option<f64>,
    /// The confidence interval of `achieved_per_s`; `null` where none could be made.
    #[serde(default)]
    pub achieved_interval_per_s: Option<Interval>,
    /// Those of them that are successes.
    pub goodput_per_s: Option<f64>,
    /// The most sent in one window of the series.
    pub peak_sent_per_s: Option<f64>,
}

/// A confidence interval, in the unit of the number it belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The low end.
    pub low: f64,
    /// The high end.
    pub high: f64,
    /// The confidence level.
    pub level_ratio: f64,
    /// How it was made.
    pub method: String,
}

/// A distribution of spans in nanoseconds, with 3 significant digits. Percentiles are nearest rank.
/// Beside the fields named here it holds one for each percentile, such as `p50` and `p99_9`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// The number of values, at least 1.
    pub count: u64,
    /// Those known only to be too small.
    pub censored_count: u64,
    /// The least value, exact.
    pub min: u64,
    /// The mean, exact.
    pub mean: f64,
    /// The population standard deviation.
    pub stdev: f64,
    /// The greatest value, exact.
    pub max: u64,
    /// Percentiles by name.
    #[serde(flatten)]
    pub percentiles: BTreeMap<String, u64>,
    /// The names of those of the above that are lower bounds.
    pub censored: Vec<String>,
    /// Confidence intervals; `null` where none were made.
    pub intervals: Option<Intervals>,
    /// The number of independent values that its mean is worth; `null` where it was not estimated.
    pub n_eff: Option<f64>,
    /// The same for each percentile by its name; empty where it was not estimated.
    #[serde(default)]
    pub n_eff_by_percentile: BTreeMap<String, f64>,
    /// All of it: HdrHistogram V2 compressed, in base64.
    pub hdr: String,
}

/// Confidence intervals of a distribution, by the name of what they are for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Intervals {
    /// The confidence level.
    pub level_ratio: f64,
    /// How they were made.
    pub method: String,
    /// Low and high end in nanoseconds, by name; an end that the run does not hold is `null`.
    #[serde(flatten)]
    pub bounds: BTreeMap<String, (Option<f64>, Option<f64>)>,
}

/// Bytes over all connections, the warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bytes {
    /// Sent.
    pub sent: u64,
    /// Received.
    pub received: u64,
    /// Those received that belong to no answer.
    pub surplus: u64,
}

/// Connections of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// What was wanted before the start; `null` where they are opened as needed.
    pub wanted: Option<u64>,
    /// How many of those stood at the start.
    pub established: u64,
    /// The most open at once.
    pub peak: u64,
    /// Opened in all.
    pub opened: u64,
}

/// A number of requests over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// The mean, from the exact overlap of every request with the rate window.
    pub mean: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
}

/// What the load cost this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// Processor time in the program's own code.
    pub cpu_user_ns: u64,
    /// Processor time in the kernel.
    pub cpu_system_ns: u64,
    /// The busiest worker's share of the rate window that was work, spinning apart.
    pub busy_ratio: Option<f64>,
    /// The largest resident memory.
    pub max_rss_bytes: Option<u64>,
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Its name in the plan.
    pub name: String,
    /// Its account.
    pub counts: Counts,
    /// As of the run.
    pub success_ratio: Option<f64>,
    /// As of the run.
    pub response_ns: Option<Distribution>,
    /// As of the run.
    pub response_ok_ns: Option<Distribution>,
    /// As of the run.
    pub response_failed_ns: Option<Distribution>,
    /// As of the run.
    pub service_ns: Option<Distribution>,
}

/// A window of the series. Due and latencies are counted by due time, sends by the moment of
/// sending, ends by the moment of the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Its beginning, from the schedule's start (the end of the warm-up).
    pub start_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// Requests due in it.
    pub due: u64,
    /// Requests sent in it.
    pub sent: u64,
    /// Successes that ended in it.
    pub ok: u64,
    /// Failures that ended in it.
    pub failed: u64,
    /// Requests whose timeout fell into it.
    pub timed_out: u64,
    /// Whole answers that came in it, successes or not.
    #[serde(default)]
    pub answered: u64,
    /// The mean number of requests sent and not ended.
    pub in_flight: f64,
    /// The headline response of what was due in it, to 2 digits; `null` where there was nothing.
    pub response_ns: Option<WindowResponse>,
    /// The schedule lag of what was due in it, likewise.
    pub schedule_lag_ns: Option<WindowLag>,
}

/// Response in a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowResponse {
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The greatest, exact.
    pub max: u64,
}

/// Schedule lag in a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowLag {
    /// The 99th percentile.
    pub p99: u64,
    /// The greatest, exact.
    pub max: u64,
}

/// An objective and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Objective {
    /// As it was given.
    pub expression: String,
    /// The answer.
    pub status: ObjectiveStatus,
    /// What was measured: nanoseconds for a latency, 0..1 for a share.
    pub value: Option<f64>,
    /// The low end of its confidence interval. Of a value that is itself a lower bound, that value.
    pub low: Option<f64>,
    /// The high end; `null` where it is open too.
    pub high: Option<f64>,
    /// Why it is inconclusive.
    pub reason: Option<String>,
    /// The answer that every value inside the interval gives; inconclusive where they differ, or where there
    /// is no interval.
    #[serde(default)]
    pub status_by_interval: ObjectiveStatus,
}

/// The answer to an objective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObjectiveStatus {
    /// It was met.
    Pass,
    /// It was missed.
    Fail,
    /// The run does not say.
    #[default]
    Inconclusive,
}

/// What a reader should know before using the numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// A name that stays the same, for programs.
    pub name: String,
    /// What was seen.
    pub seen: String,
    /// Why it harms the numbers.
    pub harm: Option<String>,
    /// What to try.
    pub remedy: Option<String>,
}

impl RunV1 {
    /// The result as JSON text, ending in a line break.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("every key is text and every number finite");
        text.push('\n');
        text
    }

    /// Answers were stamped by the kernel, and not by the program when it read them.
    pub(crate) fn has_kernel_stamps(&self) -> bool {
        self.plan.receive_clock == KERNEL_CLOCK
    }

    /// Reads what [`RunV1::to_json`] wrote, in this or an earlier version.
    ///
    /// # Errors
    /// When the text is not JSON, is of another format, or lacks what the format demands.
    pub fn from_json(text: &str) -> Result<Self, LoadError> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let head: Head = serde_json::from_str(text).map_err(LoadError::Json)?;
        if head.format != FORMAT {
            return Err(LoadError::Format(head.format));
        }
        serde_json::from_str(text).map_err(LoadError::Json)
    }

    /// The JSON Schema of the format.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(RunV1).into()
    }
}

/// A result that cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// It is not JSON, or lacks a field; the place is in it.
    Json(serde_json::Error),
    /// It is of this format instead.
    Format(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(_) => write!(f, "not a result in the format {FORMAT}"),
            Self::Format(format) => {
                write!(f, "a file of the format '{format}'; this version reads {FORMAT}")
            }
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            Self::Format(_) => None,
        }
    }
}
