//! What can be wrong with a server or a machine, and what a person is told of it.

use crate::common::program::{measure, run};
use crate::common::scripted::{OK, Scripted};

/// A port of this machine at which nobody listens.
fn closed_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}/", listener.local_addr().expect("bound"))
}

#[test]
fn a_name_that_cannot_be_resolved_is_refused_by_name() {
    let said = run(&["http://no-such-host.invalid/", "-r", "5"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""));
    assert!(
        said.stderr.contains("no-such-host.invalid") && said.stderr.contains("--resolve"),
        "{}",
        said.stderr
    );
    let said = run(&["http://127.0.0.1:9/", "-6", "-r", "5"]);
    assert!(said.code == Some(2) && said.stderr.contains("-6"), "{}", said.stderr);
}

#[test]
fn out_02_a_closed_port_gives_no_rate_and_no_latency() {
    let url = closed_port();
    for load in [["-r", "50", "-n", "20"], ["-c", "2", "-z", "1s"]] {
        let run = measure(&url, &load);
        assert_eq!((run.code(), run.counts.ok, run.counts.answered), (4, 0, 0));
        assert!([&run.response_ns, &run.service_ns, &run.first_byte_ns].iter().all(|spans| spans.is_none()));
        assert!(run.json["response_ns"].is_null() && run.json["connect_ns"].is_null());
        assert!(run.rates.achieved_per_s.is_none_or(|rate| rate == 0.0));
        assert!(run.error_texts["connect_refused"].contains("127.0.0.1"), "{:?}", run.error_texts);
        assert_eq!(run.errors("connect_refused"), run.counts.due);
    }
    let text = run(&[&url, "-r", "50", "-n", "20"]).stdout;
    for word in ["NaN", "nan", "inf ", "-inf"] {
        assert!(!text.contains(word), "{text}");
    }
    assert!(text.contains("connect_refused"), "{text}");
}

#[test]
fn out_02_a_name_with_one_good_address_works_in_either_order() {
    for (good, addresses) in [("127.0.0.1:0", "[::1],127.0.0.1"), ("[::1]:0", "127.0.0.1,[::1]")] {
        let listener = std::net::TcpListener::bind(good).expect("loopback");
        let server = Scripted::on(listener, None, |peer| {
            while peer.request().is_some() {
                peer.send(OK);
            }
        });
        let port = server.address().port();
        let resolve = format!("two.test:{port}:{addresses}");
        let run =
            measure(&format!("http://two.test:{port}/"), &["-c", "2", "-n", "6", "--resolve", &resolve]);
        assert_eq!((run.code(), run.counts.ok), (0, 6), "{addresses}");
        assert_eq!(run.addresses.keys().collect::<Vec<_>>(), [&server.address().to_string()]);
    }
}

#[test]
fn garbage_is_told_as_such() {
    for garbage in
        [&b"\x00\x01\x02garbage\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.2\r\n", b"220 mail.test ESMTP\r\n"]
    {
        let server = Scripted::answering(garbage);
        let run = measure(&server.url("/"), &["-c", "1", "-n", "5"]);
        assert_eq!((run.code(), run.errors("protocol_not_http1")), (4, 5), "{:?}", run.errors);
    }
}

#[test]
fn out_10_a_server_that_never_answers_gives_a_full_report() {
    let server = Scripted::silent();
    let said = run(&[&server.url("/"), "-r", "20", "-n", "10", "--timeout", "200ms", "--drain", "5s"]);
    assert_eq!(said.code, Some(4));
    for part in ["0 of 10", "10 timed out", "sent 10", "bytes", "generator"] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    let run = measure(&server.url("/"), &["-r", "20", "-n", "10", "--timeout", "200ms", "--drain", "5s"]);
    assert_eq!((run.counts.sent, run.counts.timed_out), (10, 10));
    assert!(run.elapsed_ns >= 200_000_000 && run.bytes.sent > 0 && run.bytes.received == 0);
}
