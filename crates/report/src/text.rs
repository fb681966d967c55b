//! The summary for people: the answer first, success before latency, then what the load cost, then
//! what to beware of. It is made from the published result alone and shows nothing that is not in it.

use std::fmt::Write as _;

use plimsoll_stats::slo::has_samples_beyond;

use crate::build::label_of;
use crate::format::{bytes, count, given_span, number, percent, quantile_of, span};
use crate::model::{Distribution, Model, ObjectiveStatus, Plan, RunV1};

/// Stands where there is no value.
const ABSENT: &str = "-";
/// Before a value that is a lower bound.
const LOWER_BOUND: &str = "≥ ";
/// Behind a percentile with too few samples.
const TOO_FEW: &str = "*";
/// The most kinds of failure listed; the result has all.
const FAILURES_SHOWN: usize = 8;

/// The summary of `run`, several lines, each ending in a line break.
pub fn render(run: &RunV1) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(out, "{}\n\n{}", header(run), what_happened(run));
    let _ = writeln!(out, "{}\n", success(run));
    latency(run, &mut out);
    out.push('\n');
    load(run, &mut out);
    failures(run, &mut out);
    objectives(run, &mut out);
    warnings(run, &mut out);
    out
}

/// The plan in one line.
fn header(run: &RunV1) -> String {
    let plan = &run.plan;
    let mut parts = vec![format!("plimsoll {}", run.plimsoll.version)];
    match plan.operations.as_slice() {
        [operation] => parts.push(format!("{} {}", operation.method, operation.target)),
        operations => parts.push(format!("{} kinds of requests", operations.len())),
    }
    parts.push(load_model(plan));
    if plan.warmup_ns > 0 {
        parts.push(format!("warm-up {}", given_span(plan.warmup_ns)));
    }
    parts.push(plan.timeout_ns.map_or("no timeout".to_owned(), |ns| format!("timeout {}", given_span(ns))));
    if let Some(retry) = &plan.retry {
        parts.push(format!("copies up to {} after {}", retry.copies, given_span(retry.after_ns)));
    }
    parts.push(format!("seed {}", plan.seed));
    parts.push(format!("{} worker{}", plan.workers, plural(u64::from(plan.workers))));
    parts.join(" · ")
}

fn load_model(plan: &Plan) -> String {
    let mut text = match plan.model {
        Model::Open => {
            let rate = match (&plan.rate_per_s, &plan.stages) {
                (Some(rate), _) => format!("{}/s", number(*rate)),
                (None, Some(stages)) => {
                    let stages = stages.iter().map(|stage| {
                        let (from, to) = (number(stage.from_per_s), number(stage.to_per_s));
                        let length =
                            stage.length_ns.map_or(String::new(), |ns| format!(" for {}", given_span(ns)));
                        if from == to {
                            format!("{from}/s{length}")
                        } else {
                            format!("{from} to {to}/s{length}")
                        }
                    });
                    stages.collect::<Vec<_>>().join(", ")
                }
                (None, None) => ABSENT.to_owned(),
            };
            let arrivals = plan.arrivals.as_deref().map_or(String::new(), |law| format!(" {law}"));
            format!("open loop, {rate}{arrivals}")
        }
        Model::Closed => {
            let clients = plan.clients.unwrap_or_default();
            format!("closed loop, {} client{}", count(clients), plural(clients))
        }
        Model::Users => format!("{} users", count(plan.users.unwrap_or_default())),
    };
    if let Some(requests) = plan.requests {
        let _ = write!(text, ", {} requests", count(requests));
    }
    if let (Some(ns), None) = (plan.duration_ns, &plan.stages) {
        let _ = write!(text, ", {}", given_span(ns));
    }
    text
}

fn what_happened(run: &RunV1) -> String {
    let counts = &run.counts;
    let interrupted = if run.interrupted { "Interrupted. " } else { "" };
    let answered = format!("{} of {} requests answered", count(counts.answered), count(counts.due));
    let window = span(run.rates.window_ns as f64);
    match run.rates.achieved_per_s {
        Some(rate) if counts.answered > 0 => {
            format!("{interrupted}{answered}, {} answered/s over {window}", number(rate))
        }
        _ => format!("{interrupted}{answered} in {window}"),
    }
}

