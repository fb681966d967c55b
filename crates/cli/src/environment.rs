//! What PostgreSQL's own programs look at beside the command line.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use plimsoll_scenario::{Environment, RunArgs, SOCKET_DIRECTORIES};

use crate::console;

/// Looks at environment variables, files in the home directory, and sockets, for the run of `args`.
pub(crate) fn environment(args: &RunArgs) -> Environment {
    let text = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let home = text("HOME").map(PathBuf::from);
    let mut environment = Environment {
        variables: env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("PG"))
            .collect(),
        // The environment may still name whoever started this as somebody else.
        user: user_of_this_process().or_else(|| text("USER")).or_else(|| text("LOGNAME")),
        password_file: None,
        root_certificates: home.as_ref().and_then(|home| fs::read(home.join(".postgresql/root.crt")).ok()),
        sockets: sockets(),
    };
    environment.password_file =
        args.password_file(&environment, home.as_deref()).and_then(|path| password_file(&path));
    environment
}

/// The text of a password file that others cannot read; like PostgreSQL's own programs, others are not used.
fn password_file(path: &Path) -> Option<String> {
    let facts = fs::metadata(path).ok()?;
    if !facts.is_file() {
        return None;
    }
    if facts.mode() & 0o077 != 0 {
        console::warning(&format!(
            "the password file {} can be read by others, so it is not used; take that away with chmod 600",
            path.display()
        ));
        return None;
    }
    fs::read_to_string(path).ok()
}

fn user_of_this_process() -> Option<String> {
    let number = rustix::process::geteuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut of_this = users.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    of_this.next()
}

fn sockets() -> Vec<PathBuf> {
    let entries =
        SOCKET_DIRECTORIES.iter().flat_map(|directory| fs::read_dir(directory).into_iter().flatten());
    let paths = entries.flatten().map(|entry| entry.path());
    let is_socket = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
            name.strip_prefix(".s.PGSQL.").is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
        })
    };
    paths.filter(is_socket).collect()
}
