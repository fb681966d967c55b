//! Cases of TLS in which the handshake fails, end to end.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::time::Duration;

use rustls::version::{TLS12, TLS13};

use crate::common::certificates::{Authority, Identity, Validity};
use crate::common::program::{Measured, measure, run};
use crate::common::scripted::{OK, Peer, Scripted};

fn answers(peer: &mut Peer) {
    while peer.request().is_some() {
        peer.send(OK);
    }
}

/// An authority whose certificate is in a file.
struct Trusted {
    authority: Authority,
    directory: tempfile::TempDir,
}

impl Trusted {
    fn new() -> Self {
        let (authority, directory) = (Authority::new(), tempfile::tempdir().expect("a directory"));
        std::fs::write(directory.path().join("authority.pem"), authority.certificate()).expect("a file");
        Self { authority, directory }
    }

    fn file(&self) -> String {
        self.directory.path().join("authority.pem").display().to_string()
    }

    fn measure(&self, server: &Scripted, more: &[&str]) -> Measured {
        let url = format!("https://{}/", server.address());
        measure(&url, &[&["-r", "100", "-n", "10", "--cacert", &self.file()], more].concat())
    }
}

#[test]
fn tls_06_every_reason_has_a_kind_of_its_own_and_is_told_once() {
    let trusted = Trusted::new();
    let both = [&TLS12, &TLS13];
    let issue = |names: &[&str], validity| trusted.authority.issue(names, validity);
    let good = issue(&["127.0.0.1"], Validity::Now);
    let mut kinds = BTreeSet::new();
    for (what, server, kind, remedy) in [
        (
            "expired",
            Scripted::tls(issue(&["127.0.0.1"], Validity::Expired).server(&both, None), answers),
            "tls_certificate_expired",
            "-k",
        ),
        (
            "self-signed",
            Scripted::tls(Identity::self_signed(&["127.0.0.1"]).server(&both, None), answers),
            "tls_certificate_unknown_issuer",
            "--cacert",
        ),
        (
            "wrong name",
            Scripted::tls(issue(&["other.test"], Validity::Now).server(&both, None), answers),
            "tls_certificate_wrong_name",
            "--sni",
        ),
        (
            "plain HTTP",
            Scripted::start(|peer| {
                let _ = peer.first_bytes();
                peer.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            }),
            "tls_not_tls",
            "http://",
        ),
    ] {
        let run = trusted.measure(&server, &[]);
        assert_eq!((run.code(), run.errors(kind)), (4, 10), "{what}: {:?}", run.error_texts);
        assert_eq!((run.counts.failed_unsent, run.attempts()), (10, 0), "{what}");
        assert!(run.error_texts[kind].contains(remedy), "{what}: {}", run.error_texts[kind]);
        kinds.insert(kind);

        let url = format!("https://{}/", server.address());
        let said = run_text(&url, &trusted.file());
        assert_eq!(said.matches(kind).count(), 1, "{what} is told once: {said}");
    }
    assert_eq!(kinds.len(), 4);

    let wants = good.server(&both, Some(&trusted.authority));
    let server = Scripted::tls(wants, answers);
    let run = trusted.measure(&server, &[]);
    assert_eq!(run.code(), 4);
    assert_eq!(run.errors("tls_client_certificate_required"), 10, "{:?}", run.errors);
}

fn run_text(url: &str, authority: &str) -> String {
    let finished = run(&[url, "-r", "100", "-n", "10", "--cacert", authority]);
    assert!(finished.stderr.lines().count() <= 3, "{}", finished.stderr);
    finished.stdout
}

#[test]
fn tls_06_a_server_of_the_newest_version_alone_and_an_unchecked_address_are_fine() {
    let trusted = Trusted::new();
    let good = trusted.authority.issue(&["127.0.0.1"], Validity::Now);
    let newest = Scripted::tls(good.server(&[&TLS13], None), answers);
    let run = trusted.measure(&newest, &[]);
    assert_eq!((run.code(), run.counts.ok), (0, 10));
    let oldest = Scripted::tls(good.server(&[&TLS12], None), answers);
    let run = trusted.measure(&oldest, &[]);
    assert_eq!((run.code(), run.counts.ok), (0, 10));
    let wrong = Scripted::tls(Identity::self_signed(&["other.test"]).server(&[&TLS13], None), answers);
    let url = format!("https://{}/", wrong.address());
    assert_eq!(measure(&url, &["-k", "-c", "2", "-n", "10"]).counts.ok, 10);
}

#[test]
fn a_plain_client_at_a_tls_port_is_told_what_came_back() {
    let identity = Identity::self_signed(&["127.0.0.1"]);
    let server = Scripted::tls(identity.server(&[&TLS13], None), answers);
    let run = measure(&server.url("/"), &["-r", "100", "-n", "5"]);
    assert_eq!((run.code(), run.counts.ok), (4, 0));
    let kinds: Vec<&String> = run.errors.keys().collect();
    assert_eq!(kinds, ["protocol_not_http1"]);
    assert!(run.error_texts["protocol_not_http1"].contains("https://"), "{:?}", run.error_texts);
}

#[test]
fn tls_03_a_handshake_that_hangs_has_an_end() {
    let trusted = Trusted::new();
    let half = b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03";
    for answer in [&b""[..], half] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = Scripted::on(listener, None, move |peer| {
            peer.send(answer);
            peer.wait_for_the_end();
        });
        let more = ["--arrivals", "even", "--connect-timeout", "300ms"];
        let run = trusted.measure(&server, &more);
        assert_eq!((run.code(), run.errors("tls_timeout")), (4, 10), "{:?}", run.errors);
        assert_eq!((run.counts.failed_unsent, server.connections()), (10, 10));
        let failed = run.response_failed_ns.as_ref().expect("all");
        assert!(Duration::from_nanos(failed.min) >= Duration::from_millis(300));
    }
    // In a closed loop the handshakes come before the start, and none of them succeeds.
    let server = Scripted::start(Peer::wait_for_the_end);
    let url = format!("https://{}/", server.address());
    let arguments = ["-c", "2", "-z", "1s", "--connect-timeout", "300ms", "-k"];
    let run = measure(&url, &arguments);
    assert_eq!((run.code(), run.connections.wanted, run.connections.established), (4, Some(2), 0));
    assert!(run.error_texts.contains_key("tls_timeout"), "{:?}", run.error_texts);
}
