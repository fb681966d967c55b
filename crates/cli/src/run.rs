//! `plimsoll run`: one run against one server.
//!
//! Order matters: values are checked, then outputs are opened, and only then is anything sent.

mod flags;

use plimsoll_scenario::lower;
use plimsoll_stats::slo::Objective;

use crate::execute::{Job, execute};
use crate::exit::Exit;
use crate::machine::this_machine;
use crate::{Refusal, console};
pub(crate) use flags::{CommonFlags, EXAMPLES, LONG_EXAMPLES, RequestFlags, RunFlags};

/// Reads the flags, checks them, and has the run carried out.
pub(crate) fn run(flags: RunFlags) -> Result<Exit, Refusal> {
    let mut faults = Vec::new();
    let (args, environment) = flags.args(&mut faults);
    let objectives = flags.objectives().iter().filter_map(|text| objective(text, &mut faults)).collect();
    let lowered = match lower(&args, &this_machine(), &environment) {
        Ok(lowered) if faults.is_empty() => lowered,
        result => {
            faults.extend(result.err().into_iter().flat_map(|more| more.0).map(|fault| fault.to_string()));
            return Err(faults.join("\n").into());
        }
    };
    let output = flags.output().open(faults)?;
    for note in &lowered.notes {
        console::warning(note);
    }
    execute(Job { lowered, objectives, strict: flags.strict(), output })
}

/// Reads an objective.
pub(crate) fn objective(text: &str, faults: &mut Vec<String>) -> Option<Objective> {
    text.parse().map_err(|error| faults.push(format!("--slo: {error}"))).ok()
}
