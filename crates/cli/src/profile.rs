//! `plimsoll profile`: the peak, then latency at fractions of it, then the highest rate that meets objectives.

use clap::Args;
use plimsoll_core::{Rate, Span};
use plimsoll_report::profile::build::{ceiling, references};
use plimsoll_report::profile::{Part, ProfilePlan, text};
use plimsoll_scenario::RunArgs;
use plimsoll_stats::search::{Peak, RateTrial};

use crate::Refusal;
use crate::exit::Exit;
use crate::machine::this_machine;
use crate::output::{Format, OutputFlags};
use crate::run::{RequestFlags, objective};
use crate::trials::{Lab, P99_PRECISION_RATIO, Times, TrialFlags, check, plan_of, rounded};

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "Examples:\n  \
    plimsoll profile http://127.0.0.1:8080/\n      \
    the peak, then latency at 10 to 95 % of it\n  \
    plimsoll profile http://127.0.0.1:8080/ --slo 'p99 < 50ms'\n      \
    then the highest rate at which p99 stays below 50 ms\n  \
    plimsoll profile http://127.0.0.1:8080/ --peak 500 --at 50,80 --step 30s\n      \
    no sweep, two steps of 30 s";

/// The fractions of the peak, in percent, where none are given.
const AT: &str = "10,25,50,60,70,80,90,95";
/// Where none is given: the times of a step.
const STEP: Times = Times { least: Span::from_secs(5), most: Span::from_secs(30) };

/// Flags of `plimsoll profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileFlags {
    #[command(flatten)]
    curve: CurveFlags,
    #[command(flatten)]
    trials: TrialFlags,
    #[command(flatten)]
    request: RequestFlags,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Latency curve and objectives")]
struct CurveFlags {
    /// Objective, such as 'p99 < 50ms'; may be given again.
    ///
    /// The highest rate that meets all of them is looked for, and answered as a lower and an upper bound.
    #[arg(long = "slo", value_name = "OBJECTIVE")]
    objectives: Vec<String>,
    /// Percentages of the peak to measure latency at.
    ///
    /// 10,25,50,60,70,80,90,95 unless given.
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    at: Option<String>,
    /// Time of a step of an open loop (default 5s..30s).
    ///
    /// The least and the most. In between, a step ends when the 95 % interval of its p99 is within 10 % of it
    /// and every objective is decided. A single time is both.
    #[arg(long, value_name = "D..D", allow_negative_numbers = true)]
    step: Option<String>,
    /// Take this rate as the peak, and make no sweep.
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    peak: Option<String>,
    /// Arrivals: poisson (default), even, gamma:cv=2.
    ///
    /// How the requests of an open loop lie in time. poisson is what many independent users send.
    #[arg(long, value_name = "LAW")]
    arrivals: Option<String>,
    /// Most connections of an open loop at once.
    ///
    /// As for a run at a --rate. A request that finds none free waits.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    connections: Option<String>,
}

/// What is to be done.
struct Plan {
    times: Times,
    step: Times,
    clients_max: u32,
    fractions: Vec<f64>,
    peak_given_per_s: Option<f64>,
}

