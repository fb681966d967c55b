//! What a reader should know before using the numbers: what was seen, why it harms them, what to try.

use crate::format::{count, percent, span};
use crate::model::{Model, RunV1, Warning};

/// The name of warnings that only explain.
pub const NOTE: &str = "note";
/// Below it latency is that of the survivors.
const SUCCESS_MIN_RATIO: f64 = 0.99;
/// Below it the load was not the one asked for.
const OFFERED_MIN_RATIO: f64 = 0.99;
/// A schedule lag p99 up to this is fine whatever the response …
const LAG_FREE_NS: u64 = 50_000;
/// … and up to this share of the response's median too.
const LAG_MAX_RATIO: f64 = 0.05;
/// Above it connections are named as the limit.
const WAITED_MAX_RATIO: f64 = 0.01;

/// Kinds of failure that are this machine's doing.
const OWN_FAILURES: [(&str, &str); 3] = [
    ("descriptor_limit", "raise the limit of open files (ulimit -n) or use fewer connections"),
    ("no_local_port", "use fewer or longer-lived connections, or widen net.ipv4.ip_local_port_range"),
    ("local_error", "see the failure's text"),
];

/// All warnings about `run`, gravest first; `notes` are the engine's own.
pub(crate) fn of(run: &RunV1, notes: &[String]) -> Vec<Warning> {
    let counts = &run.counts;
    let mut warnings = Vec::new();
    let mut warn = |name: &str, seen: String, harm: &str, remedy: &str| {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        warnings.push(Warning { name: name.to_owned(), seen, harm: some(harm), remedy: some(remedy) });
    };

    if run.connections.wanted.is_some_and(|wanted| wanted > 0) && run.connections.opened == 0 {
        warn(
            "not_connected",
            format!(
                "none of the {} connections could be opened, so nothing was sent",
                count(run.connections.wanted.unwrap_or(0))
            ),
            "there is nothing to say about the server",
            "see the failures, and try the address by hand, for example with curl",
        );
    } else if counts.due == 0 {
        warn(
            "nothing_due",
            "no request was due".to_owned(),
            "nothing was measured",
            "give a higher rate or a longer duration",
        );
    } else if counts.answered == 0 {
        warn(
            "nothing_answered",
            "no request was answered".to_owned(),
            "there is nothing to say about the server's speed",
            "try the address by hand, for example with curl, and a longer --timeout if it is slow",
        );
    } else if let Some(ratio) = run.success_ratio.filter(|ratio| *ratio < SUCCESS_MIN_RATIO) {
        warn(
            "success",
            format!("only {} of the requests succeeded", percent(ratio)),
            "the latencies of successes are those of the survivors, and failures are often fast",
            "look at the failures first, or lower the load",
        );
    }
    for (name, remedy) in OWN_FAILURES {
        if let Some(n) = run.errors.get(name) {
            warn(
                name,
                format!("{} requests failed on this machine ({name})", count(*n)),
                "these failures say nothing about the server",
                remedy,
            );
        }
    }
    let offered_ratio = match (run.rates.offered_per_s, run.rates.intended_per_s) {
        (Some(offered), Some(intended)) if intended > 0.0 => Some(offered / intended),
        _ => None,
    };
    let offered_ratio = offered_ratio.filter(|ratio| *ratio < OFFERED_MIN_RATIO && counts.answered > 0);
    if let (Model::Open, Some(ratio)) = (run.plan.model, offered_ratio) {
        warn(
            "rate",
            format!("only {} of the intended load was sent in time", percent(ratio)),
            "the load was lower than the one asked for",
            "lower the rate, allow more connections or use more workers; see blocked and schedule lag",
        );
    }
    let lag_p99 = run.schedule_lag_ns.as_ref().and_then(|lag| lag.percentiles.get("p99"));
    let response_p50 = run.response_ns.as_ref().and_then(|response| response.percentiles.get("p50"));
    if let (Model::Open, Some(&lag), Some(&response)) = (run.plan.model, lag_p99, response_p50)
        && lag > LAG_FREE_NS
        && lag as f64 > LAG_MAX_RATIO * response as f64
    {
        warn(
            "schedule_lag",
            format!("1 % of the requests were taken up {} or more after they were due", span(lag as f64)),
            "this lateness is the generator's own and is part of the response",
            "lower the rate, use more workers, leave processors free, or wait with --wait spin",
        );
    }
    let waited = counts.waited_for_connection;
    if counts.due > 0 && waited as f64 > WAITED_MAX_RATIO * counts.due as f64 {
        warn(
            "connections",
            format!(
                "{} of the requests waited at the limit of {} connections",
                percent(waited as f64 / counts.due as f64),
                count(run.plan.connections_max)
            ),
            "the wait is part of the response (blocked), and the limit may be what was measured",
            "raise --connections, unless the limit is what is to be tested",
        );
    }
    let dropped: u64 = counts.dropped.values().sum();
    if dropped > 0 {
        warn(
            "dropped",
            format!("{} requests were dropped and never sent", count(dropped)),
            "the server saw a lower load, and what would have waited longest is in no latency",
            "lower the rate, or loosen --late and --max-in-flight",
        );
    }
    if counts.unfinished > 0 {
        warn(
            "unfinished",
            format!("{} requests had no answer when the run ended", count(counts.unfinished)),
            "their response times are only known to be longer (≥)",
            if run.interrupted {
                "let the run end by itself"
            } else {
                "give a longer --drain, or lower the load"
            },
        );
    }
    if run.bytes.surplus > 0 {
        warn(
            "surplus",
            format!("the server sent {} bytes that belong to no answer", count(run.bytes.surplus)),
            "its connections had to be replaced",
            "check the server's Content-Length",
        );
    }
    for note in notes {
        warn(NOTE, note.clone(), "", "");
    }
    warnings
}
