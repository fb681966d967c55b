//! The summary for people: the answer first, success before latency, then what the load cost, then
//! what to beware of. It is made from the published result alone and shows nothing that is not in it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use plimsoll_stats::slo::has_samples_beyond;

use crate::build::label_of;
use crate::format::{bytes, count, given_span, number, percent, quantile_of, span};
use crate::model::{Distribution, Model, ObjectiveStatus, Plan, PlannedOperation, RunV1, Verdict, Warning};

/// Stands where there is no value.
pub(crate) const ABSENT: &str = "-";
/// Before a value that is a lower bound.
pub(crate) const LOWER_BOUND: &str = "≥ ";
/// Behind a percentile with too few samples.
pub(crate) const TOO_FEW: &str = "*";
/// Columns of a line, where it can be kept to them: those of the narrowest usual terminal.
pub(crate) const LINE: usize = 80;
/// Columns of a label at a line's start.
const LABEL: usize = 13;
/// Columns of an operation's name.
const OPERATION: usize = 40;
/// The most kinds of failure listed; the result has all.
const FAILURES_SHOWN: usize = 8;

/// The summary of `run`, several lines, each ending in a line break.
pub fn render(run: &RunV1) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(out, "{}\n\n{}", header(run), what_happened(run));
    if let Some(success) = success(run) {
        let _ = writeln!(out, "{success}");
    }
    if let Some(trust) = &run.trust {
        let verdict = match trust.verdict {
            Verdict::Valid => "valid",
            Verdict::Suspect => "suspect",
            Verdict::Invalid => "invalid",
        };
        let _ = writeln!(out, "trust: {verdict} · limited by: {}", trust.limited_by);
    }
    out.push('\n');
    latency(run, &mut out);
    load(run, &mut out);
    operations(run, &mut out);
    failures(run, &mut out);
    objectives(run, &mut out);
    warnings(&run.warnings, &mut out);
    out
}

/// The plan: what was asked of whom, and how.
fn header(run: &RunV1) -> String {
    let plan = &run.plan;
    let mut out = format!("plimsoll {} · {}", run.plimsoll.version, what_is_sent(&plan.operations));
    let mut parts = vec![load_model(plan)];
    if plan.warmup_ns > 0 {
        parts.push(format!("warm-up {}", given_span(plan.warmup_ns)));
    }
    parts.push(plan.timeout_ns.map_or("no timeout".to_owned(), |ns| format!("timeout {}", given_span(ns))));
    if let Some(retry) = &plan.retry {
        parts.push(format!("copies up to {} after {}", retry.copies, given_span(retry.after_ns)));
    }
    parts.push(format!("seed {}", plan.seed));
    parts.push(format!("{} worker{}", plan.workers, plural(u64::from(plan.workers))));
    out.push_str(&wrapped("", &parts));
    out.trim_end().to_owned()
}

/// What is sent where; one line, and for SQL a second one with the statement.
pub(crate) fn what_is_sent(operations: &[PlannedOperation]) -> String {
    match operations {
        [operation] if operation.sql.is_empty() => format!("{} {}\n", operation.method, operation.target),
        [operation] => {
            let sql = shortened(&operation.sql.join("; "), LINE);
            format!("{}, {}\n{sql}\n", operation.target, operation.method)
        }
        operations => {
            let targets: BTreeSet<&str> = operations.iter().map(|o| o.target.as_str()).collect();
            let target = if targets.len() == 1 { operations[0].target.as_str() } else { "several targets" };
            format!("{} kinds of requests to {target}\n", operations.len())
        }
    }
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
        let _ = write!(text, ", {} request{}", count(requests), plural(requests));
    }
    if let (Some(ns), None) = (plan.duration_ns, &plan.stages) {
        let _ = write!(text, ", {}", given_span(ns));
    }
    text
}

