//! The summary of a search for limits, for people of 80 columns. What is measured while they watch comes row by
//! row; the conclusion follows the last row there, and stands first where all is written at once.

use std::fmt::Write as _;

use plimsoll_stats::search::Verdict;
use plimsoll_stats::trust::SUCCESS_MIN_RATIO;

use super::build::{achieved, has_enough_beyond};
use super::{CapacityAtObjective, Part, Peak, ProfilePlan, ProfileV1, References, TrialV1};
use crate::format::{count, given_span, number, percent, span};
use crate::model::Distribution;
use crate::text::{ABSENT, LINE, LOWER_BOUND, TOO_FEW, plural, warnings, what_is_sent, width, wrapped};

/// The head of the sweep's table.
pub const SWEEP_HEAD: &str = "clients  answered/s              mean        p50        p99  clients ÷ rate";
/// The longest bar of the plot, in columns.
const BAR: usize = 56;

/// All of `profile`, several lines, each ending in a line break.
pub fn render(profile: &ProfileV1) -> String {
    let mut out = header(&profile.plan, &profile.plimsoll.version);
    out.push_str(&conclusion(profile));
    let of = |part: Part| profile.trials.iter().filter(move |trial| trial.part == part);
    if of(Part::Sweep).next().is_some() {
        let _ = writeln!(out, "\n{SWEEP_HEAD}");
        of(Part::Sweep).chain(of(Part::PeakAgain)).for_each(|trial| out.push_str(&sweep_row(trial)));
    }
    if of(Part::Curve).next().is_some() {
        let _ = writeln!(out, "\n{}", curve_head(profile.references.as_ref()));
        of(Part::Curve).for_each(|trial| out.push_str(&curve_row(trial, profile.references.as_ref())));
    }
    if of(Part::Objective).next().is_some() {
        let _ = writeln!(out, "\n{}", objective_head(&profile.plan.objectives));
        of(Part::Objective).for_each(|trial| out.push_str(&objective_row(trial)));
    }
    out
}

/// What was asked of whom, and how; ends in an empty line.
pub fn header(plan: &ProfilePlan, version: &str) -> String {
    let mut out = format!("plimsoll {version} · {}", what_is_sent(&plan.operations));
    let between = |least: u64, most: u64| match least == most {
        true => given_span(most),
        false => format!("{} to {}", given_span(least), given_span(most)),
    };
    let mut parts = vec![plan.command.clone()];
    match plan.peak_given_per_s {
        Some(peak) => parts.push(format!("peak given as {}/s", number(peak))),
        None => parts.push(format!(
            "closed loop, clients doubling, {} each",
            between(plan.trial_least_ns, plan.trial_most_ns)
        )),
    }
    if let (Some(arrivals), Some(least), Some(most)) = (&plan.arrivals, plan.step_least_ns, plan.step_most_ns)
    {
        parts.push(format!("open loop, {arrivals}, {} a step", between(least, most)));
    }
    if plan.warmup_ns > 0 {
        parts.push(format!("warm-up {} each", given_span(plan.warmup_ns)));
    }
    parts.push(plan.timeout_ns.map_or("no timeout".to_owned(), |ns| format!("timeout {}", given_span(ns))));
    parts.push(format!("seed {}", plan.seed));
    out.push_str(&wrapped("", &parts));
    out.push('\n');
    out
}

/// The answers, then what they rest on and what to beware of.
pub fn conclusion(profile: &ProfileV1) -> String {
    let mut out = String::new();
    if profile.interrupted {
        out.push_str("Interrupted. What had been measured until then:\n");
    }
    match &profile.peak {
        Some(peak) => peak_lines(profile, peak, &mut out),
        None if profile.plan.peak_given_per_s.is_none() => {
            let why = profile.trials.iter().find_map(|trial| trial.reason.as_deref());
            let _ =
                writeln!(out, "peak         none\n             {}", why.unwrap_or("no trial could be used"));
        }
        None => {}
    }
    if let Some(capacity) = &profile.capacity_at_objective {
        capacity_lines(capacity, &mut out);
    }
    let marks = marks(&profile.trials);
    if !marks.is_empty() {
        let _ = write!(out, "\n{marks}");
    }
    plot(profile, &mut out);
    details(profile, &mut out);
    warnings(&profile.warnings, &mut out);
    out
}

