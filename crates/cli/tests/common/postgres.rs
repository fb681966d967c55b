//! A real PostgreSQL server with a data directory of its own.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use std::{fs, net::TcpListener};

use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;

use super::HANG;
use super::certificates::Identity;

/// The role that may do everything, and the database it has.
pub(crate) const ADMIN: &str = "admin";

/// What the server is to have beside its defaults.
#[derive(Default)]
pub(crate) struct Setup<'a> {
    /// Lines before those of `pg_hba.conf` that let everybody in.
    pub(crate) hba: &'a str,
    /// Lines for `postgresql.conf`.
    pub(crate) lines: &'a str,
    /// Its certificate, where it takes TLS.
    pub(crate) tls: Option<&'a Identity>,
    /// Statements run once it is there.
    pub(crate) sql: &'a str,
}

/// PostgreSQL, serving until this is dropped.
pub(crate) struct Postgres {
    directory: TempDir,
    child: Child,
    port: u16,
}

impl Postgres {
    pub(crate) fn start(setup: &Setup<'_>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        // The server refuses to run as root, so the directory is given to somebody else.
        let owner = owner();
        if let Some((user, group)) = owner {
            chown(path, Some(user), Some(group)).expect("root may give files away");
        }
        let data = path.join("data");
        let made = as_owner(program("initdb"), owner)
            .args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username", ADMIN, "-D"])
            .arg(&data)
            .output()
            .expect("initdb starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let everybody = "local all all trust\nhost all all all trust\n";
        fs::write(data.join("pg_hba.conf"), format!("{}\n{everybody}", setup.hba)).expect("a file");
        if let Some(identity) = setup.tls {
            fs::write(data.join("server.crt"), &identity.certificate).expect("a file");
            fs::write(data.join("server.key"), &identity.key).expect("a file");
            fs::set_permissions(data.join("server.key"), fs::Permissions::from_mode(0o600))
                .expect("its owner");
            if let Some((user, group)) = owner {
                chown(data.join("server.key"), Some(user), Some(group)).expect("root may give files away");
            }
        }
        let lines = format!(
            "fsync = off\nsynchronous_commit = off\nlogging_collector = off\nlisten_addresses = '127.0.0.1'\n\
             unix_socket_directories = '{}'\nssl = {}\n{}\n",
            path.display(),
            if setup.tls.is_some() { "on" } else { "off" },
            setup.lines
        );
        let conf = data.join("postgresql.conf");
        let default = fs::read_to_string(&conf).expect("initdb makes one");
        fs::write(&conf, default + &lines).expect("a file");
        let (child, port) = start(path, owner);
        let this = Self { directory, child, port };
        let mut ask = this.psql();
        ask.args(["-c", &format!("CREATE DATABASE {ADMIN}"), "postgres"]);
        assert!(ask.output().expect("psql starts").status.success());
        if !setup.sql.is_empty() {
            this.sql(setup.sql);
        }
        this
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The directory of its socket in the file system.
    pub(crate) fn socket_directory(&self) -> &Path {
        self.directory.path()
    }

    /// The URL of its one database, as the role that may do everything.
    pub(crate) fn url(&self) -> String {
        self.url_of(ADMIN)
    }

    /// The same with what stands before the host.
    pub(crate) fn url_of(&self, who: &str) -> String {
        format!("postgres://{who}@127.0.0.1:{}/{ADMIN}", self.port)
    }

    /// What a query says, one line a row, columns parted by `|`.
    pub(crate) fn sql(&self, sql: &str) -> String {
        let output = self.psql().args(["-c", sql, ADMIN]).output().expect("psql starts");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim_end().to_owned()
    }

    /// Stops it as an administrator does, with `signal`, and starts it again.
    pub(crate) fn stop(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it has not been waited for");
        self.child.wait().expect("a child can be waited for");
    }

    /// Starts it again on the same port.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(self.directory.path(), self.port, owner());
        await_server(&mut self.child, self.directory.path(), self.port);
    }

    fn psql(&self) -> Command {
        let mut psql = Command::new(program("psql"));
        psql.args(["-qXAt", "-v", "ON_ERROR_STOP=1", "-U", ADMIN, "-p", &self.port.to_string(), "-h"]);
        psql.arg(self.directory.path());
        psql
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // At once, as after a crash: nothing is kept.
        let _ = kill_process(Pid::from_child(&self.child), Signal::QUIT);
        let _ = self.child.wait();
    }
}

/// A program of the server, which does not always lie on the path.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    for versions in ["/usr/lib/postgresql", "/usr/local/lib/postgresql"] {
        let found = fs::read_dir(versions).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = found.map(|entry| entry.path().join("bin")).collect();
        found.sort();
        directories.extend(found.into_iter().rev());
    }
    directories
        .into_iter()
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
        .unwrap_or_else(|| {
            panic!("{name} is missing; scripts/test installs it (Debian, Ubuntu: apt-get install postgresql)")
        })
}

/// Who the server runs as, where this is root.
fn owner() -> Option<(u32, u32)> {
    if !getuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("every system has users");
    let numbers = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(numbers("postgres").or_else(|| numbers("nobody")).expect("every system has nobody"))
}

fn as_owner(program: PathBuf, owner: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = owner {
        command.uid(user).gid(group).current_dir("/");
    }
    command.stdin(Stdio::null());
    command
}

/// Starts the server on a free port: one is looked for, and it may be gone by then.
fn start(directory: &Path, owner: Option<(u32, u32)>) -> (Child, u16) {
    let begun = Instant::now();
    while begun.elapsed() < HANG {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let mut child = spawn(directory, port, owner);
        if await_server(&mut child, directory, port) {
            return (child, port);
        }
    }
    panic!("the server does not start: {}", log(directory));
}

fn spawn(directory: &Path, port: u16, owner: Option<(u32, u32)>) -> Child {
    let log = fs::File::create(directory.join("log")).expect("a file");
    as_owner(program("postgres"), owner)
        .args(["-p", &port.to_string(), "-D"])
        .arg(directory.join("data"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the server starts")
}

/// Waits until it answers; false where it ended.
fn await_server(child: &mut Child, directory: &Path, port: u16) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < HANG {
        if child.try_wait().expect("a child can be waited for").is_some() {
            return false;
        }
        let mut ask = Command::new(program("psql"));
        ask.args(["-qXAt", "-U", ADMIN, "-p", &port.to_string(), "-c", "SELECT 1", "-d", "postgres", "-h"]);
        if ask.arg(directory).output().is_ok_and(|output| output.status.success()) {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the server does not answer: {}", log(directory));
}

fn log(directory: &Path) -> String {
    fs::read_to_string(directory.join("log")).unwrap_or_default()
}
