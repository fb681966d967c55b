//! From the values of a command line to a plan.

use plimsoll_core::Plan;
use plimsoll_core::plan::{Operation, Target};
use plimsoll_core::time::Span;
use plimsoll_core::value::Variable;

use crate::args::{Machine, RunArgs};
use crate::environment::Environment;
use crate::fault::{Check, Faults};
use crate::load::Model;
use crate::url::Url;
use crate::{limits, load, postgres, request, url, variables, way};

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

/// What is sent, and where to: the part of a run that its protocol decides.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) target: Target,
    pub(crate) operations: Vec<Operation>,
    pub(crate) variables: Vec<Variable>,
    /// The connect timeout of the target's own settings, where they have one.
    pub(crate) connect_timeout: Option<Span>,
}

/// Reads `args` into a plan for `machine`; `environment` is looked at where the target is PostgreSQL.
///
/// # Errors
/// All that is wrong with `args`, not the first thing only.
pub fn lower(args: &RunArgs, machine: &Machine, environment: &Environment) -> Result<Lowered, Faults> {
    let mut check = Check::default();
    let postgres = postgres::after_scheme(&args.target);
    let descriptors = limits::Descriptors::of(machine, &mut check);
    let times = limits::times(args, &mut check);
    let retry = limits::retry(args, times.timeout, &mut check);
    let asked = limits::connections_asked(args, descriptors, &mut check);
    let Model { load, rate_max } = load::model(args, asked, &mut check);
    let most = limits::default_connections(postgres.is_some());
    let connections = limits::connections(asked, &load, retry, most, descriptors, &mut check);
    let max_in_flight = limits::max_in_flight(args, &mut check);
    let workers = limits::workers(args, &load, connections, max_in_flight, machine, &mut check);
    let late = load::late(args, &mut check);
    let wait = limits::wait(args, &mut check);
    let seed = limits::seed(args, &mut check);
    let quantiles = limits::quantiles(args, &mut check);
    let work = match postgres {
        Some(rest) => postgres::work(args, rest, environment, seed, &mut check),
        None => http(args, seed, &mut check),
    };
    match work {
        Some(work) if check.faults.is_empty() => {
            let given = args.connect_timeout.is_some();
            let plan = Plan {
                load,
                warmup: times.warmup,
                timeout: times.timeout,
                connect_timeout: work.connect_timeout.filter(|_| !given).unwrap_or(times.connect_timeout),
                drain: times.drain,
                retry,
                late,
                max_in_flight,
                connections,
                wait,
                workers,
                seed,
                targets: vec![work.target],
                operations: work.operations,
                variables: work.variables,
            };
            Ok(Lowered { plan, quantiles, rate_max, notes: check.notes })
        }
        _ => Err(Faults(check.faults)),
    }
}

/// Reads a run against an HTTP server.
fn http(args: &RunArgs, seed: u64, check: &mut Check) -> Option<Work> {
    let variables = variables::variables(args, seed, check);
    let url = Url::parse(&args.target)
        .map_err(|refusal| {
            check.fault(format!("'{}'", url::shown(&args.target)), refusal.reason, refusal.remedy)
        })
        .ok();
    if url.is_some() {
        postgres::refuse_flags(args, check);
    }
    let target = url.as_ref().map(|url| way::target(args, url, check));
    let operation = request::operation(args, url.as_ref(), &variables, check);
    Some(Work { target: target?, operations: vec![operation?], variables, connect_timeout: None })
}
