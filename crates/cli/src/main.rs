//! `plimsoll`: a load-testing tool whose numbers can be believed.
//!
//! Argument parsing and nothing else: one file a subcommand, each of which reads its flags, hands them to
//! the library crates, and turns the answer into an exit code. Results go to standard output or files,
//! everything else to standard error.

mod capacity;
mod cli;
mod completions;
mod console;
mod demo;
mod environment;
mod execute;
mod exit;
mod live;
mod machine;
mod man;
mod output;
mod placed;
mod profile;
mod run;
mod sql_flags;
mod target;
mod trials;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::exit::Exit;

/// Why a command was refused: found before anything was sent. One fault a line.
type Refusal = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    // Unknown flags and missing values end here, with clap's message and exit code 2.
    let result = match Cli::parse().command {
        Command::Run(flags) => run::run(*flags),
        Command::Capacity(flags) => capacity::capacity(*flags),
        Command::Profile(flags) => profile::profile(*flags),
        Command::Target(flags) => target::target(flags),
        Command::Demo(flags) => demo::demo(flags),
        Command::Completions(flags) => completions::completions(&flags),
        Command::Man(flags) => man::man(&flags),
    };
    result
        .unwrap_or_else(|refusal| {
            for line in refusal.to_string().lines() {
                // What goes on below a fault is set in by two spaces and belongs to it.
                match line.starts_with("  ") {
                    true => console::line(line),
                    false => console::error(line),
                }
            }
            Exit::Usage
        })
        .into()
}
