//! nginx with TLS: verification, names, resumption, and the protocol agreed on.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::common::certificates::{Authority, Identity, Validity};
use crate::common::nginx::{Nginx, Setup};
use crate::common::program::measure;

/// nginx with a certificate of an authority that is in a file.
struct Site {
    nginx: Nginx,
    directory: TempDir,
}

impl Site {
    fn start(names: &[&str], lines: &str) -> Self {
        let authority = Authority::new();
        let identity = authority.issue(names, Validity::Now);
        Self::with(&authority, &identity, lines, "")
    }

    fn with(authority: &Authority, identity: &Identity, lines: &str, servers: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("authority.pem"), authority.certificate()).expect("a file");
        let nginx = Nginx::start(&Setup { tls: Some(identity), lines, servers, ..Setup::default() });
        Self { nginx, directory }
    }

    fn authority(&self) -> String {
        let path: PathBuf = self.directory.path().join("authority.pem");
        path.to_str().expect("UTF-8").to_owned()
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/", self.nginx.port())
    }
}

#[test]
fn a_certificate_is_verified_unless_told_not_to() {
    let site = Site::start(&["127.0.0.1"], "");
    let url = site.url("127.0.0.1");
    let trusted = measure(&url, &["-c", "2", "-n", "20", "--cacert", &site.authority()]);
    assert_eq!((trusted.code(), trusted.counts.ok, trusted.connections.opened), (0, 20, 2));
    let unchecked = measure(&url, &["-c", "2", "-n", "20", "-k"]);
    assert_eq!((unchecked.code(), unchecked.counts.ok), (0, 20));
    assert_eq!(site.nginx.log(40).values("ssl_alpn_protocol").into_iter().collect::<Vec<_>>(), ["http/1.1"]);
    // Bytes are those on the wire, of which TLS makes more.
    assert!(unchecked.bytes.sent > site.nginx.log(40).sum("request_length") / 2);
    let unknown = measure(&url, &["-r", "100", "-n", "10"]);
    assert_eq!((unknown.code(), unknown.errors("tls_certificate_unknown_issuer")), (4, 10));
    assert_eq!(site.nginx.log(40).len(), 40, "nothing is sent to a server that is not trusted");
}

#[test]
fn cli_07_the_server_name_is_the_hosts_name_and_never_an_address() {
    let site = Site::start(&["a.test", "127.0.0.1"], "");
    let resolve = format!("a.test:{}:127.0.0.1", site.nginx.port());
    let load = ["-c", "1", "-n", "1", "--cacert", &site.authority()].map(str::to_owned);
    let load: Vec<&str> = load.iter().map(String::as_str).collect();
    measure(&site.url("a.test"), &[&load[..], &["--resolve", &resolve]].concat());
    measure(&site.url("127.0.0.1"), &load);
    let connect = format!("a.test:{0}:127.0.0.1:{0}", site.nginx.port());
    measure(&site.url("a.test"), &[&load[..], &["--connect-to", &connect, "-H", "Host: b.test"]].concat());
    let log = site.nginx.log(3);
    assert_eq!(log.all("ssl_server_name"), ["a.test", "", "a.test"]);
    assert_eq!(log.all("status"), ["200"; 3]);
}

#[test]
fn tls_02_a_server_that_wants_a_name_gets_it_from_the_url_or_from_sni() {
    let authority = Authority::new();
    let identity = authority.issue(&["a.test"], Validity::Now);
    // Every handshake without a name it knows is turned down.
    let strict = "server { listen 127.0.0.1:PORT ssl default_server; ssl_reject_handshake on; }";
    let site = Site::with(&authority, &identity, "server_name a.test;", strict);
    let load = ["-r", "100", "-n", "5", "--cacert", &site.authority()].map(str::to_owned);
    let load: Vec<&str> = load.iter().map(String::as_str).collect();

    let connect = format!("::127.0.0.1:{}", site.nginx.port());
    let named = measure(&site.url("a.test"), &[&load[..], &["--connect-to", &connect]].concat());
    assert_eq!((named.code(), named.counts.ok), (0, 5));

    let address = measure(&site.url("127.0.0.1"), &[&load[..], &["-H", "Host: a.test"]].concat());
    assert_eq!((address.code(), address.errors("tls_alert_unrecognised_name")), (4, 5));
    let text = &address.error_texts["tls_alert_unrecognised_name"];
    assert!(text.contains("--sni"), "the remedy is named: {text}");

    let given =
        measure(&site.url("127.0.0.1"), &[&load[..], &["--sni", "a.test", "-H", "Host: a.test"]].concat());
    assert_eq!((given.code(), given.counts.ok), (0, 5));
    assert_eq!(site.nginx.log(10).all("ssl_server_name"), ["a.test"; 10]);
}

#[test]
fn later_connections_resume_the_session_of_the_first() {
    for version in ["TLSv1.2", "TLSv1.3"] {
        let lines = format!("ssl_protocols {version};");
        let site = Site::start(&["127.0.0.1"], &lines);
        let arguments = ["-c", "1", "-n", "5", "--no-keepalive", "--cacert", &site.authority()];
        let run = measure(&site.url("127.0.0.1"), &arguments);
        assert_eq!((run.counts.ok, run.connections.opened), (5, 5), "{version}");
        assert_eq!(site.nginx.log(5).all("ssl_session_reused"), [".", "r", "r", "r", "r"], "{version}");
    }
}
