//! The result file: that it parses, holds to its schema, and has a unit wherever one is needed.

mod common;

use std::path::{Path, PathBuf};

use plimsoll_report::RunV1;
use serde_json::Value;

fn schema_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/plimsoll-run-1.json")
}

/// `UPDATE_SCHEMA=1` writes it anew. Whoever does looks at the difference: nothing may go, change
/// its meaning or become narrower.
#[test]
fn the_published_schema_is_the_one_of_the_types() {
    let mut schema = serde_json::to_string_pretty(&RunV1::schema()).unwrap();
    schema.push('\n');
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::create_dir_all(schema_path().parent().unwrap()).unwrap();
        std::fs::write(schema_path(), &schema).unwrap();
    }
    let published = std::fs::read_to_string(schema_path()).unwrap_or_default();
    assert!(published == schema, "docs/schema differs from the types; UPDATE_SCHEMA=1 writes it anew");
}

#[test]
fn results_hold_to_the_schema_and_load_again() {
    let validator = jsonschema::validator_for(&RunV1::schema()).unwrap();
    for (name, run) in common::all() {
        let text = run.to_json();
        let json: Value = serde_json::from_str(&text).unwrap();
        let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        assert_eq!(RunV1::from_json(&text).unwrap(), run, "{name}");
    }
    let healthy = serde_json::to_value(common::healthy()).unwrap();
    for (key, wrong) in [("format", "other/1".into()), ("elapsed_ns", (-1).into()), ("plan", Value::Null)] {
        let mut broken = healthy.clone();
        broken[key] = wrong;
        assert!(!validator.is_valid(&broken), "{key}");
    }
}

/// Written by the first version of the format. It is never written anew: files like it are out there.
#[test]
fn files_of_the_first_version_keep_loading() {
    let run = RunV1::from_json(include_str!("files/first.json")).unwrap();
    assert_eq!((run.counts.due, run.plan.percentiles.len()), (2, 3));
    assert_eq!(run.response_ns.unwrap().percentiles["p99_999"], 1_000_000);
}

#[test]
fn what_is_not_a_result_is_refused_with_the_format_that_is_read() {
    for text in ["", "{}", "[1]", r#"{"format":"plimsoll-run/2"}"#, r#"{"format":"plimsoll-run/1"}"#] {
        let error = RunV1::from_json(text).unwrap_err();
        assert!(error.to_string().contains("plimsoll-run/1"), "{error}");
    }
}

#[test]
fn out_04_empty_windows_are_there_and_follow_each_other() {
    use plimsoll_core::{Outcome, Span};
    // The server sleeps for 2 s: nothing is due, sent or done in between.
    let window = Span::from_secs(4);
    let plan = common::closed_plan(1, window);
    let mut recorder = common::recorder(&plan, window);
    for due_ms in [0, 3_500] {
        let sample = common::sample(Span::from_ms(due_ms), Span::ZERO, Span::from_ms(5), Outcome::Ok);
        common::record(&mut recorder, sample);
    }
    let run = RunV1::new(&plan, &common::facts(window), &recorder, &common::QUANTILES, &[]);
    let json: Value = serde_json::from_str(&run.to_json()).unwrap();
    let windows = json["windows"].as_array().unwrap();
    assert_eq!(windows.len(), 36);
    for (at, window) in windows.iter().enumerate() {
        assert_eq!(window["start_ns"], at as u64 * 100_000_000);
        assert_eq!(window["length_ns"], 100_000_000);
        let busy = [0, 35].contains(&at);
        assert_eq!((&window["due"], window["response_ns"].is_null()), (&Value::from(u64::from(busy)), !busy));
    }
}

#[test]
fn windows_add_up_to_the_counts() {
    for (name, run) in common::all() {
        let sum = |of: fn(&plimsoll_report::model::Window) -> u64| run.windows.iter().map(of).sum::<u64>();
        let counts = &run.counts;
        assert_eq!(
            [sum(|w| w.due), sum(|w| w.sent), sum(|w| w.ok), sum(|w| w.failed), sum(|w| w.timed_out)],
            [counts.due, counts.sent, counts.ok, counts.failed, counts.timed_out],
            "{name}"
        );
    }
}

#[test]
fn out_12_the_start_has_a_zone() {
    assert_eq!(common::healthy().started_at, "2023-11-14T22:13:20.123Z");
}

