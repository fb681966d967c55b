//! The part of the result that says whether its numbers can be believed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the numbers can be believed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trust {
    /// The answer.
    pub verdict: Verdict,
    /// What set the limit: `server`, `generator`, `connections`, `network` or `none`.
    pub limited_by: String,
    /// Every check, those not made included.
    pub checks: Vec<Check>,
}

/// Whether the numbers can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Yes.
    Valid,
    /// With the stated reservation.
    Suspect,
    /// No: the generator was the limit.
    Invalid,
}

/// A check that a verdict rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Its result.
    pub status: CheckStatus,
    /// What was measured: nanoseconds for a lag, else 0..1; `null` where it was not.
    pub value: Option<f64>,
    /// What it was held against, in the same unit.
    pub bound: Option<f64>,
    /// Both in words, or why it was not made.
    pub text: String,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// Within its bound.
    Ok,
    /// Outside, and worth knowing; the verdict does not rest on it.
    Warn,
    /// Outside.
    Fail,
    /// It was not made.
    NotMade,
}