/// Whether the sweep went on to trials in which requests failed.
fn more_clients_fail(profile: &ProfileV1, peak: &Peak) -> bool {
    let more = profile.trials.iter().filter(|t| t.clients.is_some_and(|clients| clients > peak.clients));
    more.filter_map(|t| t.success_ratio).any(|ratio| ratio < SUCCESS_MIN_RATIO)
}

/// Whether the most clients that were to be tried brought the most.
pub(super) fn still_rose(profile: &ProfileV1, peak: &Peak) -> bool {
    profile.plan.clients_max == Some(peak.clients)
}

fn peak_lines(profile: &ProfileV1, peak: &Peak, out: &mut String) {
    let more_clients_fail = more_clients_fail(profile, peak);
    let still_rose = still_rose(profile, peak);
    let rate = number(peak.rate_per_s);
    let interval = match (peak.low, peak.high) {
        (Some(low), Some(high)) => format!(" ({} to {})", number(low), number(high)),
        _ => String::new(),
    };
    let bound = if peak.is_lower_bound { LOWER_BOUND } else { "" };
    let clients = format!("{} client{}", count(peak.clients), plural(peak.clients));
    let _ = writeln!(out, "peak         {bound}{rate} answered/s{interval} with {clients}");
    let why = match (peak.limited_by.as_str(), peak.connections_established) {
        ("generator", _) => "the generator was the limit, the server does at least this".to_owned(),
        ("connections", Some(n)) => {
            format!("the server let no more than {} connections stand", count(n))
        }
        ("clients", _) if still_rose => {
            "that was the most clients to be tried, and the rate still rose".to_owned()
        }
        ("clients", _) => "the most clients came before a second doubling without a gain".to_owned(),
        ("server", _) if more_clients_fail => {
            "with more clients requests failed: the server was the limit".to_owned()
        }
        ("server", _) => "twice doubling the clients brought no more: the server was the limit".to_owned(),
        _ => "the sweep did not end".to_owned(),
    };
    let _ = writeln!(out, "             {why}");
}

fn capacity_lines(capacity: &CapacityAtObjective, out: &mut String) {
    let per_s = |rate: f64| format!("{}/s", number(rate));
    let bounds = match (capacity.low, capacity.high) {
        (Some(low), Some(high)) => format!("between {} and {}", per_s(low), per_s(high)),
        (Some(low), None) => format!("{LOWER_BOUND}{}", per_s(low)),
        (None, Some(_)) if capacity.high_is_peak => "met at no rate that was tried".to_owned(),
        (None, Some(high)) => format!("met at no rate that was tried, missed from {} on", per_s(high)),
        (None, None) => "not known: no trial could decide".to_owned(),
    };
    let _ = writeln!(out, "objective    {}\n             {bounds}", capacity.objective);
    let mut say = |text: String| {
        let _ = writeln!(out, "             {text}");
    };
    if capacity.high_is_peak {
        say("above the peak of the sweep no rate was tried".to_owned());
    }
    if let Some((least, greatest)) = capacity.undecided {
        let rates = match least == greatest {
            true => format!("at {}", per_s(least)),
            false => format!("from {} to {}", per_s(least), per_s(greatest)),
        };
        say(format!("{rates} the longest trials could not decide"));
    }
    if let Some(rate) = capacity.generator_per_s {
        say(format!("from {} on the generator was the limit", per_s(rate)));
    }
    if !capacity.complete {
        say("the search did not end".to_owned());
    }
}

/// What the marks in the tables of `trials` mean, those that were used; a line each.
pub fn marks(trials: &[TrialV1]) -> String {
    let mut out = String::new();
    let mut responses = trials.iter().filter_map(|trial| trial.response_ns.as_ref());
    if responses.clone().any(|r| !too_few(r, 0.99).is_empty()) {
        out.push_str("* too few samples: fewer than 5 independent ones lie beyond this percentile\n");
    }
    if responses.any(|r| ["mean", "p50", "p99"].iter().any(|name| r.censored.iter().any(|c| c == name))) {
        out.push_str("≥ lower bound: requests without an answer would have taken longer\n");
    }
    out
}

