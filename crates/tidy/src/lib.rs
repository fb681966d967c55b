//! The project's files as its tidy tests see them.
//!
//! The rules themselves are the tests beside this crate, one file for a kind of rule: `imports` (who
//! may depend on whom), `sources` (what code may say and how files look), `documents` (what the
//! documents must cover). Nothing depends on this crate, and it is in no binary.

mod code;

use std::path::{Path, PathBuf};

pub use code::{has_word, without_comments_and_text, without_test_items};

/// A text file of the project.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path from the project's root, with `/` between the parts.
    pub path: String,
    /// All of it.
    pub text: String,
}

impl File {
    /// The name of the crate it belongs to, as its directory says; `None` outside `crates/`.
    pub fn of_crate(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// True for files that go into a library or a binary.
    pub fn is_product(&self) -> bool {
        self.path.ends_with(".rs") && self.path.split('/').nth(2) == Some("src")
    }

    /// What of it goes into a library or a binary: comments, the contents of literals and items
    /// under `#[cfg(test)]` are blanked out, lines keep their numbers.
    pub fn product_code(&self) -> String {
        without_test_items(&without_comments_and_text(&self.text))
    }
}

/// The project's root directory.
///
/// Asked for at run time, since cargo takes a build from one clone for that of another where both
/// share a directory of build products.
///
/// # Panics
/// When it is not cargo that runs the test.
pub fn root() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo tells its tests where their crate lies");
    Path::new(&here).ancestors().nth(2).expect("this crate lies two levels below the root").to_owned()
}

/// The project's file at `path`, counted from the root.
///
/// # Panics
/// When it cannot be read: a rule that looks at nothing would hold for ever.
pub fn file(path: &str) -> File {
    let text = std::fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{path} cannot be read: {error}"));
    File { path: path.to_owned(), text }
}

/// Every text file below `directories` and every one of `files`, both counted from the root, whose
/// name ends in one of `endings`; build products are left out.
///
/// # Panics
/// When a directory cannot be read.
pub fn files(directories: &[&str], endings: &[&str]) -> Vec<File> {
    let mut found = Vec::new();
    for directory in directories {
        collect(&root().join(directory), endings, &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn collect(directory: &Path, endings: &[&str], found: &mut Vec<File>) {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{} cannot be read: {error}", directory.display()));
    for entry in entries {
        let path = entry.expect("a directory that could be opened can be read").path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            // Cargo marks its directories of build products so.
            let is_build_product = path.join("CACHEDIR.TAG").exists();
            if !is_build_product && !["artifacts", "corpus", "coverage"].contains(&name.as_str()) {
                collect(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            let inside = path.strip_prefix(root()).expect("every directory lies below the root");
            let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
            found.push(file(&parts.join("/")));
        }
    }
}

/// What breaks a rule, gathered so that one run of the tests tells all of it.
#[derive(Debug)]
pub struct Breaches {
    rule: String,
    remedy: String,
    found: Vec<String>,
}

impl Breaches {
    /// No breach yet of `rule`; `remedy` says what to do about one.
    pub fn of(rule: &str, remedy: &str) -> Self {
        Self { rule: rule.to_owned(), remedy: remedy.to_owned(), found: Vec::new() }
    }

    /// One more, in `path` at 1-based `line` (0 for the file as a whole).
    pub fn add(&mut self, path: &str, line: usize, what: &str) {
        let place = if line == 0 { path.to_owned() } else { format!("{path}:{line}") };
        self.found.push(format!("{place}: {what}"));
    }

    /// Passes where there is none.
    ///
    /// # Panics
    /// When there is a breach, naming the rule, every place and the remedy.
    pub fn assert_none(&self) {
        assert!(
            self.found.is_empty(),
            "\nrule: {}\n  {}\nto do: {}\n",
            self.rule,
            self.found.join("\n  "),
            self.remedy
        );
    }
}
