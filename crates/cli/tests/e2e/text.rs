//! Every number of the text report is in the result file.

use plimsoll_report::format;
use plimsoll_target::TargetConfig;
use serde_json::Value;

use crate::common::program::{Measured, run};
use crate::{read, target, url};

/// Every way in which what the result holds may be written for people.
fn written(json: &Value, out: &mut Vec<String>) {
    match json {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            // Keys may be numbers: statuses, percentiles.
            out.push(key.clone());
            written(value, out);
        }),
        Value::Array(list) => list.iter().for_each(|value| written(value, out)),
        Value::String(text) => out.push(text.clone()),
        Value::Number(number) => {
            let value = number.as_f64().expect("a number");
            out.extend([format::span(value), format::number(value), format::percent(value)]);
            if let Some(whole) = number.as_u64() {
                out.extend([format::count(whole), format::given_span(whole), format::bytes(whole)]);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// The numbers of a line, each with what belongs to it: `1,234`, `1.50 ms`, `99.8 %`, `p99`.
fn numbers(line: &str) -> Vec<String> {
    const UNITS: [&str; 9] = ["ns", "µs", "ms", "s", "%", "B", "kB", "MB", "GB"];
    let trimmed = |word: &str| {
        let word = word.trim_matches(|c: char| "()*,;:≥·".contains(c));
        word.strip_suffix("/s").unwrap_or(word).trim_end_matches(',').to_owned()
    };
    let words: Vec<String> = line.split_whitespace().map(trimmed).collect();
    let mut numbers = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let unit = words.get(at + 1).filter(|unit| UNITS.contains(&unit.as_str()));
        numbers.push(unit.map_or_else(|| word.clone(), |unit| format!("{word} {unit}")));
    }
    numbers
}

#[test]
fn out_15_every_number_of_the_text_is_in_the_result_file() {
    let config = TargetConfig {
        service: read("exp:2ms"),
        error: read("10%"),
        body_bytes: 1_000,
        ..TargetConfig::default()
    };
    let server = target(config);
    for load in [
        "-r 300 -z 2s --warmup 200ms --connections 3 --slo p99<1s --timeout 100ms",
        "-c 3 -z 1s --retry 5ms --percentiles 50,99,99.999",
        "-r 500 -n 300 --max-in-flight 1 --seed 7 --workers 1",
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let [text, json] = ["a.txt", "b.json"].map(|name| directory.path().join(name).display().to_string());
        let mut arguments: Vec<&str> = load.split(' ').collect();
        arguments.extend(["--quiet", "-o", &text, "--format", "text", "-o", &json]);
        let url = url(&server);
        let finished = run(&[&[&url[..]], &arguments[..]].concat());
        let json = std::fs::read_to_string(json).expect("it was written");
        let measured = Measured::new(finished, &json);
        let mut known = Vec::new();
        written(&measured.json, &mut known);
        let text = std::fs::read_to_string(text).expect("it was written");
        let mut seen = 0;
        for line in text.lines() {
            // What a mark or a row means is no number of the run.
            if line.contains("fewer than") || line.contains("why it matters") || line.contains("to try") {
                continue;
            }
            for number in numbers(line) {
                seen += 1;
                let found =
                    known.iter().any(|text| *text == number || text.contains(&number) && text.len() > 24);
                assert!(found, "{number} of \"{line}\" is not in the result ({load})");
            }
        }
        assert!(seen > 40, "the report has numbers: {text}");
    }
}