fn what_happened(run: &RunV1) -> String {
    let counts = &run.counts;
    let interrupted = if run.interrupted { "Interrupted. " } else { "" };
    if run.rates.window_ns == 0 && counts.due == 0 {
        return format!("{interrupted}Nothing was sent.");
    }
    let (answered, due) = (count(counts.answered), count(counts.due));
    let answered = format!("{answered} of {due} request{} answered", plural(counts.due));
    let window = span(run.rates.window_ns as f64);
    match run.rates.achieved_per_s {
        Some(rate) if counts.answered > 0 => {
            format!("{interrupted}{answered}, {} answered/s over {window}", number(rate))
        }
        _ => format!("{interrupted}{answered} in {window}"),
    }
}

/// How the requests ended, what is zero left out; nothing where none did.
fn success(run: &RunV1) -> Option<String> {
    let counts = &run.counts;
    let mut parts = Vec::new();
    if let Some(ratio) = run.success_ratio {
        parts.push(format!("{} ok ({})", percent(ratio), count(counts.ok)));
    }
    let mut part = |n: u64, what: &str| {
        if n > 0 {
            parts.push(format!("{} {what}", count(n)));
        }
    };
    part(counts.failed, "failed");
    part(counts.timed_out, "timed out");
    part(counts.unfinished, "unfinished");
    part(counts.dropped.values().sum(), "dropped");
    Some(parts.join(", ")).filter(|text| !text.is_empty())
}

