//! The program under test: started, watched so that it cannot hang, and its result read.

use std::io::Read;
use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_report::RunV1;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{HANG, laws};

/// The program, without arguments and without an input.
pub(crate) fn plimsoll() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.stdin(Stdio::null());
    command
}

/// `plimsoll run` with `arguments`.
pub(crate) fn run(arguments: &[&str]) -> Finished {
    let mut command = plimsoll();
    command.arg("run").args(arguments);
    Running::start(&mut command).finish()
}

/// `plimsoll run URL` with `arguments` and its result as JSON, which is held to every law first.
pub(crate) fn measure(url: &str, arguments: &[&str]) -> Measured {
    run(&[&[url, "--json"], arguments].concat()).measured()
}

/// The program at work. It does not outlive a test that fails.
pub(crate) struct Running {
    child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    /// Starts `command` and reads what it says as it says it.
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdout = child.stdout.take().map(reader);
        let stderr = child.stderr.take().map(reader);
        Self { child, stdout, stderr }
    }

    /// Starts `plimsoll run` with `arguments`.
    pub(crate) fn run(arguments: &[&str]) -> Self {
        Self::start(plimsoll().arg("run").args(arguments))
    }

    /// Sends a signal to it.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).expect("it has not been waited for, so the signal finds it");
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Finished {
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("a child can be waited for") {
                Some(status) => break status,
                None if begun.elapsed() > HANG => panic!("the program did not end within {HANG:?}"),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        Finished { code: status.code(), stdout: text(self.stdout.take()), stderr: text(self.stderr.take()) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It fails where the program has ended, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reader(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("a pipe can be read");
        bytes
    })
}

fn text(bytes: Option<JoinHandle<Vec<u8>>>) -> String {
    let bytes = bytes.expect("piped").join().expect("the reader ends");
    String::from_utf8(bytes).expect("UTF-8")
}

/// How the program ended, and what it said.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// The result that stands on standard output as JSON.
    pub(crate) fn measured(self) -> Measured {
        let json = self.stdout.clone();
        Measured::new(self, &json)
    }
}

/// A result that holds to every law of [`laws`]; it stands for its [`RunV1`].
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) run: RunV1,
    pub(crate) json: Value,
    pub(crate) finished: Finished,
}

impl Measured {
    pub(crate) fn new(finished: Finished, json: &str) -> Self {
        let value: Value = serde_json::from_str(json)
            .unwrap_or_else(|error| panic!("the result is not JSON ({error}): {finished:?}"));
        let run = RunV1::from_json(json).expect("a result of the format");
        laws::assert_all(&run, &value);
        Self { run, json: value, finished }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> i32 {
        self.finished.code.expect("it was not killed")
    }

    /// Copies sent in all, the warm-up included: what the server should have seen.
    pub(crate) fn attempts(&self) -> u64 {
        self.run.counts.attempts + self.run.counts_warmup.attempts
    }

    /// Failures of a kind.
    pub(crate) fn errors(&self, kind: &str) -> u64 {
        self.run.errors.get(kind).copied().unwrap_or(0)
    }

    /// The names of its warnings.
    pub(crate) fn warning_names(&self) -> Vec<&str> {
        self.run.warnings.iter().map(|warning| warning.name.as_str()).collect()
    }
}

impl Deref for Measured {
    type Target = RunV1;

    fn deref(&self) -> &RunV1 {
        &self.run
    }
}
