//! What sources may say, and how files look.

use plimsoll_tidy::{Breaches, File, file, files, has_word, without_comments_and_text};

/// Crates that never touch the world.
const PURE: [&str; 4] = ["core", "stats", "proto", "sim"];

/// Names that mean a real clock, a socket, a file, a thread, the environment or randomness without
/// a seed.
const IMPURE: [&str; 25] = [
    "Instant",
    "SystemTime::now",
    "UNIX_EPOCH.elapsed",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "std::fs",
    "File::open",
    "File::create",
    "std::thread",
    "thread::spawn",
    "thread::sleep",
    "std::env",
    "std::process",
    "stdin",
    "stdout",
    "stderr",
    "getrandom",
    "from_entropy",
    "from_os_rng",
    "OsRng",
    "thread_rng",
];

/// Lines a source file may have.
const MOST_LINES: usize = 700;

/// Files that may have more lines, how many, and why.
const LONG_FILES: [(&str, usize, &str); 0] = [];

fn sources() -> Vec<File> {
    files(&["crates", "fuzz"], &[".rs"])
}

/// Every text a person writes.
fn texts() -> Vec<File> {
    let mut all =
        files(&["crates", "fuzz", "scripts", ".ci"], &[".rs", ".toml", ".sh", ".dict", "test", "run"]);
    all.extend(files(&["docs"], &[".md"]));
    let top = [
        "Cargo.toml",
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "rustfmt.toml",
        ".gitignore",
    ];
    all.extend(top.map(file));
    all
}

#[test]
fn pure_crates_do_not_name_what_touches_the_world() {
    let mut breaches = Breaches::of(
        "core, stats, proto and sim read no clock, open no socket or file, start no thread, draw no unseeded \
         randomness",
        "let the caller do it and pass the result in; time comes as an argument called now",
    );
    for source in sources() {
        if !source.is_product() || !source.of_crate().is_some_and(|name| PURE.contains(&name)) {
            continue;
        }
        for (number, line) in (1..).zip(source.product_code().lines()) {
            for name in IMPURE.iter().filter(|name| has_word(line, name)) {
                breaches.add(&source.path, number, name);
            }
        }
    }
    breaches.assert_none();
}

#[test]
fn only_the_engine_has_unsafe_code() {
    let mut breaches = Breaches::of(
        "unsafe code stands in crates/engine only",
        "find a safe way, or move what needs it into the engine with a SAFETY note",
    );
    for source in sources().iter().filter(|source| source.of_crate() != Some("engine")) {
        for (number, line) in (1..).zip(without_comments_and_text(&source.text).lines()) {
            if has_word(line, "unsafe") {
                breaches.add(&source.path, number, line.trim());
            }
        }
    }
    breaches.assert_none();
}

#[test]
fn no_core_type_is_a_wire_type() {
    let mut breaches = Breaches::of(
        "no type of core derives or implements Serialize or Deserialize",
        "make a versioned type in the crate that publishes it (report, scenario) and convert",
    );
    for source in sources().iter().filter(|source| source.of_crate() == Some("core")) {
        for (number, line) in (1..).zip(without_comments_and_text(&source.text).lines()) {
            for name in ["Serialize", "Deserialize", "serde"] {
                if has_word(line, name) {
                    breaches.add(&source.path, number, name);
                }
            }
        }
    }
    breaches.assert_none();
}

#[test]
fn every_source_file_opens_with_its_purpose() {
    let mut breaches = Breaches::of(
        "a source file opens with //! and a sentence that says what it is for",
        "write what it is for, where it stands in the flow of data, and what it does not do",
    );
    for source in sources() {
        let first = source.text.lines().next().unwrap_or_default();
        if first.strip_prefix("//! ").is_none_or(|purpose| purpose.trim().len() < 15) {
            breaches.add(&source.path, 1, &format!("opens with '{first}'"));
        }
    }
    breaches.assert_none();
}

#[test]
fn source_files_stay_short() {
    let mut breaches = Breaches::of(
        &format!("a source file of a crate has at most {MOST_LINES} lines: one idea a file"),
        "split it where the idea changes; an exception needs a reason in LONG_FILES, and one that is no longer \
         needed is taken out of it",
    );
    let mut products = sources();
    products.retain(File::is_product);
    for source in &products {
        let exception = LONG_FILES.iter().find(|(path, _, _)| *path == source.path);
        let most = exception.map_or(MOST_LINES, |(_, lines, _)| *lines);
        let lines = source.text.lines().count();
        if lines > most {
            breaches.add(&source.path, 0, &format!("has {lines} lines, {most} are allowed"));
        }
    }
    for (path, _, reason) in LONG_FILES {
        let needed = products.iter().any(|s| s.path == path && s.text.lines().count() > MOST_LINES);
        if !needed || reason.is_empty() {
            breaches.add(path, 0, "stands in LONG_FILES without need or reason");
        }
    }
    breaches.assert_none();
}

#[test]
fn nothing_is_left_over() {
    let mut breaches = Breaches::of(
        "no note to self and no debugging aid stays in the tree",
        "do it, or write an issue; take the aid out",
    );
    // Put together here, so that this file does not name them itself.
    let words = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["HA", "CK"]].map(|parts| parts.concat());
    for text in texts() {
        for (number, line) in (1..).zip(text.text.lines()) {
            for word in words.iter().filter(|word| has_word(line, word)) {
                breaches.add(&text.path, number, word);
            }
        }
    }
    for source in sources() {
        for (number, line) in (1..).zip(without_comments_and_text(&source.text).lines()) {
            for call in ["todo!", "unimplemented!", "dbg!"].into_iter().filter(|call| has_word(line, call)) {
                breaches.add(&source.path, number, call);
            }
        }
    }
    breaches.assert_none();
}

#[test]
fn no_test_is_switched_off() {
    let mut breaches = Breaches::of(
        "every test that is there runs: #[ignore] is not used",
        "mend the test or take it out; what takes long goes behind the feature `long` of plimsoll-sim",
    );
    for source in sources() {
        for (number, line) in (1..).zip(without_comments_and_text(&source.text).lines()) {
            if line.contains("#[ignore") {
                breaches.add(&source.path, number, line.trim());
            }
        }
    }
    breaches.assert_none();
}

#[test]
fn lines_end_where_their_text_ends() {
    let mut breaches = Breaches::of(
        "no line ends in a space or a tab, and every file ends in one line break",
        "cargo fmt mends sources; take the rest out by hand",
    );
    for text in texts() {
        for (number, line) in (1..).zip(text.text.lines()) {
            if line.ends_with([' ', '\t', '\r']) {
                breaches.add(&text.path, number, "ends in a blank");
            }
        }
        if !text.text.ends_with('\n') || text.text.ends_with("\n\n") {
            breaches.add(&text.path, 0, "does not end in one line break");
        }
    }
    breaches.assert_none();
}
