//! From the values of a command line to a plan.

use plimsoll_core::Plan;

use crate::args::{Machine, RunArgs};
use crate::fault::{Check, Faults};
use crate::load::Model;
use crate::url::Url;
use crate::{limits, load, request, url, variables, way};

/// A run that can be carried out, and what else was asked of it.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The run.
    pub plan: Plan,
    /// The quantiles to report, inside 0..1, rising.
    pub quantiles: Vec<f64>,
    /// The closed loop was asked for as `--rate max`; reports say so.
    pub rate_max: bool,
    /// What the user should know before the run, though nothing is wrong; one sentence each.
    pub notes: Vec<String>,
}

/// Reads `args` into a plan for `machine`.
///
/// # Errors
/// All that is wrong with `args`, not the first thing only.
pub fn lower(args: &RunArgs, machine: &Machine) -> Result<Lowered, Faults> {
    let mut check = Check::default();
    let descriptors = limits::Descriptors::of(machine, &mut check);
    let times = limits::times(args, &mut check);
    let retry = limits::retry(args, times.timeout, &mut check);
    let asked = limits::connections_asked(args, descriptors, &mut check);
    let Model { load, rate_max } = load::model(args, asked, &mut check);
    let connections = limits::connections(asked, &load, retry, descriptors, &mut check);
    let max_in_flight = limits::max_in_flight(args, &mut check);
    let workers = limits::workers(args, &load, connections, max_in_flight, machine, &mut check);
    let late = load::late(args, &mut check);
    let wait = limits::wait(args, &mut check);
    let seed = limits::seed(args, &mut check);
    let quantiles = limits::quantiles(args, &mut check);
    let variables = variables::variables(args, seed, &mut check);
    let url = Url::parse(&args.target)
        .map_err(|refusal| {
            check.fault(format!("'{}'", url::shown(&args.target)), refusal.reason, refusal.remedy)
        })
        .ok();
    let target = url.as_ref().map(|url| way::target(args, url, &mut check));
    let operation = request::operation(args, url.as_ref(), &variables, &mut check);
    match (target, operation) {
        (Some(target), Some(operation)) if check.faults.is_empty() => {
            let plan = Plan {
                load,
                warmup: times.warmup,
                timeout: times.timeout,
                connect_timeout: times.connect_timeout,
                drain: times.drain,
                retry,
                late,
                max_in_flight,
                connections,
                wait,
                workers,
                seed,
                targets: vec![target],
                operations: vec![operation],
                variables,
            };
            Ok(Lowered { plan, quantiles, rate_max, notes: check.notes })
        }
        _ => Err(Faults(check.faults)),
    }
}
