//! The summary, as it looks, and that it shows nothing that is not in the result.

mod common;

use std::path::Path;

use plimsoll_report::{RunV1, format, text};

/// Compares with `tests/golden/NAME.txt`; `UPDATE_GOLDEN=1` writes it anew.
fn check(name: &str, run: &RunV1) {
    let actual =
        text::render(run).replace(&format!("plimsoll {}", env!("CARGO_PKG_VERSION")), "plimsoll VERSION");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{} differs; UPDATE_GOLDEN=1 accepts it", path.display());
}

#[test]
fn summaries_look_as_agreed() {
    for (name, run) in common::all() {
        check(name, &run);
    }
}

#[test]
fn a_healthy_run_takes_few_lines() {
    assert!(text::render(&common::healthy()).lines().count() <= 35);
}

#[test]
fn the_first_lines_tell_the_load_in_every_form() {
    use plimsoll_report::model::{Model, Retry, Stage};
    let first_lines = |run: &RunV1| {
        text::render(run).lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" · ")
    };
    let mut run = common::healthy();
    run.plan.rate_per_s = None;
    run.plan.stages = Some(vec![
        Stage { from_per_s: 100.0, to_per_s: 100.0, length_ns: Some(30_000_000_000) },
        Stage { from_per_s: 100.0, to_per_s: 2_500.0, length_ns: Some(1_500_000_000) },
    ]);
    let lines = first_lines(&run);
    assert!(lines.contains("open loop, 100/s for 30 s, 100 to 2,500/s for 1.5 s even · timeout"), "{lines}");

    run.plan.model = Model::Closed;
    (run.plan.clients, run.plan.requests, run.plan.duration_ns) = (Some(1), Some(20_000), None);
    (run.plan.timeout_ns, run.plan.workers) = (None, 2);
    run.plan.retry = Some(Retry { after_ns: 100_000_000, copies: 3 });
    let lines = first_lines(&run);
    let end = "closed loop, 1 client, 20,000 requests · no timeout · copies up to 3 after 100 ms · seed 1 · 2 workers";
    assert!(lines.ends_with(end), "{lines}");
}

#[test]
fn out_02_a_refused_connection_is_no_rate_and_no_latency() {
    let run = common::refused();
    assert_eq!((run.rates.achieved_per_s, run.rates.goodput_per_s), (Some(0.0), Some(0.0)));
    assert_eq!((&run.response_ns, &run.service_ns), (&None, &None));
    let text = text::render(&run);
    assert!(text.contains("0 of 100 requests answered in 2.00 s"), "{text}");
    assert!(text.contains("connection refused (os error 111)"), "{text}");
    for word in ["NaN", "nan", "inf"] {
        assert!(!text.contains(word), "{text}");
    }
}

