//! What a reader should know before using the numbers: what was seen, why it harms them, what to try.

use plimsoll_stats::Trust;
use plimsoll_stats::trust::{CheckStatus, Subject};

use crate::format::{count, percent, span};
use crate::model::{Model, RunV1, Warning};

/// The name of warnings that only explain.
const NOTE: &str = "note";

/// Kinds of failure that are this machine's doing.
pub(crate) const OWN_FAILURES: [(&str, &str); 3] = [
    ("descriptor_limit", "raise the limit of open files (ulimit -n) or use fewer connections"),
    ("no_local_port", "use fewer or longer-lived connections, or widen net.ipv4.ip_local_port_range"),
    ("local_error", "see the failure's text"),
];

/// All warnings about `run`, gravest first: what its checks found, `judged`, and what is counted;
/// `notes` are the engine's own.
pub(crate) fn of(run: &RunV1, judged: Option<&Trust>, notes: &[String]) -> Vec<Warning> {
    let counts = &run.counts;
    let is_database = run.plan.operations.iter().any(|operation| operation.protocol == "postgres");
    let by_hand = if is_database { "psql" } else { "curl" };
    // What a check measured, where that is outside its bound.
    let outside = |subject: Subject| {
        let check = judged?.check(subject);
        check.value.filter(|_| matches!(check.status, CheckStatus::Warn | CheckStatus::Fail))
    };
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
            &format!("see the failures, and try the address by hand, for example with {by_hand}"),
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
            &format!(
                "try the address by hand, for example with {by_hand}, and a longer --timeout if it is slow"
            ),
        );
    } else if let Some(ratio) = outside(Subject::Success) {
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
    if let Some(ratio) = outside(Subject::RateMet).filter(|_| counts.answered > 0) {
        warn(
            "rate",
            format!("only {} of the intended load was sent in time", percent(ratio)),
            "the load was lower than the one asked for",
            "lower the rate, allow more connections or use more workers; see blocked and schedule lag",
        );
    }
    if let Some(busy) = outside(Subject::GeneratorCpu) {
        warn(
            "generator_cpu",
            format!("the busiest worker was at work {} of its time", percent(busy)),
            "the generator was the limit, so these are its numbers and not the server's",
            "use more workers on a machine with more processors, or lower the load",
        );
    }
    if let Some(lag) = outside(Subject::SendsInTime).filter(|_| run.response_ns.is_some()) {
        warn(
            "schedule_lag",
            format!("1 % of the requests were taken up {} or more after they were due", span(lag)),
            "this lateness is the generator's own and is part of the response",
            "lower the rate, use more workers, leave processors free, or wait with --wait spin",
        );
    }
    if let Some(gap) = outside(Subject::ReadsInTime).filter(|_| !run.has_kernel_stamps()) {
        warn(
            "poll_gap",
            format!("in 1 % of its turns a worker did not look at its sockets for {} or more", span(gap)),
            "an answer that came meanwhile has this lateness of the generator in its response",
            "use more workers, leave processors free, or connect by TCP, where the kernel stamps answers",
        );
    } else if let Some(lag) = outside(Subject::ReadsInTime) {
        warn(
            "read_lag",
            format!("1 % of the answers lay unread for {} or more", span(lag)),
            if run.plan.model == Model::Open {
                "response is stamped before that and does not hold it, but this machine was late"
            } else {
                "the client's next request left so much later, so the rate may be the generator's"
            },
            "use more workers, or leave processors free",
        );
    }
    if let Some(ratio) = outside(Subject::Connections) {
        warn(
            "connections",
            format!(
                "{} of the requests waited at the limit of {} connection{}",
                percent(ratio),
                count(run.plan.connections_max),
                if run.plan.connections_max == 1 { "" } else { "s" }
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
