//! PostgreSQL runs: where they connect to, as users of libpq expect it, and what they send.
//!
//! ```text
//! URL, PG* variables, password file ─► settings ─► way ─► Target
//! --sql, --sql-file ─► lexer ─► statements ─► Operations     --param ─► Variables
//! ```

mod connection;
mod lexer;
mod password;
mod settings;
mod statements;
mod way;

pub(crate) use connection::{after_scheme, shown};
pub(crate) use settings::{password_file, root_certificates_named};

use plimsoll_core::plan::QueryMode;
use plimsoll_core::value::{ValueLaw, Variable};

use crate::args::RunArgs;
use crate::environment::Environment;
use crate::fault::Check;
use crate::files::Laws;
use crate::lower::Work;
use settings::Settings;

/// Reads a run against the URL that goes on with `rest` after its scheme. Without usable settings
/// everything else is still checked, and the answer is `None`.
pub(crate) fn work(
    args: &RunArgs,
    rest: &str,
    environment: &Environment,
    seed: u64,
    check: &mut Check,
) -> Option<Work> {
    refuse_flags_of_http(args, check);
    let query_mode = query_mode(args, check);
    let variables = parameters(args, seed, check);
    let operations = statements::operations(args, query_mode, check);
    let settings = Settings::read(rest, args, environment, check)?;
    let connect_timeout = settings.connect_timeout;
    let target = way::target(args, settings, query_mode, environment, check);
    let named = |mut operation: plimsoll_core::plan::Operation| {
        operation.facts.url.clone_from(&target.name);
        operation
    };
    let operations = operations.into_iter().map(named).collect();
    Some(Work { target, operations, variables, connect_timeout })
}

fn query_mode(args: &RunArgs, check: &mut Check) -> QueryMode {
    let modes = [QueryMode::Prepared, QueryMode::Unnamed, QueryMode::Simple];
    let Some(text) = &args.query_mode else { return QueryMode::Prepared };
    modes.into_iter().find(|mode| mode.name() == text).unwrap_or_else(|| {
        check.fault(
            format!("--query-mode {text}"),
            "is not a way to send statements",
            "give prepared, unnamed or simple",
        );
        QueryMode::Prepared
    })
}

/// The variables of `--param`: the first is called 1, as `$1` names it.
fn parameters(args: &RunArgs, seed: u64, check: &mut Check) -> Vec<Variable> {
    let mut laws = Laws::new(&args.files);
    let mut parameter = |(number, text): (usize, &String)| {
        let law = laws.read(text).unwrap_or_else(|refusal| {
            check.fault(format!("--param {text}"), refusal.reason, refusal.remedy);
            // Stands in, so that those after it keep their numbers; the plan is thrown away.
            ValueLaw::SEQUENCE
        });
        Variable::new(&number.to_string(), law, seed)
    };
    (1..).zip(&args.params).map(&mut parameter).collect()
}

fn refuse_flags_of_http(args: &RunArgs, check: &mut Check) {
    let sql = "give the statement by --sql";
    let given = [
        ("-X", args.method.is_some(), sql),
        ("-H", !args.headers.is_empty(), "leave it out"),
        ("-d", args.body.is_some(), sql),
        (
            "-u",
            args.user.is_some(),
            "write postgres://USER@HOST/, the password in PGPASSWORD or a password file",
        ),
        ("--var", !args.variables.is_empty(), "give --param LAW for $1, the next one for $2, and so on"),
        ("--no-keepalive", args.no_keepalive, "leave it out; a PostgreSQL connection is kept"),
    ];
    for (flag, _, remedy) in given.iter().filter(|(_, given, _)| *given) {
        check.fault(*flag, "concerns HTTP, and the URL is one of PostgreSQL", *remedy);
    }
}

/// Says which flags of PostgreSQL were given in a run that is none.
pub(crate) fn refuse_flags(args: &RunArgs, check: &mut Check) {
    let given = [
        ("--sql", !args.sql.is_empty()),
        ("--sql-file", !args.sql_files.is_empty()),
        ("--param", !args.params.is_empty()),
        ("--query-mode", args.query_mode.is_some()),
    ];
    for (flag, _) in given.iter().filter(|(_, given)| *given) {
        let remedy = match *flag {
            "--param" => "give a postgres:// URL, or --var NAME=LAW for ${NAME} in URL, headers and body",
            _ => "give a postgres:// URL, or leave it out",
        };
        check.fault(*flag, "concerns PostgreSQL, and the URL is one of HTTP", remedy);
    }
}
