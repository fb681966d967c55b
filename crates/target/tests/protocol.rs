//! What the running target does by the protocol: HTTP/1.1, gzip, TLS, and clients that break them.

mod support;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use plimsoll_target::{Running, TargetConfig, TlsConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use support::{Answer, Client, GET, HANG, start};

fn request(head: &str) -> String {
    format!("{head}\r\nHost: target\r\n\r\n")
}

#[test]
fn a_connection_is_kept_or_closed_as_the_client_asks() {
    let running = start(TargetConfig::default());
    let mut client = Client::connect(running.address());
    for _ in 0..3 {
        let answer = client.ask(GET);
        assert_eq!((answer.status, &answer.body[..], answer.field("connection")), (200, &b"ok"[..], None));
    }
    let answer = client.ask(&request("GET / HTTP/1.1\r\nConnection: close"));
    assert_eq!(answer.field("connection"), Some("close"));
    assert!(client.ends_in_order());

    let mut old = Client::connect(running.address());
    let answer = old.ask(&request("GET / HTTP/1.0\r\nConnection: keep-alive"));
    assert_eq!(answer.field("connection"), Some("keep-alive"));
    assert_eq!(old.ask(&request("GET / HTTP/1.0")).status, 200);
    assert!(old.ends_in_order());
}

#[test]
fn a_client_that_ends_its_side_still_gets_its_answers() {
    let running = start(TargetConfig { service: support::read("fixed:20ms"), ..TargetConfig::default() });
    let mut client = Client::connect(running.address());
    client.send(GET.repeat(2));
    client.socket().shutdown(std::net::Shutdown::Write).expect("an open socket");
    assert_eq!(client.answer(false).expect("an answer").status, 200);
    assert_eq!(client.answer(false).expect("an answer").status, 200);
    assert!(client.ends_in_order());
}

#[test]
fn head_is_answered_without_a_body() {
    let running = start(TargetConfig { body_bytes: 7, ..TargetConfig::default() });
    let mut client = Client::connect(running.address());
    for _ in 0..2 {
        let answer = client.ask(&request("HEAD / HTTP/1.1"));
        assert_eq!((answer.status, answer.field("content-length")), (200, Some("7")));
    }
    assert_eq!(client.ask(GET).body, b"okokoko");
}

#[test]
fn bodies_are_skipped_wherever_the_bytes_are_cut() {
    let running = start(TargetConfig::default());
    let sized = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nGET / HTT";
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        4;x=y\r\nGET \r\n3\r\n\r\n\r\r\n0\r\nTrailer: t\r\n\r\n";
    let mut sent = 0;
    for text in [sized, chunked] {
        for cut in 1..text.len() {
            let mut client = Client::connect(running.address());
            client.send(&text[..cut]);
            client.send(&text[cut..]);
            assert_eq!(client.answer(false).expect("an answer").status, 200, "cut at {cut}");
            // The connection stands at the beginning of a request again.
            assert_eq!(client.ask(GET).status, 200, "cut at {cut}");
            sent += 2;
        }
    }
    assert_eq!(running.truth().expect("a running target").arrivals, sent);
}

#[test]
fn a_client_that_waits_to_send_its_body_is_told_to() {
    let running = start(TargetConfig::default());
    let mut client = Client::connect(running.address());
    let head = "POST / HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue";
    assert_eq!(client.ask(&request(head)).status, 100);
    client.send("abc");
    assert_eq!(client.answer(false).expect("an answer").status, 200);
}

#[test]
fn pipelined_requests_are_all_answered_however_many() {
    let running = start(TargetConfig { body_bytes: 20_000, ..TargetConfig::default() });
    let requests = 4_000;
    let mut client = Client::connect(running.address());
    let mut writer = client.socket().try_clone().expect("a descriptor");
    // Far more than the socket buffers hold, in both directions.
    let sender = std::thread::spawn(move || writer.write_all(GET.repeat(requests).as_bytes()));
    for _ in 0..requests {
        let answer = client.answer(false).expect("an answer");
        assert_eq!((answer.status, answer.body.len()), (200, 20_000));
    }
    sender.join().expect("no panic").expect("all is read");
    assert_eq!(running.truth().expect("a running target").status.ok, requests as u64);
}

#[test]
fn a_body_longer_than_the_socket_buffers_arrives_whole() {
    let running = start(TargetConfig { body_bytes: 20_000_000, ..TargetConfig::default() });
    let answer = Client::connect(running.address()).ask(GET);
    assert_eq!(answer.body.len(), 20_000_000);
    assert!(answer.body.chunks(2).all(|pair| pair == b"ok"));
}

#[test]
fn gzip_is_given_to_those_who_accept_it() {
    let running = start(TargetConfig { body_bytes: 80_000, gzip: true, ..TargetConfig::default() });
    let mut client = Client::connect(running.address());
    let plain = client.ask(GET);
    assert_eq!((plain.body.len(), plain.field("content-encoding")), (80_000, None));
    let packed = client.ask(&request("GET / HTTP/1.1\r\nAccept-Encoding: br, gzip"));
    assert_eq!(packed.field("content-encoding"), Some("gzip"));
    assert!(packed.body.len() < 2_000);
    let mut body = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut body).expect("gzip");
    assert_eq!(body, plain.body);
}

