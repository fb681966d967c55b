//! `plimsoll demo`: a short profile of the embedded target, then what a stall does to it; nothing else needed.
//!
//! Nothing it prints is known beforehand: every line is made of what was measured just now, and an act that
//! did not show what it usually shows says so.

use std::net::SocketAddr;

use clap::Args;
use plimsoll_core::Span;
use plimsoll_report::TrialV1;
use plimsoll_report::format::{count, number, span};
use plimsoll_report::profile::build::references;
use plimsoll_report::profile::{Part, text};
use plimsoll_scenario::{Environment, RunArgs};
use plimsoll_stats::search::Peak;
use plimsoll_target::{Running, ServiceLaw, Target, TargetConfig};

use crate::exit::Exit;
use crate::machine::this_machine;
use crate::trials::{Enough, Lab, Times, Trial, plan_of, rounded};
use crate::{Refusal, console};

/// Flags of `plimsoll demo`: none, it is there to be watched.
#[derive(Debug, Args)]
pub(crate) struct DemoFlags {}

/// What the server takes for a request, one at a time: it can carry 500 a second.
const SERVICE: Span = Span::from_ms(2);
/// The stalls of act 3: in every second and a half the server stands still so long.
const STALL: &str = "every=1500ms,for=300ms";
/// The sweep of act 1.
const CLIENTS_MAX: u32 = 8;
const SWEEP: Times = Times { least: Span::from_ms(1_000), most: Span::from_ms(1_200) };
/// The steps of act 2.
const FRACTIONS: [f64; 4] = [0.25, 0.5, 0.75, 0.9];
const STEP: Times = Times { least: Span::from_ms(2_500), most: Span::from_ms(2_500) };
/// The runs of act 3: three stalls.
const STALLED: Times = Times { least: Span::from_ms(4_500), most: Span::from_ms(4_500) };
/// A p99 counts as longer than another from this ratio on.
const LONGER_RATIO: f64 = 1.25;
/// Little's law is shown when both sides agree so well.
const LITTLE_RATIO: std::ops::Range<f64> = 0.95..1.05;

/// Shows it.
pub(crate) fn demo(_flags: DemoFlags) -> Result<Exit, Refusal> {
    let mut lab =
        Lab::new(RunArgs::default(), Vec::new(), (this_machine(), Environment::default()), true, true)?;
    lab.say(&format!(
        "A server that takes {SERVICE} for a request, one at a time, is started here and measured.\n"
    ));
    let told = play(&mut lab)?;
    if let Some(exit) = lab.interrupted() {
        return Ok(exit);
    }
    let end = format!(
        "{}\n{}\n\nYour own server: plimsoll profile http://HOST:PORT/\n",
        text::marks(lab.trials()),
        told.join("\n")
    );
    Ok(console::last_result(end.as_bytes()))
}

/// All acts; some sentences for each of them.
fn play(lab: &mut Lab) -> Result<Vec<String>, Refusal> {
    let steady = server(None)?;
    lab.base = to(&steady);
    lab.say("\nAct 1 of 3: clients that wait for their answers, more and more of them\n\n");
    let found = lab.sweep(SWEEP, CLIENTS_MAX)?;
    if !lab.goes_on() {
        return Ok(Vec::new());
    }
    let Some(peak) = found else {
        return Err("the embedded target answered nothing; this machine is too busy".into());
    };
    let peak_per_s = peak.rate_per_s.value;
    let first = tell_of_clients(lab.trials(), peak);

    lab.say(&format!(
        "\nAct 2 of 3: requests on a schedule, as users send them, at a part of {}/s\n\n",
        number(peak_per_s)
    ));
    let mut plan = plan_of("demo", SWEEP);
    plan.arrivals = Some("poisson".to_owned());
    let reference = references(lab.trials(), Some(peak), &plan);
    lab.say(&format!("{}\n", text::curve_head(reference.as_ref())));
    let mut curve = Vec::new();
    for fraction in FRACTIONS {
        let rate_per_s = rounded(fraction * peak_per_s);
        let label = format!("{rate_per_s}/s");
        let Some((trial, _)) = lab.open(Part::Curve, rate_per_s, peak_per_s, STEP, label)? else {
            return Ok(Vec::new());
        };
        lab.say(&text::curve_row(&trial, reference.as_ref()));
        curve.push(trial);
    }
    drop(steady);
    let second = compare(
        "2. Users who know nothing of each other get into each other's way long before the server is full:",
        (&curve[curve.len() - 1], &format!("at {:.0} % of the peak", FRACTIONS[curve.len() - 1] * 100.0)),
        (&curve[0], &format!("at {:.0} %", FRACTIONS[0] * 100.0)),
    );

    let stalling = server(Some(STALL))?;
    lab.base = to(&stalling);
    lab.say("\nAct 3 of 3: the server stands still for 300 ms in every 1.5 s\n\n");
    lab.say(&row(["load", "answered/s", "mean", "p50", "p99", "max"].map(str::to_owned)));
    let clients = RunArgs { clients: Some("2".to_owned()), ..lab.base.clone() };
    let Some(closed) = stalled(lab, clients, "closed, 2 clients".to_owned())? else { return Ok(Vec::new()) };
    let rate = rounded(0.5 * peak_per_s);
    let schedule = RunArgs { rate: Some(rate.to_string()), ..lab.base.clone() };
    let Some(open) = stalled(lab, schedule, format!("open, {}/s", number(rate)))? else {
        return Ok(Vec::new());
    };
    let third = compare(
        "3. A closed loop sends nothing while the server stalls, so it hardly sees the stall:",
        (&open, "for the open loop, which counts from when each request was due"),
        (&closed, "for the closed loop"),
    );
    Ok(vec![first, second, third])
}

