//! A whole run: sets the workers up, starts them together, watches over them, and puts together
//! what they recorded.

mod crew;
mod facts;
mod inbox;

use std::io;
use std::time::{Duration, SystemTime};

use plimsoll_core::plan::{Load, Plan, WaitStrategy};
use plimsoll_core::share::{FIRST_WINDOW_LENGTH, Times, window_length};
use plimsoll_core::{Span, Timestamp};
use plimsoll_stats::{RecorderConfig, RunFacts, Snapshot};

use crate::os::{Calibration, limits};
use crate::pool::TargetSetup;
use crate::resolve::{ResolveError, resolve};
use crate::session::SessionSetup;
use crate::tls::TlsSetup;
use crew::{Crew, Kit};

/// Why a run could not take place. What happens to requests is never among these.
#[derive(Debug)]
pub enum RunError {
    /// A target has no address.
    Resolve(ResolveError),
    /// TLS cannot be set up as the plan wants it; a sentence.
    Tls(String),
    /// The machine refused something without which no run is possible.
    Machine {
        /// What was tried.
        what: &'static str,
        /// What the machine said.
        source: io::Error,
    },
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Resolve(error) => error.fmt(f),
            Self::Tls(sentence) => f.write_str(sentence),
            Self::Machine { what, source } => write!(f, "this machine cannot {what}: {source}"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Resolve(error) => Some(error),
            Self::Tls(_) => None,
            Self::Machine { source, .. } => Some(source),
        }
    }
}

fn machine(what: &'static str) -> impl Fn(io::Error) -> RunError {
    move |source| RunError::Machine { what, source }
}

/// What a run leaves behind.
#[derive(Debug)]
pub struct Outcome {
    /// All that was recorded.
    pub snapshot: Snapshot,
    /// What else there is to know.
    pub facts: RunFacts,
}

/// Watches over a run from outside.
pub trait Watch {
    /// How often [`Watch::on_snapshot`] is wanted; `None` for never.
    fn snapshot_every(&self) -> Option<Duration> {
        None
    }

    /// The run's clock starts now.
    fn on_start(&mut self) {}

    /// Whether enough has been measured: then nothing more becomes due, and the drain follows as planned.
    fn is_enough(&self) -> bool {
        false
    }

    /// How many interrupts have come: at one the run stops and drains briefly, at two it ends.
    fn interrupts(&self) -> usize {
        0
    }

    /// The state of the run `elapsed` after its start.
    fn on_snapshot(&mut self, _elapsed: Span, _snapshot: &Snapshot) {}
}

/// Watches nothing.
#[derive(Debug)]
pub struct Unwatched;

impl Watch for Unwatched {}

/// Runs `plan` on this machine, from now to the end of its drain.
///
/// A closed loop of which no client could connect ends before its start: nothing is due then, and
/// the reasons are among the recorded failure texts.
///
/// # Errors
/// When it cannot take place; nothing has been sent then.
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    limits::raise_descriptor_limit();
    let used_before = limits::process_usage();
    let targets = set_up_targets(plan)?;
    let calibration = Calibration::measure().map_err(machine("wait"))?;
    let strategy = wait_strategy(plan);
    let times = Times::of(plan);
    let config = RecorderConfig {
        operations: plan.operations.len(),
        start: times.start,
        window_end: times.end,
        window_length: FIRST_WINDOW_LENGTH,
    };
    let kit = Kit { plan, targets: &targets, calibration, strategy, config, schedule_end: times.end };
    let mut crew = Crew::set_up(&kit, watch)?;
    let started_at = crew.start();
    crew.oversee(watch);
    let interrupted = watch.interrupts() > 0;
    let (mut recorder, log) = crew.finish();
    let window = window(plan, &times, log.window_end(), log.finished());
    recorder.lengthen_windows(window_length(window));
    let facts = facts::gather(plan, started_at, window, strategy, interrupted, &used_before, &log);
    Ok(Outcome { snapshot: Snapshot::new(log.snapshots() + 1, recorder), facts })
}

fn set_up_targets(plan: &Plan) -> Result<Vec<TargetSetup>, RunError> {
    let set_up = |(index, target): (usize, &plimsoll_core::plan::Target)| {
        let operations = plan.operations.iter().filter(|operation| operation.target == index);
        Ok(TargetSetup {
            addresses: resolve(&target.endpoint).map_err(RunError::Resolve)?,
            tls: target.tls.as_ref().map(TlsSetup::new).transpose().map_err(RunError::Tls)?,
            session: SessionSetup::new(target, operations),
        })
    };
    plan.targets.iter().enumerate().map(set_up).collect()
}

/// Spinning is only worth it where it takes no processor from somebody who needs it: `auto` sleeps
/// when every processor has a worker.
fn wait_strategy(plan: &Plan) -> WaitStrategy {
    match plan.wait {
        WaitStrategy::Auto if plan.workers as usize >= limits::processors() => WaitStrategy::Sleep,
        chosen => chosen,
    }
}

/// The length of the window that rates are counted in. `window_end` is where the recorders were
/// told it ends, `finished` when the last worker had nothing more to do: at zero where none began.
fn window(plan: &Plan, times: &Times, window_end: Timestamp, finished: Timestamp) -> Span {
    let counted = matches!(plan.load, Load::Closed { requests: Some(_), .. });
    if finished == Timestamp::ZERO {
        return Span::ZERO;
    }
    let end = if counted { window_end.min(finished) } else { window_end };
    end.since_or_zero(times.start)
}

/// The wall clock at a moment of the run's clock that lies `in_ns` ahead.
fn wall_clock_in(in_ns: u64) -> SystemTime {
    SystemTime::now() + Duration::from_nanos(in_ns)
}
