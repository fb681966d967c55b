//! What PostgreSQL's own programs look at beside the command line, as the caller found it.

use std::fmt;
use std::path::PathBuf;

/// What a PostgreSQL run takes from around it. Empty for other runs.
#[derive(Clone, Default)]
pub struct Environment {
    /// The environment variables whose names begin with `PG`, names and values.
    pub variables: Vec<(String, String)>,
    /// The name of the user this process runs as.
    pub user: Option<String>,
    /// The text of the password file, see
    /// [`RunArgs::password_file`](crate::RunArgs::password_file); `None` where there is none.
    pub password_file: Option<String>,
    /// The PEM text of `.postgresql/root.crt` in the home directory; `None` where there is none.
    pub root_certificates: Option<Vec<u8>>,
    /// The sockets found in [`SOCKET_DIRECTORIES`].
    pub sockets: Vec<PathBuf>,
}

/// Where servers of this machine have their sockets: Debian's place, and that of PostgreSQL itself.
pub const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

impl Environment {
    /// The value of the environment variable `name`; empty counts as not set.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

/// Without values: there may be passwords among them.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.variables.iter().map(|(name, _)| name).collect();
        f.debug_struct("Environment")
            .field("variables", &names)
            .field("user", &self.user)
            .field("sockets", &self.sockets)
            .finish_non_exhaustive()
    }
}