/// A run of act 3.
fn stalled(lab: &mut Lab, args: RunArgs, load: String) -> Result<Option<TrialV1>, Refusal> {
    let (part, times, enough) = (Part::Curve, STALLED, Enough::Rate);
    let trial = Trial { part, args, times, enough, fraction_ratio: None, label: load.clone() };
    let Some((trial, _)) = lab.run(trial)? else { return Ok(None) };
    let response = trial.response_ns.as_ref();
    let shown = |ns: Option<f64>| ns.map_or("-".to_owned(), span);
    let percentile = |name| shown(response.and_then(|r| r.percentiles.get(name)).map(|ns| *ns as f64));
    lab.say(&row([
        load,
        trial.rates.achieved_per_s.map_or("-".to_owned(), number),
        shown(response.map(|r| r.mean)),
        percentile("p50"),
        percentile("p99"),
        shown(response.map(|r| r.max as f64)),
    ]));
    Ok(Some(trial))
}

fn row([load, numbers @ ..]: [String; 6]) -> String {
    let numbers: String = numbers.iter().map(|number| format!("  {number:>10}")).collect();
    format!("{load:18}{numbers}\n")
}

/// Where throughput stopped rising, and what more clients brought instead.
fn tell_of_clients(trials: &[TrialV1], peak: Peak) -> String {
    let rate = number(peak.rate_per_s.value);
    let plural = if peak.clients == 1 { "" } else { "s" };
    let opening = format!(
        "1. Throughput stopped rising at {rate}/s with {} client{plural}",
        count(peak.clients.into())
    );
    // The most clients of the sweep, not the best trial that was run again.
    let last = trials.iter().filter(|t| t.part == Part::Sweep && t.used).max_by_key(|t| t.clients);
    let measured = last.and_then(|trial| {
        let clients = trial.clients.filter(|clients| *clients > u64::from(peak.clients))?;
        let response = trial.response_ns.as_ref()?;
        Some((clients, trial.rates.achieved_per_s?, trial.clients_over_rate_ns?, response.mean))
    });
    match measured {
        Some((clients, rate, by_law_ns, mean_ns)) if LITTLE_RATIO.contains(&(by_law_ns / mean_ns)) => {
            format!(
                "{opening}; more clients only waited longer.\n   \
             Clients ÷ throughput is the mean response (Little's law): {clients} ÷ {}/s = {}, measured {}.",
                number(rate),
                span(by_law_ns),
                span(mean_ns)
            )
        }
        _ => format!(
            "{opening}.\n   What more clients bring was not seen this time; run it again on a quieter machine."
        ),
    }
}

/// The p99 of `last` beside that of `before`, each with what it is.
fn compare(opening: &str, last: (&TrialV1, &str), before: (&TrialV1, &str)) -> String {
    let p99_ns = |trial: &TrialV1| {
        let response = trial.response_ns.as_ref();
        response.and_then(|r| r.percentiles.get("p99")).map(|ns| *ns as f64)
    };
    let (Some(last_ns), Some(before_ns)) = (p99_ns(last.0), p99_ns(before.0)) else {
        return format!("{opening}\n   nothing was answered this time; run it again on a quieter machine.");
    };
    let ratio = last_ns / before_ns;
    let times = if ratio < 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.0}") };
    let figures = format!("p99 {} {}\n   against {} {}", span(last_ns), last.1, span(before_ns), before.1);
    if ratio >= LONGER_RATIO {
        format!("{opening}\n   {figures}: {times} times as long.")
    } else {
        format!("{opening}\n   {figures}: not so this time; run it again on a quieter machine.")
    }
}

fn server(stall: Option<&str>) -> Result<Running, Refusal> {
    let config = TargetConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        service: ServiceLaw::Fixed(SERVICE),
        stall: stall.map(str::parse).transpose()?,
        ..TargetConfig::default()
    };
    Ok(Target::start(config)?)
}

fn to(server: &Running) -> RunArgs {
    RunArgs { target: format!("http://{}/", server.address()), ..RunArgs::default() }
}