/// The p99 of the curve as bars, with the reference's as a mark.
fn plot(profile: &ProfileV1, out: &mut String) {
    let steps: Vec<(&TrialV1, f64)> = profile
        .trials
        .iter()
        .filter(|trial| trial.part == Part::Curve && trial.used)
        .filter_map(|trial| Some((trial, *trial.response_ns.as_ref()?.percentiles.get("p99")? as f64)))
        .collect();
    let Some(longest) = steps.iter().map(|(_, ns)| *ns).reduce(f64::max).filter(|_| steps.len() > 1) else {
        return;
    };
    let references = profile.references.as_ref();
    let mark = references.map_or(String::new(), |r| format!(", │ is {}", r.law));
    let _ = writeln!(out, "\np99 by load{mark}");
    for (trial, ns) in steps {
        let reference = references.and_then(|r| r.at(trial.rate_per_s?)).map(|point| point.p99_ns / longest);
        let bar = bar(ns / longest, reference);
        let _ = writeln!(out, "{}  {:>9}  {bar}", load(trial), span(ns));
    }
}

/// A bar for a share of the longest, in eighths of a column, and a mark where the reference lies, if that is
/// within sight.
fn bar(share: f64, reference: Option<f64>) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share * BAR as f64 * 8.0).round().max(1.0) as usize;
    let mut bar: Vec<char> = vec!['█'; eighths / 8];
    bar.push(EIGHTHS[eighths % 8]);
    if let Some(at) = reference.map(|reference| (reference * BAR as f64) as usize).filter(|at| *at <= BAR) {
        bar.resize(bar.len().max(at + 1), ' ');
        bar[at] = '│';
    }
    bar.into_iter().collect::<String>().trim_end().to_owned()
}

/// Knees, fits and what the reference is.
fn details(profile: &ProfileV1, out: &mut String) {
    if profile.knee.is_empty() && profile.fits.universal_scalability.is_none() && profile.references.is_none()
    {
        return;
    }
    out.push('\n');
    for (at, knee) in profile.knee.iter().enumerate() {
        let label = if at == 0 { "knee" } else { "" };
        let place = match knee.clients {
            Some(clients) => format!(
                "{} client{}, {}/s, mean {}",
                count(clients),
                plural(clients),
                number(knee.rate_per_s),
                span(knee.response_ns)
            ),
            None => format!("{}/s, p99 {}", number(knee.rate_per_s), span(knee.response_ns)),
        };
        let _ = writeln!(out, "{label:13}{place}: {}", knee.method);
    }
    if let Some(fit) = &profile.fits.universal_scalability {
        let peak = match (fit.peak_clients, fit.peak_rate_per_s) {
            (Some(clients), Some(rate)) => {
                format!("peak {}/s at {} clients", number(rate), count(clients.round() as u64))
            }
            (None, Some(rate)) => format!("rising towards {}/s", number(rate)),
            _ => "no bound".to_owned(),
        };
        let parts = [
            "Universal Scalability Law (Gunther 2007)".to_owned(),
            format!("λ {}/s", number(fit.lambda_per_s)),
            format!("σ {:.4}", fit.sigma),
            format!("κ {:.2e}", fit.kappa),
            format!("R² {:.3}", fit.r_squared),
            peak,
        ];
        out.push_str(&wrapped("fit", &parts));
    }
    if let Some(references) = &profile.references {
        let service = span(references.service_mean_ns);
        let mut parts = vec![format!("{}: {service} a request (1 ÷ peak)", references.law)];
        if references.way_ns > 0.0 {
            parts.push(format!("{} for the way there and back", span(references.way_ns)));
        }
        out.push_str(&wrapped("reference", &parts));
    }
}

/// A row of the sweep's table, and below it why it is not used, if it is not.
pub fn sweep_row(trial: &TrialV1) -> String {
    let figure = achieved(&trial.rates);
    let precision = figure.half_width_ratio().map_or(String::new(), |half| format!("± {}", rough(half)));
    let [mean, p50, p99] = response(trial);
    let row = format!(
        "{:>7}  {:>10}  {precision:8}  {mean:>9}  {p50:>9}  {p99:>9}  {:>14}",
        trial.clients.map_or(ABSENT.to_owned(), count),
        number(figure.value),
        trial.clients_over_rate_ns.map_or(ABSENT.to_owned(), span),
    );
    let mut out = format!("{}\n", row.trim_end());
    if trial.part == Part::PeakAgain {
        note("the best, measured again", &mut out);
    }
    not_used(trial, &mut out);
    out
}

/// The head of the latency curve's table.
pub fn curve_head(references: Option<&References>) -> String {
    let reference = references.map_or(String::new(), |r| format!("{} p99", r.law));
    let head = format!(
        "{:>6}  {:>9}  {:>7}  {:>9}  {:>9}  {:>10}  {:>7}  {reference:>9}",
        "load", "rate/s", "ok", "mean", "p50", "p99", "±"
    );
    head.trim_end().to_owned()
}

