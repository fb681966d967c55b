//! `plimsoll completions`: what a shell needs to complete commands and flags.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::{Refusal, console};

/// Flags of `plimsoll completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsFlags {
    /// The shell.
    shell: Shell,
}

/// Prints the completions.
pub(crate) fn completions(flags: &CompletionsFlags) -> Result<Exit, Refusal> {
    // Written to memory first: the generator panics when its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "plimsoll", &mut script);
    Ok(console::last_result(&script))
}
