//! Who may import whom: the arrows of ARCHITECTURE.md as a table, held against `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use plimsoll_tidy::{Breaches, file, root};

/// Our crates, inner ones first, and those of ours that each may import.
const MAY_IMPORT: [(&str, &[&str]); 9] = [
    ("core", &[]),
    ("stats", &["core"]),
    ("proto", &[]),
    ("engine", &["core", "stats", "proto"]),
    ("scenario", &["core", "proto"]),
    ("report", &["core", "stats"]),
    ("target", &["core", "stats", "engine"]),
    ("sim", &["core", "stats", "proto", "engine"]),
    ("cli", &["core", "stats", "proto", "engine", "scenario", "report", "target"]),
];

/// Crates that only tests are made of. Nobody imports them, not even for tests of his own.
const FOR_TESTS_ONLY: [&str; 2] = ["sim", "tidy"];

/// What the pure crates may take from elsewhere. None of these reads a clock, opens a file or a
/// socket, starts a thread or draws randomness, but for the nonce of a PostgreSQL login (postgres-protocol).
const PURE_CRATES_MAY_USE: [(&str, &[&str]); 4] = [
    ("core", &["libm"]),
    ("stats", &["base64", "hdrhistogram", "libm"]),
    ("proto", &["bytes", "fallible-iterator", "httparse", "postgres-protocol"]),
    ("sim", &[]),
];

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo describes the workspace this test was built in")
}

/// The packages by the names of their directories under `crates/`.
fn packages(metadata: &Metadata) -> BTreeMap<String, &Package> {
    let directory = |package: &Package| {
        let name = package.manifest_path.parent().and_then(|path| path.file_name());
        name.expect("a package lies in a directory").to_owned()
    };
    metadata.packages.iter().map(|package| (directory(package), package)).collect()
}

/// The names, without `plimsoll-`, of those of our crates that `package` imports as `kind` says.
fn ours<'a>(package: &'a Package, kind: impl Fn(DependencyKind) -> bool + 'a) -> BTreeSet<&'a str> {
    let dependencies = package.dependencies.iter().filter(move |dependency| kind(dependency.kind));
    dependencies.filter_map(|dependency| dependency.name.strip_prefix("plimsoll-")).collect()
}

fn is_product(kind: DependencyKind) -> bool {
    kind != DependencyKind::Development
}

#[test]
fn every_crate_stands_in_the_table_under_its_own_name() {
    let metadata = metadata();
    let mut breaches = Breaches::of(
        "a crate lies in crates/NAME, is called plimsoll-NAME and stands in the import table",
        "name it so, and add a row to MAY_IMPORT in crates/tidy/tests/imports.rs and to ARCHITECTURE.md",
    );
    let known: Vec<&str> = MAY_IMPORT.iter().map(|(name, _)| *name).chain(["tidy"]).collect();
    let packages = packages(&metadata);
    for (directory, package) in &packages {
        if package.name.as_str() != format!("plimsoll-{directory}") {
            breaches.add(
                &format!("crates/{directory}/Cargo.toml"),
                0,
                &format!("is called {}", package.name),
            );
        }
        if !known.contains(&directory.as_str()) {
            breaches.add(&format!("crates/{directory}/Cargo.toml"), 0, "has no row in the table");
        }
    }
    for name in known {
        if !packages.contains_key(name) {
            breaches.add(
                "crates/tidy/tests/imports.rs",
                0,
                &format!("has a row for {name}, which is not there"),
            );
        }
    }
    breaches.assert_none();
}

#[test]
fn arrows_point_inward_only() {
    let metadata = metadata();
    let packages = packages(&metadata);
    let mut breaches = Breaches::of(
        "a crate imports only those the table in ARCHITECTURE.md allows it",
        "move the code inward, or pass what it needs in from outside; a new arrow needs a change of the table \
         and a reason in the commit",
    );
    for (name, allowed) in MAY_IMPORT {
        for import in ours(packages[name], is_product) {
            if !allowed.contains(&import) {
                breaches.add(&format!("crates/{name}/Cargo.toml"), 0, &format!("imports {import}"));
            }
        }
    }
    breaches.assert_none();
}

#[test]
fn nobody_imports_what_only_tests_are_made_of() {
    let metadata = metadata();
    let mut breaches = Breaches::of(
        "sim and tidy are imported by nobody, not for tests either",
        "put the test that needs them into their own tests directory",
    );
    for (directory, package) in packages(&metadata) {
        for import in ours(package, |_| true) {
            if FOR_TESTS_ONLY.contains(&import) {
                breaches.add(&format!("crates/{directory}/Cargo.toml"), 0, &format!("imports {import}"));
            }
        }
    }
    breaches.assert_none();
}

#[test]
fn pure_crates_take_nothing_from_elsewhere_that_could_do_io() {
    let metadata = metadata();
    let packages = packages(&metadata);
    let mut breaches = Breaches::of(
        "core, stats, proto and sim use only the crates listed for them, none of which does IO",
        "leave the dependency to an outer crate; where it is pure, list it in PURE_CRATES_MAY_USE with care",
    );
    for (name, allowed) in PURE_CRATES_MAY_USE {
        for dependency in packages[name].dependencies.iter().filter(|d| is_product(d.kind)) {
            let ours = dependency.name.starts_with("plimsoll-");
            if !ours && !allowed.contains(&dependency.name.as_str()) {
                breaches.add(&format!("crates/{name}/Cargo.toml"), 0, &format!("uses {}", dependency.name));
            }
        }
    }
    breaches.assert_none();
}

#[test]
fn every_crate_but_the_engine_takes_the_workspaces_lints() {
    let metadata = metadata();
    let mut breaches = Breaches::of(
        "lints stand once, in the workspace, and forbid unsafe code; only engine has its own list",
        "write [lints] workspace = true into the crate's Cargo.toml",
    );
    for (directory, _) in packages(&metadata) {
        let manifest = file(&format!("crates/{directory}/Cargo.toml"));
        let inherits = manifest.text.contains("[lints]\nworkspace = true");
        if inherits == (directory == "engine") {
            breaches.add(&manifest.path, 0, if inherits { "takes them" } else { "does not take them" });
        }
    }
    let workspace = file("Cargo.toml");
    if !workspace.text.contains("unsafe_code = \"forbid\"") {
        breaches.add(&workspace.path, 0, "does not forbid unsafe code");
    }
    breaches.assert_none();
}

#[test]
fn the_table_in_the_architecture_is_the_one_tested() {
    let document = file("ARCHITECTURE.md");
    let mut breaches = Breaches::of(
        "ARCHITECTURE.md shows the import table that the tests hold",
        "make the row in ARCHITECTURE.md and the one in MAY_IMPORT alike",
    );
    for (name, allowed) in MAY_IMPORT {
        let list = if allowed.is_empty() { "none of ours".to_owned() } else { allowed.join(", ") };
        let row = format!("| {name} | {list} |");
        if !document.text.contains(&row) {
            breaches.add(&document.path, 0, &format!("has no row '{row}'"));
        }
    }
    breaches.assert_none();
}
