//! Cases of HTTP framing, end to end: what an answer's bytes do to the request, to the connection and
//! to the next request. The decoder's own table is held by its crate; here are the cases in which the
//! socket has a part.

use std::time::Duration;

use crate::common::program::{Measured, measure};
use crate::common::scripted::{OK, Peer, Scripted};

/// What becomes of a request whose answer is that of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is ok, and the next request goes over the same connection.
    Reused,
    /// It is ok, and the next request goes over a new connection.
    Replaced,
    /// It is ok, the connection is replaced, and so many bytes belonged to no answer.
    Surplus(u64),
    /// It fails with this kind, and the connection is replaced.
    Fails(&'static str),
}

const REQUESTS: u64 = 4;

/// Sends requests one after the other to a server that answers each by `script`.
fn exchange(
    script: impl Fn(&mut Peer) -> bool + Send + Sync + 'static,
    more: &[&str],
) -> (Measured, Scripted) {
    let server = Scripted::start(move |peer| while peer.request().is_some() && script(peer) {});
    let requests = REQUESTS.to_string();
    let arguments = [&["-c", "1", "-n", &requests, "--timeout", "60s"], more].concat();
    let run = measure(&server.url("/"), &arguments);
    (run, server)
}

fn assert_ends(name: &str, run: &Measured, server: &Scripted, end: End) {
    let context = format!("{name}: {:?} {:?} {:?}", run.counts, run.errors, run.error_texts);
    let failed = if let End::Fails(kind) = end { run.errors(kind) } else { 0 };
    assert_eq!((run.counts.due, run.counts.failed), (REQUESTS, failed), "{context}");
    if let End::Fails(kind) = end {
        assert!(run.error_texts[kind].contains(' '), "a sentence says why: {context}");
    }
    assert_eq!(failed, if matches!(end, End::Fails(_)) { REQUESTS } else { 0 }, "{context}");
    assert_eq!(server.request_count(), REQUESTS, "{context}");
    let connections = if end == End::Reused { 1 } else { REQUESTS };
    assert_eq!(run.connections.opened, connections, "{context}");
    let surplus = if let End::Surplus(bytes) = end { bytes * REQUESTS } else { 0 };
    assert_eq!(run.bytes.surplus, surplus, "{context}");
}

/// How a server goes on behind the bytes of a row.
#[derive(Clone, Copy)]
enum Then {
    Stay,
    Close,
    Reset,
}

fn check(rows: &[(&str, &[u8], Then, End)], more: &[&str]) {
    for (name, bytes, then, end) in rows {
        let (answer, then) = (bytes.to_vec(), *then);
        let script = move |peer: &mut Peer| {
            peer.send(&answer);
            match then {
                Then::Stay => true,
                Then::Close => {
                    peer.close();
                    false
                }
                Then::Reset => {
                    // What was sent is to be read before the reset takes it away.
                    std::thread::sleep(Duration::from_millis(50));
                    peer.reset();
                    false
                }
            }
        };
        let (run, server) = exchange(script, more);
        assert_ends(name, &run, &server, *end);
    }
}

#[test]
fn frm_01_a_body_may_end_with_its_connection() {
    let whole = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello";
    check(
        &[
            ("FIN", whole, Then::Close, End::Replaced),
            ("RST", whole, Then::Reset, End::Fails("reset")),
            ("HTTP/1.0 without a header", b"HTTP/1.0 200 OK\r\n\r\nhello", Then::Close, End::Replaced),
        ],
        &[],
    );
    let (run, _) = exchange(
        move |peer| {
            peer.send(whole);
            peer.close();
            false
        },
        &[],
    );
    assert_eq!(run.bytes.received, REQUESTS * whole.len() as u64);
}

