//! `plimsoll run`: one run against one server.
//!
//! Order matters: values are checked, then outputs are opened, and only then is anything sent.

mod flags;

use std::fs::File;
use std::io::{self, Read};

use plimsoll_scenario::lower;
use plimsoll_stats::slo::Objective;

use crate::environment::environment;
use crate::execute::{Job, execute};
use crate::exit::Exit;
use crate::machine::this_machine;
use crate::{Refusal, console};
pub(crate) use flags::{EXAMPLES, LONG_EXAMPLES, RunFlags};

/// The longest body or certificate file, in bytes. A body is held in memory whole.
const LONGEST_FILE_BYTES: u64 = 64 << 20;

/// Reads the flags, checks them, and has the run carried out.
pub(crate) fn run(flags: RunFlags) -> Result<Exit, Refusal> {
    let mut faults = Vec::new();
    let mut args = flags.args();
    args.body = flags.data().map(|data| {
        // A body that cannot be read still counts as one, so that nothing else is said of it.
        data.strip_prefix('@')
            .map_or_else(|| data.into(), |path| read("-d @", path, &mut faults).unwrap_or_default())
    });
    args.ca_certificates = flags.ca_path().and_then(|path| read("--cacert ", path, &mut faults));
    for file in &mut args.sql_files {
        if let Some(bytes) = read("--sql-file ", &file.path, &mut faults) {
            match String::from_utf8(bytes) {
                Ok(text) => file.text = text,
                Err(_) => faults.push(format!("--sql-file {}: is not text in UTF-8; convert it", file.path)),
            }
        }
    }
    let environment = environment(&args);
    for path in args.files_named(&environment) {
        if let Some(bytes) = read("", &path, &mut faults) {
            args.files.push((path, bytes));
        }
    }
    let objectives = flags.objectives().iter().filter_map(|text| objective(text, &mut faults)).collect();
    let lowered = match lower(&args, &this_machine(), &environment) {
        Ok(lowered) if faults.is_empty() => lowered,
        result => {
            faults.extend(result.err().into_iter().flat_map(|more| more.0).map(|fault| fault.to_string()));
            return Err(faults.join("\n").into());
        }
    };
    // Only now, so that a run that will not take place leaves no files behind.
    let output = flags.output().open(&mut faults);
    if !faults.is_empty() {
        return Err(faults.join("\n").into());
    }
    for note in &lowered.notes {
        console::warning(note);
    }
    execute(Job { lowered, objectives, strict: flags.strict(), output })
}

fn objective(text: &str, faults: &mut Vec<String>) -> Option<Objective> {
    text.parse().map_err(|error| faults.push(format!("--slo: {error}"))).ok()
}

/// The bytes of the file at `path`, `-` being standard input.
fn read(flag: &str, path: &str, faults: &mut Vec<String>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let result = match path {
        "-" => io::stdin().lock().take(LONGEST_FILE_BYTES + 1).read_to_end(&mut bytes),
        _ => File::open(path).and_then(|file| file.take(LONGEST_FILE_BYTES + 1).read_to_end(&mut bytes)),
    };
    match result {
        Ok(length) if length as u64 <= LONGEST_FILE_BYTES => return Some(bytes),
        Ok(_) => faults.push(format!(
            "{flag}{path}: is longer than {LONGEST_FILE_BYTES} bytes, the most that is held in memory; give a shorter file"
        )),
        Err(error) => {
            faults.push(format!("{flag}{path}: cannot be read: {error}; give a path that can be read"));
        }
    }
    None
}