/// Every key that names a duration has a unit, in the schema and so in every result: words that mean
/// a length of time end in `_ns`, and numbers without a unit are counts, shares or names known here.
#[test]
fn out_13_every_duration_key_has_a_unit() {
    const DURATIONS: [&str; 21] = [
        "elapsed",
        "duration",
        "warmup",
        "timeout",
        "connect_timeout",
        "drain",
        "after",
        "length",
        "start",
        "response",
        "response_ok",
        "response_failed",
        "service",
        "blocked",
        "schedule_lag",
        "read_lag",
        "poll_gap",
        "first_byte",
        "connect",
        "server",
        "window",
    ];
    /// Inside a distribution, whose own key has the unit.
    const IN_DISTRIBUTIONS: [&str; 6] = ["min", "mean", "stdev", "max", "count", "censored_count"];
    let schema = RunV1::schema();
    let definitions = schema["$defs"].as_object().unwrap();
    let mut keys: Vec<(&str, &String)> =
        schema["properties"].as_object().unwrap().keys().map(|key| ("RunV1", key)).collect();
    for (name, definition) in definitions {
        let properties = definition["properties"].as_object();
        keys.extend(properties.into_iter().flatten().map(|(key, _)| (name.as_str(), key)));
    }
    let mut with_unit = 0;
    for (owner, key) in keys {
        assert!(!DURATIONS.contains(&key.as_str()), "{owner}.{key} has no unit");
        with_unit += usize::from(key.ends_with("_ns"));
        let percentile = plimsoll_report::format::quantile_of(key).is_some();
        if percentile || key == "stdev" {
            assert!(["Distribution", "WindowResponse", "WindowLag"].contains(&owner), "{owner}.{key}");
        }
        if owner == "Distribution" {
            let named =
                ["censored", "intervals", "n_eff", "n_eff_by_percentile", "hdr"].contains(&key.as_str());
            assert!(named || IN_DISTRIBUTIONS.contains(&key.as_str()), "{owner}.{key}");
        }
    }
    assert!(with_unit > 15);
    // Distributions stand under keys with a unit only.
    for (key, value) in serde_json::to_value(common::overloaded()).unwrap().as_object().unwrap() {
        assert!(value.get("hdr").is_none() || key.ends_with("_ns"), "{key}");
    }
}

#[test]
fn a_percentile_at_or_above_the_least_censored_value_is_a_lower_bound() {
    let response = common::overloaded().response_ns.unwrap();
    // 7,000 ok, 500 timed out after 5 s, 500 unfinished after 5 s or more: 12.5 % are censored.
    assert_eq!((response.count, response.censored_count), (8_000, 1_000));
    assert_eq!(response.censored, ["mean", "p90", "p95", "p99", "p99_9", "p99_99", "max"]);
}

#[test]
fn every_check_is_listed_and_what_is_outside_its_bound_is_warned_about() {
    use plimsoll_report::model::{CheckStatus, Verdict};
    let run = common::overloaded();
    let trust = run.trust.as_ref().unwrap();
    assert_eq!((trust.verdict, trust.limited_by.as_str()), (Verdict::Invalid, "generator"));
    let named = |name: &str| trust.checks.iter().find(|check| check.name == name).unwrap();
    for (check, warning) in [
        ("rate met", "rate"),
        ("generator sends in time", "schedule_lag"),
        ("connections", "connections"),
        ("success", "success"),
    ] {
        assert!(matches!(named(check).status, CheckStatus::Fail | CheckStatus::Warn), "{check}");
        assert!(run.warnings.iter().any(|w| w.name == warning), "{warning}");
    }
    for (name, run) in common::all() {
        let Some(trust) = run.trust else {
            assert_eq!(run.counts.due, 0, "{name}: what was due is judged");
            continue;
        };
        assert_eq!(trust.checks.len(), 13, "{name}");
        for check in &trust.checks {
            assert!(!check.text.is_empty(), "{name}: {}", check.name);
            assert_eq!(check.status == CheckStatus::NotMade, check.value.is_none(), "{name}: {}", check.name);
        }
        let failed = trust.checks.iter().any(|check| check.status == CheckStatus::Fail);
        assert!(failed || trust.verdict == Verdict::Valid, "{name}: a verdict rests on its checks");
    }
}

#[test]
fn intervals_hold_their_values_and_say_how_they_were_made() {
    let run = common::healthy();
    let rate = run.rates.achieved_interval_per_s.unwrap();
    let achieved = run.rates.achieved_per_s.unwrap();
    assert!(rate.low <= achieved && achieved <= rate.high);
    assert_eq!((rate.level_ratio, rate.method.as_str()), (0.95, "batch means"));
    let response = run.response_ns.unwrap();
    let intervals = response.intervals.unwrap();
    assert!(intervals.bounds.len() >= 6 && intervals.method.contains("order statistics"));
    for (name, (low, high)) in &intervals.bounds {
        let value = response.percentiles.get(name).map_or(response.mean, |ns| *ns as f64);
        assert!(low.is_none_or(|low| low <= value) && high.is_none_or(|high| value <= high), "{name}");
    }
    // A ten-thousandth of 10,000: nothing lies above it, so its high end is open.
    assert_eq!(intervals.bounds["p99_99"].1, None);
    for n_eff in response.n_eff_by_percentile.values().chain(&response.n_eff) {
        assert!((1.0..=10_000.0).contains(n_eff), "{n_eff}");
    }
}