#[test]
fn out_10_a_server_that_never_answers_gets_a_full_report() {
    let text = text::render(&common::silent());
    for part in ["24 timed out", "sent 24", "in 3.00 s", "sent 1.37 kB", "≥ 500 ms"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn without_kernel_stamps_the_poll_gap_takes_the_place_of_read_lag() {
    let run = common::without_stamps();
    let gap = run.poll_gap_ns.as_ref().expect("turns");
    assert!((500_000..501_000).contains(&gap.percentiles["p99"]), "{gap:?}");
    let check = run
        .trust
        .as_ref()
        .and_then(|trust| trust.checks.iter().find(|c| c.name == "generator reads in time"));
    let check = check.expect("every check is listed");
    assert_eq!(check.status, plimsoll_report::model::CheckStatus::Fail);
    assert!(check.text.starts_with("poll gap p99 500 µs, at most"), "{}", check.text);
    assert_eq!(run.warnings.iter().map(|warning| warning.name.as_str()).collect::<Vec<_>>(), ["poll_gap"]);
    let text = text::render(&run);
    assert!(text.contains("poll gap") && !text.contains("read lag"), "{text}");
    assert_eq!(common::healthy().poll_gap_ns, None);
}

#[test]
fn out_11_runs_without_a_whole_window_and_without_time_have_no_odd_numbers() {
    let short = common::short();
    assert_eq!((short.rates.achieved_per_s, short.rates.peak_sent_per_s), (Some(40.0), Some(40.0)));
    let empty = common::empty();
    assert_eq!((empty.rates.achieved_per_s, empty.success_ratio), (None, None));
    assert!(!text::render(&empty).contains("NaN"));
}

#[test]
fn pct_07_percentiles_asked_for_are_rows_of_the_text_and_names_of_the_result() {
    let run = common::short();
    let rendered = text::render(&run);
    let labels: Vec<&str> = rendered.lines().filter_map(|line| line.split("  ").next()).collect();
    let asked = ["mean", "p50", "p99", "p99.999", "max"];
    assert!(labels.windows(asked.len()).any(|labels| labels == asked), "{rendered}");
    assert!(run.response_ns.unwrap().percentiles.contains_key("p99_999"));
    assert_eq!(run.plan.percentiles, ["p50", "p99", "p99_999"]);
}

/// Every number of the text stands in the result: some number there, shown as a count, a span, a
/// rate, a share or bytes, reads like it; or it is part of a text that stands there.
#[test]
fn out_15_every_number_of_the_text_is_in_the_json() {
    for (name, run) in common::all() {
        let json: serde_json::Value = serde_json::from_str(&run.to_json()).unwrap();
        let mut known = Known::default();
        known.collect(&json);
        let text = text::render(&run);
        let mut numbers = 0;
        for line in text.lines() {
            let mut line = line.to_owned();
            for text in &known.texts {
                line = line.replace(text.as_str(), " ");
            }
            if line.starts_with("* too few") || line.contains("why it matters") {
                continue;
            }
            for shown in numbers_of(&line) {
                numbers += 1;
                assert!(known.shown.contains(&shown), "{name}: '{shown}' is not in the result: {line}");
            }
        }
        assert!(numbers > 10, "{name}: the text has numbers");
        assert!(
            !known.shown.contains("98,765.4") && !known.shown.contains("98.7 ms"),
            "not everything passes"
        );
    }
}

#[derive(Default)]
struct Known {
    shown: std::collections::BTreeSet<String>,
    texts: Vec<String>,
}

impl Known {
    fn collect(&mut self, json: &serde_json::Value) {
        match json {
            serde_json::Value::Number(number) => {
                let value = number.as_f64().unwrap();
                let forms = [
                    format::span(value),
                    format::given_span(value as u64),
                    format::number(value),
                    format::count(value as u64),
                    format::percent(value),
                    format::bytes(value as u64),
                ];
                self.shown.extend(forms);
            }
            serde_json::Value::String(text) => {
                // Numbers by name (statuses) are numbers; other texts with digits are shown as they are.
                if text.bytes().all(|b| b.is_ascii_digit()) {
                    self.shown.insert(text.clone());
                } else if text.contains(|c: char| c.is_ascii_digit()) {
                    self.texts.extend([text.clone(), text.replace('_', ".")]);
                }
                self.texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
            }
            serde_json::Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            serde_json::Value::Object(fields) => {
                // Names of percentiles and of failures are keys.
                for (key, value) in fields {
                    if key != "hdr" {
                        self.collect(&serde_json::Value::String(key.clone()));
                        self.collect(value);
                    }
                }
            }
            serde_json::Value::Bool(_) | serde_json::Value::Null => {}
        }
    }
}

/// The numbers of a line, each with its unit where it has one.
fn numbers_of(line: &str) -> Vec<String> {
    const UNITS: [&str; 9] = ["ns", "µs", "ms", "s", "%", "B", "kB", "MB", "GB"];
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut numbers = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let word = word.trim_matches(|c: char| "(),;:*".contains(c)).trim_end_matches("/s");
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let unit = words.get(at + 1).map(|unit| unit.trim_matches(|c: char| "(),;:*".contains(c)));
            numbers.push(match unit.filter(|unit| UNITS.contains(unit)) {
                Some(unit) => format!("{word} {unit}"),
                None => word.to_owned(),
            });
        }
    }
    numbers
}
