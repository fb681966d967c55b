//! The one place where a checked run meets the engine and its result meets the outputs.

use plimsoll_scenario::Lowered;
use plimsoll_stats::slo::Objective;

use crate::Refusal;
use crate::exit::Exit;
use crate::output::Output;

/// A run that is ready to go: everything was read, checked and opened.
#[derive(Debug)]
#[expect(dead_code, reason = "read when the run is carried out, which needs the engine")]
pub(crate) struct Job {
    /// The run.
    pub(crate) lowered: Lowered,
    /// What it is held against.
    pub(crate) objectives: Vec<Objective>,
    /// An invalid measurement is an error.
    pub(crate) strict: bool,
    /// Where its result goes.
    pub(crate) output: Output,
}

/// Carries `job` out.
///
/// # Errors
/// When it cannot take place; nothing has been sent then.
pub(crate) fn execute(job: Job) -> Result<Exit, Refusal> {
    let Job { lowered: _, objectives: _, strict: _, output: _ } = job;
    Err("run: the engine is not linked into this build".into())
}