/// A row of it, and below it why it is not used, if it is not.
pub fn curve_row(trial: &TrialV1, references: Option<&References>) -> String {
    let reference = references.map(|references| {
        let at = trial.rate_per_s.and_then(|rate| references.at(rate));
        at.map_or(ABSENT.to_owned(), |point| span(point.p99_ns))
    });
    let [mean, p50, p99] = response(trial);
    let row = format!(
        "{}  {:>9}  {:>7}  {mean:>9}  {p50:>9}  {p99:>10}  {:>7}  {:>9}",
        load(trial),
        rate(trial),
        success(trial),
        precision(trial),
        reference.unwrap_or_default(),
    );
    finished(&row, trial)
}

/// The head of the table of the search for the highest rate that meets `objectives`.
pub fn objective_head(objectives: &[String]) -> String {
    let columns = format!(
        "{:>6}  {:>9}  {:>6}  {:>7}  {:>9}  {:>10}  {:>7}  objective",
        "load", "rate/s", "time", "ok", "mean", "p99", "±"
    );
    format!("the highest rate with {}\n{columns}", objectives.join(" and "))
}

/// A row of it.
pub fn objective_row(trial: &TrialV1) -> String {
    let verdict = match (trial.used, trial.objectives_verdict()) {
        (true, Verdict::Met) => "met",
        (true, Verdict::Undecided) => "undecided",
        (true, Verdict::Missed) => "missed",
        _ => ABSENT,
    };
    let [mean, _, p99] = response(trial);
    let row = format!(
        "{}  {:>9}  {:>6}  {:>7}  {mean:>9}  {p99:>10}  {:>7}  {verdict}",
        load(trial),
        rate(trial),
        trial.planned_ns.map_or(ABSENT.to_owned(), given_span),
        success(trial),
        precision(trial),
    );
    finished(&row, trial)
}

fn finished(row: &str, trial: &TrialV1) -> String {
    let mut out = format!("{}\n", row.trim_end());
    not_used(trial, &mut out);
    out
}

fn not_used(trial: &TrialV1, out: &mut String) {
    if let Some(reason) = &trial.reason {
        note(&format!("not used: {reason}"), out);
    }
}

fn rate(trial: &TrialV1) -> String {
    trial.rate_per_s.map_or(ABSENT.to_owned(), number)
}

fn success(trial: &TrialV1) -> String {
    trial.success_ratio.map_or(ABSENT.to_owned(), percent)
}

/// Of the p99.
fn precision(trial: &TrialV1) -> String {
    trial.p99_half_width_ratio().map_or(String::new(), rough)
}

fn load(trial: &TrialV1) -> String {
    let share = trial.fraction_ratio.map_or(ABSENT.to_owned(), |ratio| percent((ratio * 1e3).round() / 1e3));
    format!("{share:>6}")
}

/// Mean, p50 and p99 of the response, with their marks.
fn response(trial: &TrialV1) -> [String; 3] {
    let Some(response) = &trial.response_ns else { return [ABSENT, ABSENT, ABSENT].map(str::to_owned) };
    let percentile = |name: &str, q: f64| {
        let ns = response.percentiles.get(name).map(|ns| *ns as f64);
        ns.map_or(ABSENT.to_owned(), |ns| cell(response, name, ns) + too_few(response, q))
    };
    [cell(response, "mean", response.mean), percentile("p50", 0.5), percentile("p99", 0.99)]
}

fn cell(response: &Distribution, name: &str, ns: f64) -> String {
    let bound = response.censored.iter().any(|censored| censored == name);
    format!("{}{}", if bound { LOWER_BOUND } else { "" }, span(ns))
}

fn too_few(response: &Distribution, q: f64) -> &'static str {
    if has_enough_beyond(response, q) { "" } else { TOO_FEW }
}

/// A line below a row, cut where it would leave the screen; the result file has all of it.
fn note(text: &str, out: &mut String) {
    const INDENT: &str = "         ";
    let room = LINE - INDENT.len();
    let shown: String = match width(text) > room {
        true => text.chars().take(room - 1).chain(['…']).collect(),
        false => text.to_owned(),
    };
    let _ = writeln!(out, "{INDENT}{shown}");
}

/// A precision: two digits are plenty.
fn rough(ratio: f64) -> String {
    let decimals = if ratio < 0.0995 { 1 } else { 0 };
    format!("{:.decimals$} %", ratio * 100.0)
}
