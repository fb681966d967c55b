//! Cases of the command line that show on the wire, end to end.

use plimsoll_target::TargetConfig;

use crate::common::program::{measure, run};
use crate::common::scripted::{OK, Scripted};
use crate::{read, target, url};

/// The lines of the one request that a run with `arguments` sends, body included.
fn request(path: &str, arguments: &[&str]) -> String {
    let server = Scripted::answering(OK);
    let run = measure(&server.url(path), &[&["-c", "1", "-n", "1"], arguments].concat());
    assert_eq!(run.counts.ok, 1);
    String::from_utf8(server.requests().remove(0)).expect("text")
}

/// The values of a header, in their order.
fn values<'a>(request: &'a str, name: &str) -> Vec<&'a str> {
    let fields = request.lines().skip(1).take_while(|line| !line.is_empty());
    fields
        .filter_map(|line| line.split_once(": "))
        .filter(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect()
}

#[test]
fn cli_03_of_count_and_duration_the_first_to_come_ends_the_run() {
    let server = target(TargetConfig::default());
    for load in ["-c", "-r"] {
        let run = measure(
            &url(&server),
            &[load, "1", "-n", "1", "-z", "1s", "--arrivals", "even"][..if load == "-c" { 6 } else { 8 }],
        );
        assert_eq!((run.counts.due, run.counts.ok), (1, 1), "{load}");
        assert_eq!(server.truth().expect("it runs").arrivals, 1, "{load}");
    }
    let run = measure(&url(&server), &["-r", "50", "--arrivals", "even", "-n", "1000000", "-z", "200ms"]);
    assert_eq!(run.counts.due, 10);
}

#[test]
fn cli_04_a_request_has_one_end_and_a_late_answer_answers_nothing() {
    let config =
        || TargetConfig { service: read("fixed:300ms"), workers: read("inf"), ..TargetConfig::default() };
    let server = target(config());
    let late = measure(&url(&server), &["-c", "4", "-n", "12", "--timeout", "100ms", "--drain", "5s"]);
    assert_eq!((late.counts.ok, late.counts.timed_out, late.counts.due), (0, 12, 12));
    assert_eq!((late.code(), late.bytes.received), (4, 0));
    assert_eq!(server.truth().expect("it runs").arrivals, 12);

    let server = target(config());
    let patient = measure(&url(&server), &["-c", "4", "-n", "8", "--timeout", "0"]);
    assert_eq!((patient.counts.ok, patient.plan.timeout_ns), (8, None));
    for (timeout, told) in [(&["--timeout", "0"][..], "no timeout"), (&[], "timeout 5 s")] {
        let text = run(&[&[&url(&server)[..], "-c", "1", "-n", "1"], timeout].concat()).stdout;
        assert!(text.lines().take(3).any(|line| line.contains(told)), "{told}: {text}");
    }
}

#[test]
fn cli_06_a_header_of_the_users_takes_the_place_of_our_own() {
    for name in ["Host", "host", "HOST"] {
        let request = request("/", &["-H", &format!("{name}: a.test")]);
        assert_eq!(values(&request, "host"), ["a.test"], "{request}");
    }
    let own = request("/", &["-d", "abc"]);
    for name in ["user-agent", "content-length", "content-type", "host"] {
        assert_eq!(values(&own, name).len(), 1, "{name}: {own}");
    }
    let given = request(
        "/",
        &[
            "-d",
            "abc",
            "-H",
            "user-agent: me",
            "-H",
            "Content-length: 3",
            "-H",
            "CONTENT-TYPE: text/plain",
            "-H",
            "X-Many: 1",
            "-H",
            "x-other: x",
            "-H",
            "X-Many: 2",
        ],
    );
    assert_eq!(values(&given, "user-agent"), ["me"]);
    assert_eq!(values(&given, "content-length"), ["3"]);
    assert_eq!(values(&given, "content-type"), ["text/plain"]);
    assert_eq!(values(&given, "x-many"), ["1", "2"]);
    assert!(given.ends_with("\r\n\r\nabc"), "{given}");
}

#[test]
fn cli_08_the_target_is_sent_byte_for_byte() {
    for (path, sent) in [
        ("/a%2Fb//c/../d?x=%26&y=a+b&z=[1]|{2}&e=#frag", "/a%2Fb//c/../d?x=%26&y=a+b&z=[1]|{2}&e="),
        ("?x=1", "/?x=1"),
        ("", "/"),
        ("/?", "/?"),
    ] {
        let line = request(path, &[]).lines().next().expect("a request line").to_owned();
        assert_eq!(line, format!("GET {sent} HTTP/1.1"));
    }
}

#[test]
fn cli_09_a_rate_is_the_total_whatever_the_number_of_connections_and_workers() {
    for workers in ["1", "2"] {
        let server = target(TargetConfig::default());
        let load =
            ["-r", "10", "--arrivals", "even", "-z", "2s", "--connections", "50", "--workers", workers];
        let run = measure(&url(&server), &load);
        assert_eq!((run.counts.due, run.counts.ok), (20, 20));
        assert_eq!(server.truth().expect("it runs").arrivals, 20);
    }
}

#[test]
fn cli_10_low_rates_send_what_they_say() {
    for (rate, duration, requests) in
        [("0.1/s", "1s", 1), ("0.5/s", "3s", 2), ("1", "2s", 2), ("7/s", "1s", 7), ("60/m", "1500ms", 2)]
    {
        let server = target(TargetConfig::default());
        let run = measure(&url(&server), &["-r", rate, "--arrivals", "even", "-z", duration]);
        assert_eq!((run.counts.due, run.counts.ok), (requests, requests), "{rate}");
        assert_eq!(server.truth().expect("it runs").arrivals, requests, "{rate}");
    }
}

#[test]
fn cli_17_a_body_has_one_length_on_the_wire() {
    let server = Scripted::answering(OK);
    for (header, words) in [("Transfer-Encoding: chunked", "Transfer-Encoding"), ("Content-Length: 99", "99")]
    {
        let said = run(&[&server.url("/"), "-c", "1", "-n", "1", "-d", "abc", "-H", header]);
        assert_eq!(said.code, Some(2), "{header}: {}", said.stderr);
        assert!(said.stderr.contains(words), "{}", said.stderr);
    }
    assert_eq!(server.connections(), 0, "nothing was sent");
}
