//! The flags that say which SQL is sent.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use plimsoll_scenario::{SqlFile, SqlText};

use crate::placed::{attach, placed};

/// SQL flags.
#[derive(Debug, Args)]
#[command(next_help_heading = "PostgreSQL")]
pub(crate) struct SqlFlags {
    #[command(flatten)]
    statements: Statements,
    /// Law of the next parameter: the first is that of $1.
    ///
    /// uniform:A..B, zipf:A..B,s=1, normal:A..B,sd=S, exponential:A..B,mean=M, sequence:A..B (whole numbers from
    /// A, B left out), or csv:FILE:COLUMN. May be given again, for $2 and so on.
    #[arg(long = "param", value_name = "LAW")]
    pub(crate) params: Vec<String>,
    /// How statements are sent: prepared (default), unnamed, simple.
    ///
    /// prepared: named prepared statements, prepared when a connection is opened. unnamed: parsed with each
    /// request, which works through poolers that share sessions. simple: values written into the text.
    #[arg(long, value_name = "MODE")]
    pub(crate) query_mode: Option<String>,
}

impl SqlFlags {
    /// The statements, `--sql` and `--sql-file` each in the order given.
    pub(crate) fn statements(&self) -> (&[SqlText], &[SqlFile]) {
        (&self.statements.sql, &self.statements.files)
    }
}

/// `--sql` and `--sql-file`, each with the `--weight` that follows it. The texts of files are still empty.
#[derive(Clone, Debug)]
struct Statements {
    sql: Vec<SqlText>,
    files: Vec<SqlFile>,
}

/// A `--sql` or a `--sql-file`, as it stands on the command line.
struct Given {
    value: String,
    is_file: bool,
    weight: Option<String>,
}

// By hand, since the place of a --weight says what it belongs to.
impl Args for Statements {
    fn augment_args(command: Command) -> Command {
        let sql = Arg::new("sql")
            .long("sql")
            .value_name("STATEMENT")
            .action(ArgAction::Append)
            .allow_hyphen_values(true)
            .help("Statement, with $1, $2 … for --param; may be given again")
            .long_help(
                "Statement, with $1, $2 … for --param; may be given again\n\nOf several, each request is one of \
                 them, in proportion to their --weight.",
            );
        let file = Arg::new("sql-file")
            .long("sql-file")
            .value_name("FILE")
            .action(ArgAction::Append)
            .help("File of statements, run as one transaction")
            .long_help(
                "File of statements, run as one transaction\n\nThey are parted by semicolons and sent one after \
                 the other. BEGIN and COMMIT are put around several, unless the file has its own.",
            );
        let weight = Arg::new("weight")
            .long("weight")
            .value_name("N")
            .action(ArgAction::Append)
            .allow_negative_numbers(true)
            .help("Weight of the --sql or --sql-file before it (default 1)");
        command.arg(sql).arg(file).arg(weight)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Statements {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |id: &'static str| {
            placed::<String>(matches, id)
                .map(move |(place, value)| (place, Given { value, is_file: id == "sql-file", weight: None }))
        };
        let mut all: Vec<(usize, Given)> = given("sql").chain(given("sql-file")).collect();
        attach(
            matches,
            "weight",
            &mut all,
            |given| &mut given.weight,
            "--weight is given twice for one statement; keep one of them",
            "--weight has no --sql or --sql-file before it; write --sql STATEMENT --weight N",
        )?;
        let (mut sql, mut files) = (Vec::new(), Vec::new());
        for (_, Given { value, is_file, weight }) in all {
            match is_file {
                false => sql.push(SqlText { text: value, weight }),
                true => files.push(SqlFile { path: value, text: String::new(), weight }),
            }
        }
        Ok(Self { sql, files })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(arguments: &[&str]) -> Result<Vec<(String, Option<String>)>, String> {
        let matches = Statements::augment_args(Command::new("test").no_binary_name(true))
            .try_get_matches_from(arguments)
            .map_err(|error| error.to_string())?;
        let Statements { sql, files } =
            Statements::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        let sql = sql.into_iter().map(|sql| (sql.text, sql.weight));
        Ok(sql.chain(files.into_iter().map(|file| (file.path, file.weight))).collect())
    }

    #[test]
    fn a_weight_belongs_to_the_statement_before_it() {
        let arguments = ["--sql", "A", "--weight", "3", "--sql-file", "f", "--sql", "B", "--weight", "2"];
        let expected = [("A", Some("3")), ("B", Some("2")), ("f", None)];
        let expected = expected.map(|(text, weight)| (text.to_owned(), weight.map(str::to_owned)));
        assert_eq!(statements(&arguments).unwrap(), expected);
        assert!(statements(&["--weight", "1"]).unwrap_err().contains("no --sql"));
        let twice = ["--sql", "A", "--weight", "1", "--weight", "2"];
        assert!(statements(&twice).unwrap_err().contains("twice"));
    }
}