#[test]
fn frm_02_an_end_before_the_end_is_a_failure_at_every_place() {
    let cut = End::Fails("closed_in_response");
    check(
        &[
            ("no byte", b"", Then::Close, End::Fails("closed_before_response")),
            ("first byte", b"H", Then::Close, cut),
            ("in the head", b"HTTP/1.1 200 OK\r\nContent-Le", Then::Close, cut),
            ("in the body", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", Then::Close, cut),
            (
                "between chunks",
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                Then::Close,
                cut,
            ),
            (
                "in the trailers",
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
                Then::Close,
                cut,
            ),
        ],
        &[],
    );
}

#[test]
fn frm_06_bytes_behind_an_answer_answer_no_request() {
    let injected = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ninjected";
    let counted = format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello{injected}");
    let chunked =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n{injected}");
    let end = End::Surplus(injected.len() as u64);
    check(
        &[("counted", counted.as_bytes(), Then::Stay, end), ("chunked", chunked.as_bytes(), Then::Stay, end)],
        &[],
    );
}

#[test]
fn frm_09_long_heads_are_read_up_to_a_limit_that_is_told() {
    let head = |fields: String| format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nok");
    let many = head("X-Field: value\r\n".repeat(150));
    let long = head(format!("Set-Cookie: a={}\r\n", "x".repeat(100_000)));
    let longer = head(format!("Set-Cookie: a={}\r\n", "x".repeat(300_000)));
    let too_many = head("X: y\r\n".repeat(3_000));
    check(
        &[
            ("150 fields", many.as_bytes(), Then::Stay, End::Reused),
            ("a field of 100 kB", long.as_bytes(), Then::Stay, End::Reused),
            ("a field of 300 kB", longer.as_bytes(), Then::Stay, End::Fails("protocol_head_too_large")),
            ("3000 fields", too_many.as_bytes(), Then::Stay, End::Fails("protocol_too_many_headers")),
        ],
        &[],
    );
}

#[test]
fn frm_09_a_head_without_an_end_is_given_up() {
    let server = Scripted::start(|peer| {
        if peer.request().is_some() {
            peer.send(b"HTTP/1.1 200 OK\r\n");
            // It ends when the client has had enough, or else at 100 times the limit.
            for _ in 0..26_000 {
                peer.send(&b"X-Endless: 0123456789012345678901234567890123456789\r\n".repeat(20));
            }
        }
    });
    let run = measure(&server.url("/"), &["-c", "1", "-n", "2", "--timeout", "60s"]);
    assert_eq!(run.errors("protocol_head_too_large") + run.errors("protocol_too_many_headers"), 2);
    assert!(run.bytes.received < 4_000_000, "{}", run.bytes.received);
}

#[test]
fn frm_10_interim_answers_are_passed_over() {
    let with = |interim: &str| format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let hint = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
    let (one, two) = (with("HTTP/1.1 100 Continue\r\n\r\n"), with(&hint.repeat(2)));
    let length = with("HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n");
    check(
        &[
            ("100", one.as_bytes(), Then::Stay, End::Reused),
            ("103 twice", two.as_bytes(), Then::Stay, End::Reused),
            ("103 with a length", length.as_bytes(), Then::Stay, End::Reused),
            (
                "101",
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
                Then::Stay,
                End::Fails("protocol_unexpected_upgrade"),
            ),
            (
                "102 for ever",
                &b"HTTP/1.1 102 Processing\r\n\r\n".repeat(200),
                Then::Stay,
                End::Fails("protocol_too_many_interim_heads"),
            ),
        ],
        &[],
    );
    let slow = |peer: &mut Peer| {
        for _ in 0..3 {
            peer.send(b"HTTP/1.1 102 Processing\r\n\r\n");
            std::thread::sleep(Duration::from_millis(50));
        }
        peer.send(OK);
        true
    };
    let (run, server) = exchange(slow, &[]);
    assert_ends("102 now and then", &run, &server, End::Reused);
    // The time goes on to the final answer; the first byte is the first interim one's.
    assert!(run.service_ns.as_ref().unwrap().min >= 150_000_000);
    assert!(run.first_byte_ns.as_ref().unwrap().min < 150_000_000);
}

#[test]
fn frm_12_an_answer_without_a_body_leaves_the_connection_as_it_is() {
    check(
        &[
            ("204", b"HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n", Then::Stay, End::Reused),
            (
                "304 with a length",
                b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n",
                Then::Stay,
                End::Reused,
            ),
            ("length 0", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Then::Stay, End::Reused),
        ],
        &[],
    );
}

#[test]
fn frm_14_a_body_where_none_may_be_spoils_the_connection_and_not_the_next_request() {
    check(
        &[
            (
                "204",
                b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
                Then::Stay,
                End::Surplus(5),
            ),
            (
                "304",
                b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello",
                Then::Stay,
                End::Surplus(5),
            ),
        ],
        &[],
    );
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    check(&[("HEAD", head, Then::Stay, End::Surplus(5))], &["-X", "HEAD"]);
}

#[test]
fn frm_16_an_empty_chunked_body_ends_with_its_last_line() {
    let script = |peer: &mut Peer| {
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
        std::thread::sleep(Duration::from_millis(20));
        peer.send(b"\r\n");
        true
    };
    let (run, server) = exchange(script, &[]);
    assert_ends("cut before the last line", &run, &server, End::Reused);
    assert!(run.service_ns.as_ref().unwrap().min >= 20_000_000);
}

#[test]
fn frm_20_odd_spacing_never_gives_a_wrong_length() {
    check(
        &[
            ("no space", b"HTTP/1.1 200 OK\r\nContent-Length:5\r\n\r\nhello", Then::Stay, End::Reused),
            ("space before", b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello", Then::Stay, End::Reused),
            (
                "no value",
                b"HTTP/1.1 200 OK\r\nX-Empty:\r\nContent-Length: 5\r\n\r\nhello",
                Then::Stay,
                End::Reused,
            ),
            ("bare LF", b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", Then::Stay, End::Reused),
        ],
        &[],
    );
}

#[test]
fn frm_22_connection_is_a_list_in_any_letter_case() {
    check(
        &[
            (
                "close in a list",
                b"HTTP/1.1 200 OK\r\ncoNNection: keep-alive, CLOSE\r\nCONTENT-LENGTH: 2\r\n\r\nok",
                Then::Close,
                End::Replaced,
            ),
            (
                "close, and the server stays",
                b"HTTP/1.1 200 OK\r\nconnection: Close\r\ncontent-length: 2\r\n\r\nok",
                Then::Stay,
                End::Replaced,
            ),
            ("HTTP/1.0", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", Then::Close, End::Replaced),
            (
                "HTTP/1.0 that stays",
                b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok",
                Then::Stay,
                End::Reused,
            ),
        ],
        &[],
    );
}
