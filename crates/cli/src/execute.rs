//! The one place where a checked run meets the engine and its result meets the outputs.

use std::io::IsTerminal;

use plimsoll_core::Span;
use plimsoll_core::plan::Load;
use plimsoll_core::profile::ENDLESS;
use plimsoll_report::model::{ObjectiveStatus, Verdict};
use plimsoll_report::{RunV1, text};
use plimsoll_scenario::Lowered;
use plimsoll_stats::slo::Objective;

use crate::Refusal;
use crate::exit::Exit;
use crate::live::{Interrupts, Live};
use crate::output::{Format, Output};

/// A run that is ready to go: everything was read, checked and opened.
#[derive(Debug)]
pub(crate) struct Job {
    /// The run.
    pub(crate) lowered: Lowered,
    /// What it is held against.
    pub(crate) objectives: Vec<Objective>,
    /// A measurement that is not valid is an error.
    pub(crate) strict: bool,
    /// Where its result goes.
    pub(crate) output: Output,
}

/// Carries `job` out.
///
/// # Errors
/// When it cannot take place; nothing has been sent then.
pub(crate) fn execute(job: Job) -> Result<Exit, Refusal> {
    let Job { lowered: Lowered { plan, quantiles, rate_max, .. }, objectives, strict, mut output } = job;
    let interrupts = Interrupts::listen()?;
    let shown = output.progress && std::io::stderr().is_terminal();
    let mut live = Live::new(&interrupts, shown.then(|| schedule_length(&plan.load, plan.warmup)));
    let mut outcome = plimsoll_engine::run(&plan, &mut live)?;
    live.clear();
    if rate_max {
        outcome.facts.notes.push(RATE_MAX.to_owned());
    }
    let run = RunV1::new(&plan, &outcome.facts, &outcome.snapshot.recorder, &quantiles, &objectives);
    let written = output.write(&|format| render(&run, format));
    let verdicts = [interrupts.exit(), Some(written), Some(measured(&run)), Some(gates(&run, strict))];
    Ok(verdicts.into_iter().flatten().min().unwrap_or(Exit::Measured))
}

/// What a reader must know of `--rate max`.
const RATE_MAX: &str = "--rate max was run as a closed loop: every client waits for its answer, so response times \
     are those of a server that is never asked for more than it can do";

/// The length of the whole schedule, where it is known.
fn schedule_length(load: &Load, warmup: Span) -> Option<Span> {
    let measured = match load {
        Load::Open { profile, requests, .. } => {
            // A count ends the schedule before its profile does, about when its mean says.
            let share = requests.map_or(1.0, |n| (n as f64 / profile.mean_count()).min(1.0));
            Some(Span::from_ns((profile.length().as_ns() as f64 * share) as u64))
                .filter(|length| *length < ENDLESS)
        }
        Load::Closed { duration, .. } => *duration,
    };
    measured.map(|length| length.saturating_add(warmup))
}

fn measured(run: &RunV1) -> Exit {
    if run.counts.answered == 0 { Exit::NothingMeasured } else { Exit::Measured }
}

/// Whoever gives an objective asks for an answer about the server, and an invalid measurement has none.
/// `--strict` asks for more: a measurement without any reservation.
fn gates(run: &RunV1, strict: bool) -> Exit {
    let objective = |status: ObjectiveStatus| match status {
        ObjectiveStatus::Pass => Exit::Measured,
        ObjectiveStatus::Fail => Exit::GateFailed,
        ObjectiveStatus::Inconclusive => Exit::GateUndecided,
    };
    let enough = match run.trust.as_ref().map(|trust| trust.verdict) {
        Some(Verdict::Valid) => true,
        Some(Verdict::Suspect) => !strict,
        Some(Verdict::Invalid) => !strict && run.objectives.is_empty(),
        None => !strict,
    };
    let trusted = if enough { Exit::Measured } else { Exit::Invalid };
    run.objectives.iter().map(|o| objective(o.status)).min().unwrap_or(Exit::Measured).min(trusted)
}

fn render(run: &RunV1, format: Format) -> Vec<u8> {
    match format {
        Format::Text => text::render(run).into_bytes(),
        Format::Json => run.to_json().into_bytes(),
    }
}