#[test]
fn what_is_no_request_is_answered_400_or_431_and_never_harms_the_target() {
    let running = start(TargetConfig::default());
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    for (bytes, status) in [
        ("\0\0\0\r\n\r\n", 400),
        ("GET / HTTP/9.9\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("\u{16}\u{3}\u{1}\u{2}", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (&long, 431),
    ] {
        let mut client = Client::connect(running.address());
        let answer = client.ask(bytes);
        assert_eq!((answer.status, answer.field("connection")), (status, Some("close")), "{bytes:.40?}");
        assert!(client.ends_in_order());
    }
    // Requests before the fault are answered, and one that is cut short harms nobody.
    let mut client = Client::connect(running.address());
    client.send([GET, "nonsense\r\n\r\n"].concat());
    assert_eq!(client.answer(false).expect("an answer").status, 200);
    assert_eq!(client.answer(false).expect("an answer").status, 400);
    Client::connect(running.address()).send(&GET[..10]);
    let mut numbers = plimsoll_core::random::Sequence::new(plimsoll_core::random::Stream::new(1, "noise"));
    for _ in 0..200 {
        let noise: Vec<u8> = (0..100).map(|_| (numbers.unit() * 256.0) as u8).collect();
        let mut stream = TcpStream::connect(running.address()).expect("the target accepts");
        // Refused part-way or not: what is sent does not matter, only what becomes of the target.
        let _ = stream.write_all(&noise);
    }
    assert_eq!(Client::connect(running.address()).ask(GET).status, 200);
    assert_eq!(running.truth().expect("a running target").arrivals, 2);
    running.stop().expect("it lived");
}

#[test]
fn a_thousand_connections_are_served_at_once() {
    let running = start(TargetConfig::default());
    let mut clients: Vec<_> = (0..1000).map(|_| Client::connect(running.address())).collect();
    for client in &mut clients {
        client.send(GET);
    }
    for client in &mut clients {
        assert_eq!(client.answer(false).expect("an answer").status, 200);
    }
    assert_eq!(running.truth().expect("a running target").connections_accepted, 1000);
}

/// A client's TLS settings, trusting the target's certificate alone.
fn trust(pem: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
    roots.add(certificate).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(builder.expect("versions").with_root_certificates(roots).with_no_client_auth())
}

type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

fn connect_tls(running: &Running, config: &Arc<ClientConfig>, name: &str) -> TlsClient {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let connection = ClientConnection::new(config.clone(), name).expect("settings");
    let stream = TcpStream::connect(running.address()).expect("the target accepts");
    stream.set_read_timeout(Some(HANG)).expect("above zero");
    Client::over(StreamOwned::new(connection, stream))
}

#[test]
fn tls_is_spoken_with_a_certificate_that_can_be_trusted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("target.pem");
    let running = start(TargetConfig {
        tls: Some(TlsConfig {
            names: vec!["target.test".to_owned(), "10.0.0.1".to_owned()],
            certificate_out: Some(path.clone()),
        }),
        body_bytes: 300_000,
        ..TargetConfig::default()
    });
    let pem = std::fs::read_to_string(path).expect("the certificate was written");
    assert_eq!(Some(pem.as_str()), running.certificate_pem());
    let config = trust(&pem);
    for (index, name) in ["localhost", "127.0.0.1", "::1", "target.test", "10.0.0.1"].into_iter().enumerate()
    {
        let mut client = connect_tls(&running, &config, name);
        let answer: Answer = client.ask(GET);
        assert_eq!((answer.status, answer.body.len()), (200, 300_000), "{name}");
        assert_eq!(client.ask(GET).body, answer.body);
        let truth = running.truth().expect("a running target");
        assert_eq!((truth.tls_full, truth.tls_resumed, truth.arrivals), (1, 0, 2), "{index}");
    }
    let mut again = connect_tls(&running, &config, "localhost");
    let answer = again.ask(&request("GET / HTTP/1.1\r\nConnection: close"));
    assert_eq!(answer.status, 200);
    assert!(again.ends_in_order(), "with a closing notice");
    let truth = running.truth().expect("a running target");
    assert_eq!((truth.tls_full, truth.tls_resumed), (0, 1), "the session was resumed");
}

#[test]
fn the_truth_can_be_asked_over_tls_without_being_counted() {
    let running = start(TargetConfig { tls: Some(TlsConfig::default()), ..TargetConfig::default() });
    let config = trust(running.certificate_pem().expect("a target with TLS"));
    for _ in 0..2 {
        let answer = connect_tls(&running, &config, "localhost").ask(&request("GET /truth HTTP/1.1"));
        let truth: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(truth["connections_accepted"], 0);
        assert_eq!((&truth["tls_full"], &truth["tls_resumed"]), (&0.into(), &0.into()));
    }
}

#[test]
fn a_client_that_breaks_tls_harms_only_itself() {
    let running = start(TargetConfig { tls: Some(TlsConfig::default()), ..TargetConfig::default() });
    let mut stream = TcpStream::connect(running.address()).expect("the target accepts");
    stream.set_read_timeout(Some(HANG)).expect("above zero");
    stream.write_all(GET.as_bytes()).expect("the target reads");
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
    let config = trust(running.certificate_pem().expect("a target with TLS"));
    assert_eq!(connect_tls(&running, &config, "localhost").ask(GET).status, 200);
    assert_eq!(running.truth().expect("a running target").tls_failed, 1);
    let bad = TlsConfig { names: vec!["no such näme".to_owned()], certificate_out: None };
    let error = plimsoll_target::Target::start(TargetConfig { tls: Some(bad), ..TargetConfig::default() });
    assert!(error.expect_err("not a name").to_string().contains("no such näme"));
}
