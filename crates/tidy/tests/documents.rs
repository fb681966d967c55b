//! What the documents must cover, and that what they name is there.

use std::collections::BTreeSet;

use plimsoll_tidy::{Breaches, File, file, files, root};

/// Labels of lines whose parts, between the middle dots, are printed terms of their own.
const LINES_OF_TERMS: [&str; 6] = ["rates", "requests", "connections", "in flight", "bytes", "generator"];

fn documents() -> Vec<File> {
    let mut all = files(&["docs"], &[".md"]);
    all.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(file));
    all
}

#[test]
fn the_code_map_shows_every_file_and_no_other() {
    let mut breaches = Breaches::of(
        "the code map of ARCHITECTURE.md has a row for every source file of a crate",
        "add the row, `src/…` under the crate's heading with a sentence on what the file is for, or take it out",
    );
    let map = file("ARCHITECTURE.md");
    let mut mapped = BTreeSet::new();
    let mut of_crate = "";
    for (number, line) in (1..).zip(map.text.lines()) {
        if let Some(heading) = line.strip_prefix("### ") {
            of_crate = heading;
        }
        let Some((path, sentence)) = line.strip_prefix("| `src/").and_then(|row| row.split_once("` | "))
        else {
            continue;
        };
        if sentence.trim_end_matches([' ', '|']).is_empty() {
            breaches.add(&map.path, number, "says nothing of the file");
        }
        mapped.insert(format!("crates/{of_crate}/src/{path}"));
    }
    let sources = files(&["crates"], &[".rs"]);
    let there: BTreeSet<String> = sources.iter().filter(|s| s.is_product()).map(|s| s.path.clone()).collect();
    for path in there.difference(&mapped) {
        breaches.add(path, 0, "is not on the map");
    }
    for path in mapped.difference(&there) {
        breaches.add(path, 0, "is on the map and not there");
    }
    breaches.assert_none();
}

#[test]
fn every_invariant_names_tests_that_are_there() {
    let mut breaches = Breaches::of(
        "each invariant of ARCHITECTURE.md names the tests that hold it",
        "name them as they are called now, in backquotes",
    );
    let document = file("ARCHITECTURE.md");
    let (_, section) = document.text.split_once("\n## Invariants\n").expect("there is a section Invariants");
    let section = section.split("\n## ").next().unwrap_or_default();
    let sources = files(&["crates"], &[".rs"]);
    let is_there = |name: &str| sources.iter().any(|source| source.text.contains(&format!("fn {name}(")));
    // The tests named under each numbered line.
    let mut named: Vec<(&str, usize)> = Vec::new();
    for line in section.lines() {
        if line.split_once(". *").is_some_and(|(number, _)| number.parse::<u32>().is_ok()) {
            named.push((line, 0));
        }
        // Names of tests are long; names of fields and types in the same text are not.
        for name in line.split('`').skip(1).step_by(2).filter(|name| name.matches('_').count() >= 3) {
            if let Some((_, count)) = named.last_mut() {
                *count += 1;
            }
            if !is_there(name) {
                breaches.add(&document.path, 0, &format!("names {name}, and no test is called so"));
            }
        }
    }
    for (invariant, _) in named.iter().filter(|(_, count)| *count == 0) {
        breaches.add(&document.path, 0, &format!("'{invariant}' names no test"));
    }
    assert!(named.len() >= 9, "the invariants were not found in ARCHITECTURE.md");
    breaches.assert_none();
}

/// The first cells of the glossary's tables: every word that has an entry.
fn entries(glossary: &File) -> Vec<&str> {
    let rows = glossary.text.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split_once(" |")).flat_map(|(words, _)| words.split(", ")).collect()
}