/// The table of distributions: one column a span, one row a percentile, so that it fits a terminal of
/// 80 columns whatever percentiles were asked for.
fn latency(run: &RunV1, out: &mut String) {
    let spans = [
        ("response", &run.response_ns),
        ("failed", &run.response_failed_ns),
        ("service", &run.service_ns),
        ("schedule lag", &run.schedule_lag_ns),
        ("blocked", &run.blocked_ns),
        // Without stamps answers count as having come when they are read.
        if run.has_kernel_stamps() { ("read lag", &run.read_lag_ns) } else { ("poll gap", &run.poll_gap_ns) },
        ("connect", &run.connect_ns),
    ];
    let there: Vec<_> = spans.into_iter().filter_map(|(label, span)| Some((label, span.as_ref()?))).collect();
    if there.is_empty() {
        return;
    }
    let names = &run.plan.percentiles;
    let mut rows = vec![String::new(), "mean".to_owned()];
    rows.extend(names.iter().map(|name| label_of(name)));
    rows.push("max".to_owned());
    let label_width = rows.iter().map(|label| width(label)).max().unwrap_or_default();
    let mut lines: Vec<String> = rows.iter().map(|label| format!("{label:label_width$}")).collect();
    let mut notes = Notes::default();
    for (label, distribution) in there {
        let mut column = vec![label.to_owned()];
        column.extend(cells(distribution, names, &mut notes));
        // A mark must not push its number out of line.
        if column.iter().any(|cell| cell.ends_with(TOO_FEW)) {
            column.iter_mut().filter(|cell| !cell.ends_with(TOO_FEW)).for_each(|cell| cell.push(' '));
        }
        let wanted = column.iter().map(|cell| width(cell)).max().unwrap_or_default();
        for (line, cell) in lines.iter_mut().zip(&column) {
            line.push_str("  ");
            line.extend(std::iter::repeat_n(' ', wanted - width(cell)));
            line.push_str(cell);
        }
    }
    for line in lines {
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if run.response_ns.is_some() {
        out.push_str("response: from due, as a user waits; service: from send (client view)\n");
    }
    if let Some(intervals) = run.response_ns.as_ref().and_then(|response| intervals(response, names)) {
        let _ = writeln!(out, "{intervals}");
    }
    if notes.lower_bounds {
        out.push_str("≥ lower bound: requests without an answer would have taken longer\n");
    }
    if notes.too_few {
        out.push_str("* too few samples: fewer than 5 independent ones lie beyond this percentile\n");
    }
    out.push('\n');
}

/// How far the headline's p50 and p99 can be off, where they were asked for and that is known. Of a lower
/// bound no more is known than that.
fn intervals(response: &Distribution, asked: &[String]) -> Option<String> {
    let intervals = response.intervals.as_ref()?;
    let parts: Vec<String> = ["p50", "p99"]
        .into_iter()
        .filter(|name| asked.iter().any(|asked| asked == name))
        .filter(|name| response.censored.iter().all(|censored| censored != name))
        .filter_map(|name| match intervals.bounds.get(name)? {
            (Some(low), Some(high)) => Some(format!("{name} {} to {}", span(*low), span(*high))),
            (Some(low), None) => Some(format!("{name} {} or more", span(*low))),
            (None, _) => None,
        })
        .collect();
    let level = percent(intervals.level_ratio);
    (!parts.is_empty()).then(|| format!("{level} interval of response: {}", parts.join(", ")))
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
        // Independent values, where it is known how many they are worth.
        let n = distribution.n_eff_by_percentile.get(name).copied().unwrap_or(distribution.count as f64);
        let too_few = quantile_of(name).is_some_and(|q| !has_samples_beyond(n, q));
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
    let rate = |what: &str, rate: Option<f64>| {
        format!("{what} {}", rate.map_or(ABSENT.to_owned(), |rate| format!("{}/s", number(rate))))
    };
    let rates = &run.rates;
    let achieved_interval = rates.achieved_interval_per_s.as_ref().map_or(String::new(), |interval| {
        format!(" ({} to {})", number(interval.low), number(interval.high))
    });
    let in_window =
        run.windows.first().map_or(String::new(), |w| format!(" (in {})", given_span(w.length_ns)));
    out.push_str(&wrapped(
        "rates",
        &[
            rate("intended", rates.intended_per_s),
            rate("offered", rates.offered_per_s),
            rate("achieved", rates.achieved_per_s) + &achieved_interval,
            rate("goodput", rates.goodput_per_s),
            rate("peak sent", rates.peak_sent_per_s) + &in_window,
        ],
    ));
    let counts = &run.counts;
    let mut requests = vec![format!("due {}", count(counts.due)), format!("sent {}", count(counts.sent))];
    let mut part = |n: u64, what: &str| {
        if n > 0 {
            requests.push(format!("{what} {}", count(n)));
        }
    };
    part(counts.sent_in_drain, "of them in the drain");
    part(if counts.attempts == counts.sent { 0 } else { counts.attempts }, "copies sent");
    part(counts.waited_for_connection, "waited for a connection");
    part(run.counts_warmup.due, "in the warm-up");
    out.push_str(&wrapped("requests", &requests));
    let connections = &run.connections;
    let mut parts = Vec::new();
    if let Some(wanted) = connections.wanted {
        parts.push(format!("wanted {}", count(wanted)));
        parts.push(format!("established {}", count(connections.established)));
    }
    parts.push(format!("peak {}", count(connections.peak)));
    parts.push(format!("opened {}", count(connections.opened)));
    out.push_str(&wrapped("connections", &parts));
    let level = |value: Option<f64>| value.map_or(ABSENT.to_owned(), number);
    out.push_str(&wrapped(
        "in flight",
        &[
            format!("mean {}", level(run.in_flight.mean)),
            format!("max {}", level(run.in_flight.max)),
            format!("outstanding (due and not ended) mean {}", level(run.outstanding.mean)),
        ],
    ));
    let transferred =
        [format!("sent {}", bytes(run.bytes.sent)), format!("received {}", bytes(run.bytes.received))];
    out.push_str(&wrapped("bytes", &transferred));
    if run.rows > 0 {
        out.push_str(&wrapped("rows", &[count(run.rows)]));
    }
    let generator = &run.generator;
    out.push_str(&wrapped(
        "generator",
        &[
            format!("cpu {} user", span(generator.cpu_user_ns as f64)),
            format!("{} system", span(generator.cpu_system_ns as f64)),
            format!("memory {}", generator.max_rss_bytes.map_or(ABSENT.to_owned(), bytes)),
            format!("busy {}", generator.busy_ratio.map_or(ABSENT.to_owned(), percent)),
            format!("wait {}", run.plan.wait_strategy),
            format!("receive clock {}", run.plan.receive_clock),
        ],
    ));
}

/// What failed, how often, and the first thing that was said of it. A kind without a number failed no
/// request: a connection opened ahead, say, or one address of several.
fn failures(run: &RunV1, out: &mut String) {
    let mut errors: Vec<(&String, u64)> = run.errors.iter().map(|(name, n)| (name, *n)).collect();
    errors
        .extend(run.error_texts.keys().filter(|name| !run.errors.contains_key(*name)).map(|name| (name, 0)));
    if errors.is_empty() {
        return;
    }
    errors.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let name_width = errors.iter().map(|(name, _)| width(name)).max().unwrap_or_default();
    let shown = |n: u64| if n == 0 { ABSENT.to_owned() } else { count(n) };
    let count_width = errors.iter().map(|(_, n)| width(&shown(*n))).max().unwrap_or_default();
    out.push_str("\nfailures\n");
    for (name, n) in errors.iter().take(FAILURES_SHOWN) {
        let text = run.error_texts.get(*name).map_or(String::new(), |text| format!("  {text}"));
        let _ = writeln!(out, "  {name:name_width$}  {:>count_width$}{text}", shown(*n));
    }
    if errors.len() > FAILURES_SHOWN {
        out.push_str("  and further kinds, which the result file lists\n");
    }
}

/// `label` and `parts`, parted by dots and continued below each other beyond [`LINE`] columns.
pub(crate) fn wrapped(label: &str, parts: &[String]) -> String {
    let indent = if label.is_empty() { 0 } else { LABEL };
    let mut out = String::new();
    let mut line = format!("{label:indent$}");
    let mut at_start = true;
    for part in parts {
        if !at_start && width(&line) + width(part) + 3 > LINE {
            let _ = writeln!(out, "{line}");
            line = " ".repeat(indent);
            at_start = true;
        }
        if !at_start {
            line.push_str(" · ");
        }
        line.push_str(part);
        at_start = false;
    }
    let _ = writeln!(out, "{line}");
    out
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
            Some(ns) if (objective.low, objective.high) == (objective.value, None) => {
                format!(": {LOWER_BOUND}{}", span(ns))
            }
            Some(ns) => format!(": {}", span(ns)),
            None => String::new(),
        };
        let reason = objective.reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
        let _ = writeln!(out, "  {status:12}  {}{value}{reason}", objective.expression);
    }
}

