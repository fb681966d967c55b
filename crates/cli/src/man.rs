//! `plimsoll man`: manual pages.

use clap::{Args, CommandFactory};
use clap_mangen::Man;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::{Refusal, console};

/// Flags of `plimsoll man`.
#[derive(Debug, Args)]
pub(crate) struct ManFlags {
    /// The command whose page is wanted; the main page without one.
    ///
    /// Look at it with: plimsoll man run | man -l -
    command: Option<String>,
}

/// Prints a page in roff.
pub(crate) fn man(flags: &ManFlags) -> Result<Exit, Refusal> {
    let mut root = Cli::command();
    root.build();
    let command = match &flags.command {
        None => root,
        Some(name) => root.find_subcommand(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = root.get_subcommands().map(clap::Command::get_name).collect();
            format!("man {name}: no such command; give one of {}", names.join(", "))
        })?,
    };
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(console::last_result(&page))
}
