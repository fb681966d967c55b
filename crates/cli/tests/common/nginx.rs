//! A real nginx with a directory of its own, and its access log.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::certificates::Identity;
use super::{HANG, machine_program};

const REMEDY: &str = "scripts/test installs it (Debian, Ubuntu: apt-get install nginx)";

/// The log's fields, under nginx's own names.
const FIELDS: [&str; 16] = [
    "connection",
    "connection_requests",
    "request_method",
    "request_uri",
    "request_length",
    "status",
    "bytes_sent",
    "body_bytes_sent",
    "remote_user",
    "remote_addr",
    "http_host",
    "http_x_test",
    "content_length",
    "ssl_session_reused",
    "ssl_server_name",
    "ssl_alpn_protocol",
];

/// What the server is to have besides its locations: a plain port on 127.0.0.1, always.
#[derive(Default)]
pub(crate) struct Setup<'a> {
    /// A second address, such as `[::1]`, on the same port.
    pub(crate) also: Option<&'a str>,
    /// TLS on that port, in place of plain text.
    pub(crate) tls: Option<&'a Identity>,
    /// Further lines for the server block.
    pub(crate) lines: &'a str,
    /// Further server blocks; `PORT` stands for the port, `DIR` for the directory.
    pub(crate) servers: &'a str,
}

/// nginx, serving until this is dropped.
pub(crate) struct Nginx {
    directory: TempDir,
    child: Child,
    port: u16,
}

impl Nginx {
    pub(crate) fn start(setup: &Setup<'_>) -> Self {
        let program = machine_program("nginx", REMEDY);
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("80000"), vec![b'x'; 80_000]).expect("a file");
        if let Some(identity) = setup.tls {
            std::fs::write(directory.path().join("certificate.pem"), &identity.certificate).expect("a file");
            std::fs::write(directory.path().join("key.pem"), &identity.key).expect("a file");
        }
        let begun = Instant::now();
        // nginx cannot be told to take a free port: one is looked for, and it may be gone by then.
        while begun.elapsed() < HANG {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let port = free.expect("a free port").port();
            if let Some(child) = try_start(&program, directory.path(), port, setup) {
                return Self { directory, child, port };
            }
        }
        let log = std::fs::read_to_string(directory.path().join("error.log")).unwrap_or_default();
        panic!("nginx does not start: {log}");
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The URL of `path`, which begins with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Its socket in the file system.
    pub(crate) fn unix_socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The log so far, once it has `lines` lines; what is not awaited shows as a difference.
    pub(crate) fn log(&self, lines: u64) -> Log {
        let path = self.directory.path().join("access.log");
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            // A line is written when its answer has been, so the last may come a moment later.
            if text.lines().count() as u64 >= lines || begun.elapsed() > Duration::from_secs(10) {
                let line = |line: &str| serde_json::from_str(line).expect("a line of JSON");
                return Log(text.lines().map(line).collect());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn try_start(program: &Path, directory: &Path, port: u16, setup: &Setup<'_>) -> Option<Child> {
    std::fs::write(directory.join("nginx.conf"), configuration(directory, port, setup)).expect("a file");
    let pid = directory.join("pid");
    // What an attempt before this one may have left.
    let _ = (std::fs::remove_file(&pid), std::fs::remove_file(directory.join("socket")));
    let mut child = Command::new(program)
        .arg("-p")
        .arg(directory)
        .arg("-c")
        .arg(directory.join("nginx.conf"))
        .arg("-e")
        .arg(directory.join("error.log"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nginx is a program");
    loop {
        // The file is written when every address is bound.
        if std::fs::read_to_string(&pid).is_ok_and(|text| !text.trim().is_empty()) {
            return Some(child);
        }
        if child.try_wait().expect("a child can be waited for").is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn configuration(directory: &Path, port: u16, setup: &Setup<'_>) -> String {
    let path = directory.display();
    let fields: Vec<String> = FIELDS.iter().map(|field| format!("\"{field}\":\"${field}\"")).collect();
    let mut listens = vec![format!("127.0.0.1:{port}")];
    listens.extend(setup.also.map(|address| format!("{address}:{port}")));
    let kind = if setup.tls.is_some() { " ssl" } else { "" };
    let mut listens: String = listens.iter().map(|address| format!("listen {address}{kind};\n")).collect();
    if setup.tls.is_some() {
        listens += &format!("ssl_certificate {path}/certificate.pem;\nssl_certificate_key {path}/key.pem;\n");
    } else {
        listens += &format!("listen unix:{path}/socket;\n");
    }
    let lines = setup.lines;
    let servers = setup.servers.replace("PORT", &port.to_string()).replace("DIR", &path.to_string());
    format!(
        "daemon off; master_process off; pid {path}/pid; worker_rlimit_nofile 4096;
events {{ worker_connections 2048; }}
http {{
    log_format fields escape=json '{{{}}}';
    access_log {path}/access.log fields;
    client_body_temp_path {path}/body; proxy_temp_path {path}/proxy; fastcgi_temp_path {path}/fastcgi;
    uwsgi_temp_path {path}/uwsgi; scgi_temp_path {path}/scgi;
    keepalive_requests 1000000; keepalive_timeout 300s;
    server {{
        {listens}
        {lines}
        root {path};
        location / {{ return 200 'ok'; }}
        location = /80000 {{ }}
        location /missing {{ return 404; }}
        location /busy {{ return 503; }}
    }}
    {servers}
}}
",
        fields.join(",")
    )
}

/// Lines of an access log.
pub(crate) struct Log(Vec<Value>);

impl Log {
    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// A field of every line, in the log's order.
    pub(crate) fn all(&self, field: &str) -> Vec<&str> {
        assert!(FIELDS.contains(&field), "{field} is not logged");
        self.0.iter().map(|line| line[field].as_str().expect("every field is text")).collect()
    }

    /// The different values of a field.
    pub(crate) fn values(&self, field: &str) -> BTreeSet<&str> {
        self.all(field).into_iter().collect()
    }

    /// The sum of a field of numbers.
    pub(crate) fn sum(&self, field: &str) -> u64 {
        self.all(field).iter().map(|number| number.parse::<u64>().expect("a number")).sum()
    }
}