/// A term as a report prints it.
enum Term<'a> {
    /// A label or a table's head.
    Alone(&'a str),
    /// Followed by its value.
    WithValue(&'a str),
}

/// The terms of a text report with the numbers of their lines: the heads of its table, the labels in
/// front of its lines, and what stands before each number in those lines that hold several.
fn printed_terms(report: &str) -> Vec<(usize, Term<'_>)> {
    let lines: Vec<&str> = report.lines().collect();
    let mut terms = Vec::new();
    let mut line_label = "";
    for (at, line) in lines.iter().enumerate() {
        let number = at + 1;
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if lines.get(number).is_some_and(|next| next.starts_with("mean ")) {
            let heads = text.split("  ").map(str::trim).filter(|head| !head.is_empty());
            terms.extend(heads.map(|head| (number, Term::Alone(head))));
            continue;
        }
        // A label is followed by at least two blanks, or stands alone at the head of a section; what
        // is set in by more than two goes on with the line before.
        let mut rest = text;
        if indent <= 2 {
            line_label = text.split("  ").next().unwrap_or_default();
            let is_word =
                !line_label.is_empty() && line_label.chars().all(|c| c.is_ascii_lowercase() || c == ' ');
            if !is_word || (line_label == text && indent > 0) {
                line_label = "";
                continue;
            }
            terms.push((number, Term::Alone(line_label)));
            rest = text[line_label.len()..].trim_start();
        }
        if LINES_OF_TERMS.contains(&line_label) {
            let parts = rest.split(" · ").filter(|part| part.starts_with(|c: char| c.is_ascii_lowercase()));
            terms.extend(parts.map(|part| (number, Term::WithValue(part))));
        }
    }
    terms
}

#[test]
fn doc_01_every_term_a_report_prints_is_in_the_glossary() {
    let mut breaches = Breaches::of(
        "every term that a text report prints has its row in docs/glossary.md",
        "add the row, with the term as it is printed",
    );
    let glossary = file("docs/glossary.md");
    let entries = entries(&glossary);
    let reports = files(&["crates/report/tests/golden"], &[".txt"]);
    assert!(!reports.is_empty(), "the reports that tests hold were not found");
    let mut terms = 0;
    for report in &reports {
        for (number, term) in printed_terms(&report.text) {
            terms += 1;
            // A term that is printed with its value has that behind it.
            let known = match term {
                Term::Alone(term) => entries.contains(&term),
                Term::WithValue(text) => entries
                    .iter()
                    .any(|entry| text.strip_prefix(entry).is_some_and(|value| value.starts_with(' '))),
            };
            let (Term::Alone(term) | Term::WithValue(term)) = term;
            if !known {
                breaches.add(&report.path, number, &format!("'{term}' has no entry"));
            }
        }
    }
    assert!(terms > 50, "only {terms} terms were found in the reports");
    breaches.assert_none();
}

#[test]
fn doc_03_what_readers_stumble_over_is_explained() {
    let mut breaches = Breaches::of(
        "the documents explain what reports of right numbers are most often taken for faults",
        "write the entry again, under these words",
    );
    let all: String = documents().into_iter().map(|document| document.text).collect();
    for words in ["mean above", "Response far above service", "Dropped, failed, unfinished"] {
        if !all.to_lowercase().contains(&words.to_lowercase()) {
            breaches.add("docs", 0, &format!("nothing on '{words}'"));
        }
    }
    breaches.assert_none();
}

/// The long flags that `source`, a table of clap's derive, defines.
fn flags(source: &File) -> Vec<String> {
    let mut flags = Vec::new();
    let mut attribute: Option<String> = None;
    for line in source.text.lines().map(str::trim) {
        if line.starts_with("#[arg(") {
            attribute = Some(line.to_owned());
        } else if let Some((name, _)) = line.trim_start_matches("pub(crate) ").split_once(": ") {
            let Some(attribute) = attribute.take() else { continue };
            let inside = attribute.trim_start_matches("#[arg(").trim_end_matches(")]");
            for part in inside.split(", ") {
                match part.split_once(" = ") {
                    None if part == "long" => flags.push(name.replace('_', "-")),
                    Some(("long", given)) => flags.push(given.trim_matches('"').to_owned()),
                    _ => {}
                }
            }
        }
    }
    // What is built by hand.
    for line in source.text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix(".long(\"").and_then(|rest| rest.strip_suffix("\")")) {
            flags.push(name.to_owned());
        }
    }
    flags
}

#[test]
fn every_flag_is_in_the_manual() {
    let mut breaches = Breaches::of(
        "docs/cli.md has every flag of the command line",
        "add it to the table of its command, with its default",
    );
    let manual = file("docs/cli.md");
    let mut found = 0;
    for source in files(&["crates/cli/src"], &[".rs"]) {
        for flag in flags(&source) {
            found += 1;
            let named =
                [' ', '`', ',', '\n'].iter().any(|end| manual.text.contains(&format!("--{flag}{end}")));
            if !named {
                breaches.add(&source.path, 0, &format!("--{flag} is not in docs/cli.md"));
            }
        }
    }
    assert!(found >= 40, "only {found} flags were found in the command line's sources");
    breaches.assert_none();
}

#[test]
fn links_lead_somewhere() {
    let mut breaches = Breaches::of(
        "a link to a file of the project leads to a file that is there",
        "mend the path; it counts from the document's own directory",
    );
    for document in documents() {
        let directory = root().join(&document.path).parent().expect("a file lies in a directory").to_owned();
        for (number, line) in (1..).zip(document.text.lines()) {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let path = link.split('#').next().unwrap_or_default();
                if !path.is_empty() && !path.contains("://") && !directory.join(path).exists() {
                    breaches.add(&document.path, number, link);
                }
            }
        }
    }
    breaches.assert_none();
}