/// How the requests ended, what is zero left out.
fn success(run: &RunV1) -> String {
    let counts = &run.counts;
    let mut parts = vec![match run.success_ratio {
        Some(ratio) => format!("{} ok ({})", percent(ratio), count(counts.ok)),
        None => format!("{ABSENT} ok"),
    }];
    let mut part = |n: u64, what: &str| {
        if n > 0 {
            parts.push(format!("{} {what}", count(n)));
        }
    };
    part(counts.failed, "failed");
    part(counts.timed_out, "timed out");
    part(counts.unfinished, "unfinished");
    part(counts.dropped.values().sum(), "dropped");
    parts.join(", ")
}

/// The table of distributions: one row a span, one column a percentile.
fn latency(run: &RunV1, out: &mut String) {
    let names = &run.plan.percentiles;
    let mut columns = vec!["mean".to_owned()];
    columns.extend(names.iter().map(|name| label_of(name)));
    columns.push("max".to_owned());
    let mut table = vec![("", columns.clone())];
    let mut notes = Notes::default();
    let mut row = |label: &'static str, distribution: &Option<Distribution>| {
        let cells = match distribution {
            Some(distribution) => cells(distribution, names, &mut notes),
            None => vec![ABSENT.to_owned(); names.len() + 2],
        };
        table.push((label, cells));
    };
    row("response", &run.response_ns);
    if run.response_failed_ns.is_some() {
        row("  failed", &run.response_failed_ns);
    }
    row("service", &run.service_ns);
    row("schedule lag", &run.schedule_lag_ns);
    row("blocked", &run.blocked_ns);
    row("read lag", &run.read_lag_ns);
    row("connect", &run.connect_ns);

    // A mark must not push its number out of line.
    for at in 0..columns.len() {
        if table.iter().any(|(_, cells)| cells[at].ends_with(TOO_FEW)) {
            let unmarked =
                table.iter_mut().map(|(_, cells)| &mut cells[at]).filter(|cell| !cell.ends_with(TOO_FEW));
            unmarked.for_each(|cell| cell.push(' '));
        }
    }
    let label_width = table.iter().map(|(label, _)| width(label)).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| table.iter().map(|(_, cells)| width(&cells[at])).max().unwrap_or_default())
        .collect();
    for (label, cells) in &table {
        let mut line = format!("{label:label_width$}");
        for (cell, wanted) in cells.iter().zip(&widths) {
            line.push_str("  ");
            line.extend(std::iter::repeat_n(' ', wanted - width(cell)));
            line.push_str(cell);
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out.push_str("response: from due, what a user would have waited. service: from send (client view).\n");
    if notes.lower_bounds {
        out.push_str("≥ lower bound: requests without an answer would have taken longer.\n");
    }
    if notes.too_few {
        out.push_str("* too few samples: fewer than 5 lie beyond this percentile.\n");
    }
}

/// Which marks were used, so that only those are explained.
#[derive(Default)]
struct Notes {
    lower_bounds: bool,
    too_few: bool,
}

fn cells(distribution: &Distribution, names: &[String], notes: &mut Notes) -> Vec<String> {
    let mut cell = |name: &str, ns: f64| {
        let bound = distribution.censored.iter().any(|censored| censored == name);
        let too_few = quantile_of(name).is_some_and(|q| !has_samples_beyond(distribution.count, q));
        notes.lower_bounds |= bound;
        notes.too_few |= too_few;
        let mark = if too_few { TOO_FEW } else { "" };
        format!("{}{}{mark}", if bound { LOWER_BOUND } else { "" }, span(ns))
    };
    let mut cells = vec![cell("mean", distribution.mean)];
    cells.extend(names.iter().map(|name| match distribution.percentiles.get(name) {
        Some(ns) => cell(name, *ns as f64),
        None => ABSENT.to_owned(),
    }));
    cells.push(cell("max", distribution.max as f64));
    cells
}

/// Rates, requests, connections, and what the load cost.
fn load(run: &RunV1, out: &mut String) {
    let rate = |rate: Option<f64>| rate.map_or(ABSENT.to_owned(), |rate| format!("{}/s", number(rate)));
    let rates = &run.rates;
    let in_window =
        run.windows.first().map_or(String::new(), |w| format!(" (in {})", given_span(w.length_ns)));
    let _ = writeln!(
        out,
        "rates        intended {} · offered {} · achieved {} · goodput {} · peak sent {}{in_window}",
        rate(rates.intended_per_s),
        rate(rates.offered_per_s),
        rate(rates.achieved_per_s),
        rate(rates.goodput_per_s),
        rate(rates.peak_sent_per_s),
    );
    let counts = &run.counts;
    let mut requests = format!("due {} · sent {}", count(counts.due), count(counts.sent));
    let mut part = |n: u64, what: &str| {
        if n > 0 {
            let _ = write!(requests, " · {what} {}", count(n));
        }
    };
    part(counts.sent_in_drain, "of them in the drain");
    part(if counts.attempts == counts.sent { 0 } else { counts.attempts }, "copies sent");
    part(counts.waited_for_connection, "waited for a connection");
    part(run.counts_warmup.due, "in the warm-up");
    let _ = writeln!(out, "requests     {requests}");
    let connections = &run.connections;
    let mut text = match connections.wanted {
        Some(wanted) => {
            format!("wanted {} · established {} · ", count(wanted), count(connections.established))
        }
        None => String::new(),
    };
    let _ = write!(text, "peak {} · opened {}", count(connections.peak), count(connections.opened));
    let _ = writeln!(out, "connections  {text}");
    let level = |value: Option<f64>| value.map_or(ABSENT.to_owned(), number);
    let _ = writeln!(
        out,
        "in flight    mean {} · max {} · outstanding (due and not ended) mean {}",
        level(run.in_flight.mean),
        level(run.in_flight.max),
        level(run.outstanding.mean),
    );
    let _ =
        writeln!(out, "bytes        sent {} · received {}", bytes(run.bytes.sent), bytes(run.bytes.received));
    let generator = &run.generator;
    let _ = writeln!(
        out,
        "generator    cpu {} user, {} system · memory {} · wait {} · receive clock {}",
        span(generator.cpu_user_ns as f64),
        span(generator.cpu_system_ns as f64),
        generator.max_rss_bytes.map_or(ABSENT.to_owned(), bytes),
        run.plan.wait_strategy,
        run.plan.receive_clock,
    );
}

fn failures(run: &RunV1, out: &mut String) {
    if run.errors.is_empty() {
        return;
    }
    let mut errors: Vec<_> = run.errors.iter().collect();
    errors.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let name_width = errors.iter().map(|(name, _)| width(name)).max().unwrap_or_default();
    out.push_str("\nfailures\n");
    for (name, n) in errors.iter().take(FAILURES_SHOWN) {
        let text = run.error_texts.get(*name).map_or(String::new(), |text| format!("  {text}"));
        let _ = writeln!(out, "  {name:name_width$}  {}{text}", count(**n));
    }
    if errors.len() > FAILURES_SHOWN {
        out.push_str("  and further kinds, which the result file lists\n");
    }
}

fn objectives(run: &RunV1, out: &mut String) {
    if run.objectives.is_empty() {
        return;
    }
    out.push_str("\nobjectives\n");
    for objective in &run.objectives {
        let status = match objective.status {
            ObjectiveStatus::Pass => "pass",
            ObjectiveStatus::Fail => "fail",
            ObjectiveStatus::Inconclusive => "inconclusive",
        };
        let is_share = ["success", "rate"].iter().any(|name| objective.expression.starts_with(name));
        let value = match objective.value {
            Some(ratio) if is_share => format!(": {}", percent(ratio)),
            Some(ns) if objective.low.is_some() => format!(": {LOWER_BOUND}{}", span(ns)),
            Some(ns) => format!(": {}", span(ns)),
            None => String::new(),
        };
        let reason = objective.reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
        let _ = writeln!(out, "  {status:12}  {}{value}{reason}", objective.expression);
    }
}

fn warnings(run: &RunV1, out: &mut String) {
    if run.warnings.is_empty() {
        return;
    }
    out.push_str("\nwarnings\n");
    for warning in &run.warnings {
        let _ = writeln!(out, "  {}", warning.seen);
        if let Some(harm) = &warning.harm {
            let _ = writeln!(out, "    why it matters: {harm}");
        }
        if let Some(remedy) = &warning.remedy {
            let _ = writeln!(out, "    to try: {remedy}");
        }
    }
}

/// Columns a text takes: every character used here takes one.
fn width(text: &str) -> usize {
    text.chars().count()
}

fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}
