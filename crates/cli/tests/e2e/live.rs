//! The progress line, on a terminal and elsewhere.

use std::process::Command;

use plimsoll_target::TargetConfig;

use crate::common::machine_program;
use crate::common::program::{Running, plimsoll, run};
use crate::{target, url};

/// What standard error shows when it is a terminal; the result goes to a file.
fn on_a_terminal(arguments: &str) -> String {
    let script = machine_program("script", "it comes with util-linux (Debian: bsdutils)");
    let directory = tempfile::tempdir().expect("a directory");
    let program = plimsoll().get_program().to_str().expect("UTF-8").to_owned();
    let result = directory.path().join("result");
    let line = format!("'{program}' run {arguments} >'{}'", result.display());
    let mut command = Command::new(script);
    command.args(["-q", "-e", "-c", &line, "/dev/null"]).stdin(std::process::Stdio::null());
    let finished = Running::start(&mut command).finish();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(result.is_file());
    finished.stdout
}

#[test]
fn progress_is_shown_on_a_terminal_and_nowhere_else() {
    let server = target(TargetConfig::default());
    let load = format!("{} -r 100 -z 1500ms", url(&server));
    let seen = on_a_terminal(&load);
    assert!(seen.contains('\r') && seen.contains("/s"), "{seen:?}");
    // Erased in the end, so that nothing of it stands before what follows.
    assert!(seen.trim_end_matches(['\r', '\n']).ends_with("\x1b[2K"), "{seen:?}");
    for flag in ["--quiet", "--no-progress"] {
        assert_eq!(on_a_terminal(&format!("{load} -z 800ms {flag}").replace("-z 1500ms ", "")), "", "{flag}");
    }
    let piped = run(&[&url(&server), "-r", "100", "-z", "1500ms"]);
    assert_eq!(piped.stderr, "");
}