/// Measures the profile.
pub(crate) fn profile(flags: ProfileFlags) -> Result<Exit, Refusal> {
    let (mut faults, machine) = (Vec::new(), this_machine());
    let curve = &flags.curve;
    let mut base = RunArgs::default();
    let environment = flags.request.fill(&mut base, &mut faults);
    let (times, clients_max) = flags.trials.read(&mut base, &machine, &mut faults);
    let plan = Plan {
        times,
        step: Times::read("--step", curve.step.as_deref(), STEP, &mut faults),
        clients_max,
        fractions: fractions(curve.at.as_deref().unwrap_or(AT), &mut faults),
        peak_given_per_s: curve.peak.as_deref().and_then(|text| peak(text, &mut faults)),
    };
    let objectives = curve.objectives.iter().filter_map(|text| objective(text, &mut faults)).collect();
    let closed = RunArgs { clients: Some("1".into()), ..base.clone() };
    check(&closed, &machine, &environment, &mut faults);
    let open = open(&base, curve);
    let arrivals =
        check(&RunArgs { rate: Some("1000".into()), ..open.clone() }, &machine, &environment, &mut faults)
            .and_then(|plan| match plan.load {
                plimsoll_core::plan::Load::Open { arrivals, .. } => Some(arrivals.to_string()),
                plimsoll_core::plan::Load::Closed { .. } => None,
            });
    let output = flags.output.open(faults)?;

    let rows = output.stdout == Some(Format::Text);
    let mut lab = Lab::new(base, objectives, (machine, environment), rows, output.progress)?;
    let mut published = ProfilePlan { arrivals, ..plan.published() };
    published.objectives = lab.objectives.iter().map(|o| o.expression().to_owned()).collect();
    lab.announce(&mut published, &closed)?;
    let peak = match plan.peak_given_per_s {
        Some(_) => None,
        None => lab.sweep(plan.times, plan.clients_max)?,
    };
    let peak_per_s = plan.peak_given_per_s.or(peak.map(|peak| peak.rate_per_s.value));
    lab.base = open;
    let bounds = match peak_per_s {
        Some(peak_per_s) if lab.goes_on() => {
            let known = measure_curve(&mut lab, &plan, &published, peak, peak_per_s)?;
            let wanted = !lab.objectives.is_empty();
            match wanted {
                true => {
                    let ceiling = peak.and_then(|peak| ceiling(peak, lab.trials()));
                    Some(lab.objective(known, peak_per_s, ceiling, plan.step)?)
                }
                false => None,
            }
        }
        _ => None,
    };
    Ok(lab.publish(published, peak, bounds, output))
}

impl Plan {
    fn published(&self) -> ProfilePlan {
        let sweeps = self.peak_given_per_s.is_none();
        ProfilePlan {
            clients_max: sweeps.then_some(self.clients_max.into()),
            peak_given_per_s: self.peak_given_per_s,
            fractions_ratio: self.fractions.clone(),
            step_least_ns: Some(self.step.least.as_ns()),
            step_most_ns: Some(self.step.most.as_ns()),
            p99_precision_ratio: Some(P99_PRECISION_RATIO),
            ..plan_of("profile", self.times)
        }
    }
}

/// The latency curve; returns what it says of the objectives.
fn measure_curve(
    lab: &mut Lab,
    plan: &Plan,
    published: &ProfilePlan,
    peak: Option<Peak>,
    peak_per_s: f64,
) -> Result<Vec<RateTrial>, Refusal> {
    let reference = references(lab.trials(), peak, published);
    lab.say(&format!("\n{}\n", text::curve_head(reference.as_ref())));
    let steps = plan.fractions.len();
    let mut known = Vec::new();
    for (at, fraction) in plan.fractions.iter().enumerate() {
        let rate_per_s = rounded(fraction * peak_per_s);
        let left = plan.step.most.as_ns().saturating_mul((steps - at) as u64);
        let label = format!("step {} of {steps}, {rate_per_s}/s, up to {} left", at + 1, Span::from_ns(left));
        let Some((trial, run)) = lab.open(Part::Curve, rate_per_s, peak_per_s, plan.step, label)? else {
            break;
        };
        lab.say(&text::curve_row(&trial, reference.as_ref()));
        if let Some(verdict) = trial.verdict(&run) {
            known.push(RateTrial { rate_per_s, length: plan.step.most, verdict });
        }
    }
    Ok(known)
}

fn open(base: &RunArgs, curve: &CurveFlags) -> RunArgs {
    RunArgs { arrivals: curve.arrivals.clone(), connections: curve.connections.clone(), ..base.clone() }
}

/// Percentages above 0, as fractions, rising and each once.
fn fractions(text: &str, faults: &mut Vec<String>) -> Vec<f64> {
    let mut fractions = Vec::new();
    for part in text.split(',').map(|part| part.trim().trim_end_matches('%').trim_end()) {
        let plain = part.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        match part.parse::<f64>().ok().filter(|percent| plain && (0.1..=1_000.0).contains(percent)) {
            Some(percent) => fractions.push(percent / 100.0),
            None => faults.push(format!(
                "--at {text}: '{part}' is not a percentage from 0.1 to 1000; give a list such as {AT}"
            )),
        }
    }
    fractions.sort_by(f64::total_cmp);
    fractions.dedup();
    fractions
}

fn peak(text: &str, faults: &mut Vec<String>) -> Option<f64> {
    match text.parse::<Rate>() {
        Ok(rate) if !rate.is_zero() => Some(rate.as_per_second()),
        _ => {
            let forms = plimsoll_core::rate::RATE_FORMS;
            faults.push(format!("--peak {text}: is not a rate above zero; give {forms}"));
            None
        }
    }
}
