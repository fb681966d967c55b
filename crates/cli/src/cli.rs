//! The command line as a whole: the one table that `-h`, `--help`, the man page and the shell
//! completions are made from.

use clap::{Parser, Subcommand};

use crate::capacity::CapacityFlags;
use crate::completions::CompletionsFlags;
use crate::demo::DemoFlags;
use crate::man::ManFlags;
use crate::profile::ProfileFlags;
use crate::run::RunFlags;
use crate::target::TargetFlags;

/// Load testing with numbers that can be believed.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, max_term_width = 100, after_long_help = crate::exit::HELP)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure a server under one load.
    #[command(after_help = crate::run::EXAMPLES, after_long_help = crate::run::LONG_EXAMPLES)]
    Run(Box<RunFlags>),
    /// Find the highest rate a server sustains.
    ///
    /// A closed loop with 1, 2, 4, … clients, until doubling them brings no more twice in a row. The best
    /// trial is run again, and that second figure is the answer.
    #[command(after_long_help = crate::capacity::EXAMPLES)]
    Capacity(Box<CapacityFlags>),
    /// Find the peak, and how long users wait at fractions of it.
    ///
    /// First as capacity does, then in an open loop at each fraction of the peak. With --slo also the highest
    /// rate that meets the objectives.
    #[command(after_long_help = crate::profile::EXAMPLES)]
    Profile(Box<ProfileFlags>),
    /// Serve HTTP with known behaviour, to learn on and to test with.
    Target(TargetFlags),
    /// See the main points in half a minute, on a built-in server.
    Demo(DemoFlags),
    /// Print completions for a shell.
    Completions(CompletionsFlags),
    /// Print a manual page.
    Man(ManFlags),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// All commands with their names: `plimsoll`, `plimsoll run` …
    fn commands() -> Vec<clap::Command> {
        let mut root = Cli::command();
        root.build();
        let children = root.get_subcommands().filter(|c| c.get_name() != "help").cloned();
        let children: Vec<clap::Command> = children.collect();
        std::iter::once(root).chain(children).collect()
    }

    #[test]
    fn the_table_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_every_flag_has_help() {
        for command in commands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
        }
    }

    #[test]
    fn short_help_is_one_line_a_flag() {
        for mut command in commands() {
            let help = command.render_help().to_string();
            for argument in command.get_arguments().filter(|a| a.get_long().is_some()) {
                let long = format!("--{}", argument.get_long().unwrap());
                let about = argument.get_help().unwrap().to_string();
                let line = help.lines().find(|line| {
                    line.split([' ', ',', '.']).any(|word| word == long) && line.trim_start().starts_with('-')
                });
                let line = line.unwrap_or_else(|| panic!("{long} is missing in\n{help}"));
                assert!(
                    line.contains(&about),
                    "{} {long} takes more than a line:\n{line}",
                    command.get_name()
                );
            }
        }
    }
}
