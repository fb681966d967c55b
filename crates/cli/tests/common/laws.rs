//! What holds of every result, whatever was measured: it is of its schema, no number in it is
//! negative, the one account closes, and spans add up.

use plimsoll_report::RunV1;
use plimsoll_report::model::{Counts, Distribution, Window};
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../../docs/schema/plimsoll-run-1.json");

/// Panics with the law that `run`, written as `json`, breaks.
pub(crate) fn assert_all(run: &RunV1, json: &Value) {
    schema(json);
    out_13_units(json, "");
    no_negative_number(json, "");
    for counts in [&run.counts, &run.counts_warmup] {
        account(counts);
    }
    // Of the protocols only HTTP has statuses.
    if run.plan.operations.iter().all(|operation| operation.protocol == "http/1.1") {
        let answers: u64 = run.statuses.values().sum();
        assert_eq!(answers, run.counts.answered, "statuses {:?}", run.statuses);
    }
    let errors: u64 = run.errors.values().sum();
    assert_eq!(errors, run.counts.failed, "errors {:?}", run.errors);
    windows(run);
    spans(run);
}

fn schema(json: &Value) {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the checked-in schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the checked-in schema is one");
    let errors: Vec<String> = validator.iter_errors(json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

/// Every key that names a length of time has its unit.
fn out_13_units(json: &Value, path: &str) {
    const DURATIONS: [&str; 14] = [
        "elapsed",
        "duration",
        "warmup",
        "timeout",
        "drain",
        "response",
        "service",
        "blocked",
        "lag",
        "first_byte",
        "connect",
        "window",
        "start",
        "length",
    ];
    walk(json, path, &mut |path, value| {
        let key = path.rsplit('.').next().unwrap_or(path);
        let bare = value.is_number() && DURATIONS.contains(&key);
        assert!(!bare, "{path} is a length of time without a unit");
    });
}

fn no_negative_number(json: &Value, path: &str) {
    walk(json, path, &mut |path, value| {
        let negative = value.as_f64().is_some_and(|number| number < 0.0);
        assert!(!negative, "{path} is {value}");
    });
}

fn walk(json: &Value, path: &str, see: &mut impl FnMut(&str, &Value)) {
    see(path, json);
    match json {
        Value::Object(map) => map.iter().for_each(|(key, value)| walk(value, &format!("{path}.{key}"), see)),
        Value::Array(list) => list.iter().for_each(|value| walk(value, path, see)),
        _ => {}
    }
}

fn account(counts: &Counts) {
    let dropped: u64 = counts.dropped.values().sum();
    let ends = counts.ok + counts.failed + counts.timed_out + counts.unfinished + dropped;
    assert_eq!(counts.due, ends, "{counts:?}");
    let sent = counts.due - dropped - counts.failed_unsent - counts.unfinished_unsent;
    assert_eq!(counts.sent, sent, "{counts:?}");
    assert!(counts.attempts >= counts.sent, "{counts:?}");
}

/// Windows follow each other without a gap, and their sums are the totals.
fn windows(run: &RunV1) {
    let mut start_ns = 0;
    for window in &run.windows {
        assert_eq!(window.start_ns, start_ns);
        start_ns += window.length_ns;
    }
    let sum = |of: fn(&Window) -> u64| run.windows.iter().map(of).sum::<u64>();
    let counts = &run.counts;
    assert_eq!(
        [sum(|w| w.due), sum(|w| w.sent), sum(|w| w.ok), sum(|w| w.failed), sum(|w| w.timed_out)],
        [counts.due, counts.sent, counts.ok, counts.failed, counts.timed_out]
    );
}

/// response = schedule lag + blocked + service, where all three are of the same requests.
fn spans(run: &RunV1) {
    let all = [&run.response_ns, &run.schedule_lag_ns, &run.blocked_ns, &run.service_ns];
    let [Some(response), Some(lag), Some(blocked), Some(service)] = all.map(Option::as_ref) else { return };
    for distribution in [response, lag, blocked, service] {
        ordered(distribution);
    }
    assert!(response.max >= service.max && response.min >= service.min);
    if [lag, blocked, service].iter().all(|other| other.count == response.count) {
        let sum = lag.mean + blocked.mean + service.mean;
        // The means are exact but for the last digits of their sums.
        assert!((response.mean - sum).abs() <= 1.0 + response.mean * 1e-9, "{} and {sum}", response.mean);
    }
}

/// min ≤ every percentile ≤ max, and percentiles do not cross.
fn ordered(distribution: &Distribution) {
    let mut named: Vec<(f64, u64)> = distribution
        .percentiles
        .iter()
        .map(|(name, ns)| (name[1..].replace('_', ".").parse().expect("p and a number"), *ns))
        .collect();
    named.sort_by(|a, b| a.0.total_cmp(&b.0));
    let values = named.iter().map(|(_, ns)| *ns).chain([distribution.max]);
    assert!([distribution.min].into_iter().chain(values).is_sorted(), "{named:?}");
}
