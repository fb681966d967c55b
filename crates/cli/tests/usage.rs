//! The program as a shell sees it: messages and exit codes of commands that are wrong.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

fn plimsoll(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

/// Runs a command that is refused; returns what it says.
fn refused(arguments: &[&str]) -> String {
    let output = plimsoll(arguments);
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?} wrote a result");
    assert!(!said.is_empty(), "{arguments:?} said nothing");
    said
}

/// As [`refused`], for `plimsoll run http://127.0.0.1:9/` with further arguments.
fn run_refused(arguments: &[&str]) -> String {
    refused(&[&["run", "http://127.0.0.1:9/"], arguments].concat())
}

#[test]
fn unknown_flags_and_commands_are_refused_by_name() {
    assert!(refused(&["run", "http://127.0.0.1:9/", "--fast"]).contains("--fast"));
    assert!(refused(&["runn"]).contains("runn"));
    assert!(refused(&["run", "--rate", "5"]).contains("TARGET"));
    assert!(refused(&["completions", "tcsh"]).contains("tcsh"));
    assert!(refused(&["man", "runn"]).contains("runn"));
    assert!(run_refused(&["--rate", "1", "--rate", "2"]).contains("--rate"));
    assert!(refused(&[]).contains("run"));
}

#[test]
fn a_run_without_a_load_is_shown_the_three_forms() {
    let said = run_refused(&[]);
    for form in ["--rate 500", "--clients 64", "--users 1000 --think exp:30s"] {
        assert!(said.contains(form), "{said}");
    }
}

#[test]
fn conflicting_models_are_refused() {
    for (arguments, names) in [
        (["--rate", "5", "--clients", "5"], "--rate and --clients"),
        (["-r", "5", "--stages", "5/s:1s"], "--rate and --stages"),
        (["-c", "5", "--stages", "5/s:1s"], "--clients and --stages"),
        (["-c", "5", "--rate", "max"], "--rate and --clients"),
    ] {
        assert!(run_refused(&arguments).contains(names), "{arguments:?}");
    }
}

#[test]
fn cli_01_and_cli_11_rates_that_are_none_are_answered_with_the_forms() {
    for rate in ["0", "-1", "NaN", "inf", "infinity", "1e400", "0/0s", "20000000"] {
        let said = run_refused(&["--rate", rate]);
        assert!(said.contains(&format!("--rate {rate}:")) && said.contains("1/10s"), "{rate}: {said}");
    }
}

#[test]
fn unparsable_urls_are_refused_with_the_remedy() {
    for (url, remedy) in [
        ("127.0.0.1:8080/", "http://127.0.0.1:8080/"),
        ("ftp://h/", "http://, https:// or postgres://"),
        ("redis://h", "not yet"),
        ("load.toml", "not yet"),
        ("http://h:99999/", "65535"),
        ("http://h/a b", "%20"),
        ("http://::1/", "[::1]"),
    ] {
        let said = refused(&["run", url, "--rate", "5"]);
        assert!(said.contains(url) && said.contains(remedy), "{said}");
    }
    let secret = refused(&["run", "http://me:hidden@h:0/", "--rate", "5"]);
    assert!(!secret.contains("hidden"), "{secret}");
}

#[test]
fn all_faults_are_told_at_once_one_a_line() {
    let said = run_refused(&[
        "--rate",
        "0",
        "-z",
        "5",
        "--slo",
        "p99 = 5",
        "-d",
        "@no/such/body",
        "--wait",
        "hope",
        "-H",
        "nothing",
    ]);
    let errors = said.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(errors, 6, "{said}");
    for value in ["--rate 0", "-z 5", "p99 = 5", "no/such/body", "--wait hope", "nothing"] {
        let value = value.replace("-z", "--duration");
        assert!(said.contains(&value), "{value} in {said}");
    }
}

#[test]
fn an_output_that_cannot_be_opened_is_found_before_the_run_and_nothing_is_left_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("missing/result.json");
    let path = missing.to_str().expect("UTF-8");
    let said = run_refused(&["--rate", "5", "-o", path]);
    assert!(said.contains(path) && said.contains("No such file or directory"), "{said}");
    // A faulty run opens no output at all.
    let good = directory.path().join("result.json");
    run_refused(&["--rate", "0", "-o", good.to_str().expect("UTF-8")]);
    assert!(!good.exists());
}

#[test]
fn a_format_needs_its_output() {
    assert!(run_refused(&["--rate", "5", "--format", "json"]).contains("-o FILE --format"));
    assert!(run_refused(&["--rate", "5", "-o", "x.csv"]).contains("--format text"));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("x.json");
    let path = path.to_str().expect("UTF-8");
    assert!(run_refused(&["--rate", "5", "-o", path, "-o", path]).contains("twice"));
}

#[test]
fn the_target_refuses_what_it_cannot_be() {
    for (arguments, remedy) in [
        (["--service", "quick"], "exp:5ms"),
        (["--listen", "localhost"], "127.0.0.1:9100"),
        (["--workers", "0"], "or inf"),
        (["--error", "101%"], "1%"),
        (["--stall", "often"], "every="),
    ] {
        let said = refused(&[&["target"], &arguments[..]].concat());
        assert!(said.contains(remedy), "{said}");
    }
    assert!(refused(&["target", "--error", "60%", "--close", "60%"]).contains("100%"));
}

#[test]
fn help_version_completions_and_manual_pages_are_results() {
    for (arguments, part) in [
        (vec!["--help"], "Exit codes"),
        (vec!["-h"], "run"),
        (vec!["--version"], env!("CARGO_PKG_VERSION")),
        (vec!["run", "-h"], "--rate"),
        (vec!["run", "--help"], "Examples"),
        (vec!["completions", "bash"], "plimsoll"),
        (vec!["completions", "fish"], "plimsoll"),
        (vec!["completions", "zsh"], "plimsoll"),
        (vec!["man"], ".TH plimsoll"),
        (vec!["man", "run"], ".TH plimsoll-run"),
    ] {
        let output = plimsoll(&arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(part), "{arguments:?} without {part}");
        assert!(output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("UTF-8");
    assert_eq!((child.wait().expect("it ends").code(), said.as_str()), (Some(0), ""));
}

#[test]
#[cfg(target_os = "linux")]
fn a_result_that_cannot_be_written_is_told_by_message_and_exit_code() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a device that is always full");
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .arg("man")
        .stdout(full)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output cannot be written"));
}

/// A program that does not outlive a test that fails.
struct KilledInTheEnd(Child);

impl Drop for KilledInTheEnd {
    fn drop(&mut self) {
        // It fails where the program has ended, as it should have.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_target_tells_its_address_serves_and_ends_well_on_a_signal() {
    for signal in ["INT", "TERM"] {
        let child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["target", "--listen", "127.0.0.1:0", "--service", "fixed:0"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut child = KilledInTheEnd(child);
        let child = &mut child.0;
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        stderr.read_line(&mut said).expect("UTF-8");
        let address =
            said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
        TcpStream::connect(address).expect("it listens");
        let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().expect("kill");
        assert!(kill.success());
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{signal}");
    }
}