/// What was seen, why it matters, what to try.
pub(crate) fn warnings(warnings: &[Warning], out: &mut String) {
    if warnings.is_empty() {
        return;
    }
    out.push_str("\nwarnings\n");
    for warning in warnings {
        let _ = writeln!(out, "  {}", warning.seen);
        if let Some(harm) = &warning.harm {
            let _ = writeln!(out, "    why it matters: {harm}");
        }
        if let Some(remedy) = &warning.remedy {
            let _ = writeln!(out, "    to try: {remedy}");
        }
    }
}

/// `text`, cut off where it has more than `columns`.
fn shortened(text: &str, columns: usize) -> String {
    match text.char_indices().nth(columns) {
        None => text.to_owned(),
        Some(_) => text.chars().take(columns - 1).chain(['…']).collect(),
    }
}

/// The kinds of requests, where there are several: how each of them fared.
fn operations(run: &RunV1, out: &mut String) {
    if run.operations.is_empty() {
        return;
    }
    let mut rows = vec![["", "due", "ok", "mean", "p50", "p99"].map(str::to_owned)];
    for operation in &run.operations {
        let response = operation.response_ns.as_ref();
        let percentile = |name: &str| {
            response.and_then(|r| r.percentiles.get(name)).map_or(ABSENT.to_owned(), |ns| span(*ns as f64))
        };
        rows.push([
            shortened(&operation.name, OPERATION),
            count(operation.counts.due),
            operation.success_ratio.map_or(ABSENT.to_owned(), percent),
            response.map_or(ABSENT.to_owned(), |response| span(response.mean)),
            percentile("p50"),
            percentile("p99"),
        ]);
    }
    let widths: Vec<usize> =
        (0..6).map(|column| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0)).collect();
    out.push_str("\noperations\n");
    for row in &rows {
        let _ = write!(out, "  {:<1$}", row[0], widths[0]);
        for (cell, width) in row[1..].iter().zip(&widths[1..]) {
            let _ = write!(out, "  {cell:>width$}");
        }
        out.push('\n');
    }
}

/// Columns a text takes: every character used here takes one.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

pub(crate) fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}
