//! `plimsoll capacity`: the highest rate a server sustains, by a closed loop with ever more clients.

use clap::Args;
use plimsoll_scenario::RunArgs;

use crate::Refusal;
use crate::exit::Exit;
use crate::machine::this_machine;
use crate::output::{Format, OutputFlags};
use crate::run::RequestFlags;
use crate::trials::{Lab, TrialFlags, check, plan_of};

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "Examples:\n  \
    plimsoll capacity http://127.0.0.1:8080/\n      \
    1, 2, 4, … clients until more bring no more; the best once more\n  \
    plimsoll capacity http://127.0.0.1:8080/ --trial 10s..60s -o capacity.json\n      \
    longer trials, where short ones differ too much";

/// Flags of `plimsoll capacity`.
#[derive(Debug, Args)]
pub(crate) struct CapacityFlags {
    #[command(flatten)]
    trials: TrialFlags,
    #[command(flatten)]
    request: RequestFlags,
    #[command(flatten)]
    output: OutputFlags,
}

/// Looks for the peak.
pub(crate) fn capacity(flags: CapacityFlags) -> Result<Exit, Refusal> {
    let (mut faults, machine) = (Vec::new(), this_machine());
    let mut base = RunArgs::default();
    let environment = flags.request.fill(&mut base, &mut faults);
    let (times, clients_max) = flags.trials.read(&mut base, &machine, &mut faults);
    let one = RunArgs { clients: Some("1".into()), ..base.clone() };
    check(&one, &machine, &environment, &mut faults);
    let output = flags.output.open(faults)?;
    let mut plan = plan_of("capacity", times);
    plan.clients_max = Some(clients_max.into());
    let rows = output.stdout == Some(Format::Text);
    let mut lab = Lab::new(base, Vec::new(), (machine, environment), rows, output.progress)?;
    lab.announce(&mut plan, &one)?;
    let peak = lab.sweep(times, clients_max)?;
    Ok(lab.publish(plan, peak, None, output))
}
