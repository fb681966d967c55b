//! Where answers end: the hard cases of HTTP/1.1 framing, each in every cut.
//!
//! Every vector goes through `exchange_however_cut`, so each test here is also the case FRM-05: the
//! bytes whole, byte by byte and cut at each single place give the same results.

use crate::support::*;
use plimsoll_proto::http1::{
    Http1, MAX_CHUNK_LINE_BYTES, MAX_FIELDS, MAX_HEAD_BYTES, MAX_INTERIM_HEADS, MAX_TRAILER_BYTES,
};
use plimsoll_proto::{Answer, Cancelled, Connection, Event, Fault, Token};

/// One line a vector: the exchange, what the peer sends, what becomes of it.
fn check(vectors: &[(Exchange, &str, Told)]) {
    for (kind, bytes, expected) in vectors {
        let told = exchange_however_cut(*kind, bytes.as_bytes());
        assert_eq!(&told, expected, "{kind:?}: {bytes:?}");
    }
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunked(body: &str) -> String {
    format!("{CHUNKED}{body}")
}

#[test]
fn frm_01_a_body_that_ends_with_the_connection_is_whole_and_the_connection_is_replaced() {
    check(&[
        (GET_FIN, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", last(200, 5)),
        (GET_FIN, "HTTP/1.0 200 OK\r\n\r\nhello", last(200, 5)),
        (GET_FIN, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nhello", last(200, 5)),
        (GET_FIN, "HTTP/1.1 200 OK\r\n\r\n", last(200, 0)),
        // Before the end nothing is told: a reset in its place is the caller's to report.
        (GET, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", open()),
    ]);
}

#[test]
fn frm_02_an_end_inside_an_answer_is_told_apart_from_one_before_it() {
    let inside = || failed(Fault::ClosedInResponse);
    check(&[
        (GET_FIN, "H", inside()),
        (GET_FIN, "HTTP/1.1 200 OK\r\nContent-Le", inside()),
        (GET_FIN, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r", inside()),
        (GET_FIN, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", inside()),
        (GET_FIN, "HTTP/1.1 100 Continue\r\n\r\n", inside()),
        (GET_FIN, &chunked("5\r\nhello\r\n"), inside()),
        (GET_FIN, &chunked("5\r\nhe"), inside()),
        (GET_FIN, &chunked("0\r\n"), inside()),
    ]);
    assert_eq!(exchange(GET_FIN, []), failed(Fault::ClosedBeforeResponse));
}

#[test]
fn frm_02_an_end_while_idle_fails_nothing() {
    let mut codec = Http1::new();
    let mut events = Vec::new();
    codec.eof(&mut events);
    assert_eq!(events, []);
}

#[test]
fn frm_04_trailers_and_extensions_are_read_and_ignored_and_the_connection_is_reused() {
    let five = |body: &str| exchange_however_cut(GET, chunked(body).as_bytes());
    for body in [
        "5\r\nhello\r\n0\r\nX-T: a\r\nX-U: b\r\n\r\n",
        "5;a=\"b;c\"\r\nhello\r\n0;x\r\n\r\n",
        "5 ; a = b\t\r\nhello\r\n0 \r\n\r\n",
        "0005\r\nhello\r\n0000\r\n\r\n",
        "2\r\nhe\r\n3\r\nllo\r\n0\r\nX-Empty:\r\nX-High: \u{e9}\r\n\r\n",
    ] {
        assert_eq!(five(body), ok(200, 5), "{body:?}");
    }
    for size in ["1a", "1A", "0001a"] {
        let body = format!("{size}\r\n{}\r\n0\r\n\r\n", "x".repeat(26));
        assert_eq!(five(&body), ok(200, 26), "{size}");
    }
    // Data that looks like framing is data.
    assert_eq!(five("5\r\n0\r\n\r\n\r\n0\r\n\r\n"), ok(200, 5));
}

#[test]
fn frm_04_chunked_framing_that_is_none_is_a_fault() {
    for (body, name) in [
        ("\r\n", "bad_chunk_size"),
        ("x\r\n", "bad_chunk_size"),
        ("-5\r\nhello", "bad_chunk_size"),
        ("0x5\r\nhello", "bad_chunk_size"),
        (" 5\r\nhello", "bad_chunk_size"),
        (";a\r\n", "bad_chunk_size"),
        ("5\nhello\n0\n\n", "bad_chunk_size"),
        ("5;a\nhello", "bad_chunk_size"),
        ("5\rhello", "bad_chunk_size"),
        ("5;a=\0\r\nhello", "bad_chunk_size"),
        ("5\r\nhello0\r\n\r\n", "bad_chunk_end"),
        ("5\r\nhello\n0\r\n\r\n", "bad_chunk_end"),
        ("5\r\nhello\rx", "bad_chunk_end"),
        ("10000000000000000\r\nhello", "chunk_too_large"),
        ("fffffffffffffffff\r\nhello", "chunk_too_large"),
        ("0\r\nHTTP/1.1 200 OK\r\n\r\n", "bad_trailer"),
        ("0\r\n X: folded\r\n\r\n", "bad_trailer"),
        ("0\r\nX-T: a\n\n", "bad_trailer"),
        ("0\r\n: a\r\n\r\n", "bad_trailer"),
        ("0\r\nX-T: \0\r\n\r\n", "bad_trailer"),
        ("0\r\n\rx", "bad_trailer"),
        ("0\r\n\n", "bad_trailer"),
    ] {
        assert_eq!(exchange_however_cut(GET, chunked(body).as_bytes()), fault(name), "{body:?}");
    }
    // The largest size there is can be announced, if never sent.
    assert_eq!(exchange_however_cut(GET, chunked("ffffffffffffffff\r\nhello").as_bytes()), open());
}

#[test]
fn frm_04_chunk_lines_and_trailers_are_bounded() {
    let line = |length: usize| format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(length - 2));
    let most = MAX_CHUNK_LINE_BYTES as usize;
    assert_eq!(exchange_however_cut(GET, chunked(&line(most)).as_bytes()), ok(200, 5));
    let beyond = chunked(&line(most + 1));
    assert_eq!(exchange_however_cut(GET, beyond.as_bytes()), fault("chunk_line_too_long"));
    let zeros = chunked(&"0".repeat(most + 1));
    assert_eq!(exchange_however_cut(GET, zeros.as_bytes()), fault("chunk_line_too_long"));

    let trailers = |lines: usize| format!("0\r\n{}\r\n", "X-T: abc\r\n".repeat(lines));
    let most = MAX_TRAILER_BYTES as usize / "X-T: abc".len();
    assert_eq!(exchange_however_cut(GET, chunked(&trailers(most)).as_bytes()), ok(200, 0));
    let beyond = chunked(&trailers(most + 1));
    assert_eq!(exchange_however_cut(GET, beyond.as_bytes()), fault("trailers_too_large"));
}

#[test]
fn frm_05_any_cut_gives_the_same_events() {
    // The vectors of the other tests are cut as well; this one is cut at every two places.
    let bytes = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nX: \r\n \tfolded\r\n\
        Transfer-Encoding: gzip, chunked\r\n\r\n3;e\r\nabc\r\n0\r\nT: a\r\n\r\n";
    for i in 0..=bytes.len() {
        for j in i..=bytes.len() {
            assert_eq!(
                exchange(GET, [&bytes[..i], &bytes[i..j], &bytes[j..]]),
                ok(200, 3),
                "cut at {i}, {j}"
            );
        }
    }
}

#[test]
fn frm_06_bytes_after_an_answer_end_the_connection_and_not_the_request() {
    let injected = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ninjected";
    check(&[
        (GET, &chunked(&format!("5\r\nhello\r\n0\r\n\r\n{injected}")), surplus(200, 5)),
        (GET, &format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello{injected}"), surplus(200, 5)),
        (GET, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n\n", surplus(200, 0)),
    ]);
}

#[test]
fn frm_06_bytes_on_an_idle_connection_never_answer_the_next_request() {
    let mut codec = Http1::new();
    assert_eq!(receive(&mut codec, b"HTTP/1.1 408 \r\n\r\n"), [Event::Surplus { bytes: 17 }]);
    assert_eq!(receive(&mut codec, b"more"), []);

    let mut codec = Http1::new();
    start(&mut codec, Token(1), GET);
    let events = receive(&mut codec, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabcde");
    let told: Vec<_> = events.iter().skip(1).copied().collect();
    let result = Ok(Answer::Http1 { status: 200, body_bytes: 2 });
    let done = Event::Done { token: Token(1), result, reusable: false };
    assert_eq!(told, [done, Event::Surplus { bytes: 3 }]);
}

#[test]
fn frm_09_long_heads_pass_up_to_the_limits() {
    let small: String = (0..150).map(|n| format!("X-{n}: {n}\r\n")).collect();
    let head = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\nok");
    let cookie = |bytes: usize| head(&format!("Set-Cookie: {}\r\n", "c".repeat(bytes)));
    let long = |text: String| exchange_however_cut(GET, text.as_bytes());
    assert_eq!(long(head(&small)), ok(200, 2));
    assert_eq!(long(cookie(65_536)), ok(200, 2));
    assert_eq!(long(cookie(100_000)), ok(200, 2));
    assert_eq!(long(cookie(300_000)), fault("head_too_large"));

    // To the byte and to the field.
    let most = MAX_HEAD_BYTES - (cookie(0).len() - 2);
    assert_eq!(long(cookie(most)), ok(200, 2));
    assert_eq!(long(cookie(most + 1)), fault("head_too_large"));
    assert_eq!(long(head(&"X: y\r\n".repeat(MAX_FIELDS - 1))), ok(200, 2));
    assert_eq!(long(head(&"X: y\r\n".repeat(MAX_FIELDS))), fault("too_many_headers"));
}

#[test]
fn frm_09_an_endless_head_stops_at_the_limit_with_bounded_memory() {
    let mut codec = Http1::new();
    start(&mut codec, Token(1), GET);
    receive(&mut codec, b"HTTP/1.1 200 OK\r\n");
    let (mut fed, mut events) = (17, Vec::new());
    while events.is_empty() {
        assert!(fed < 2 * MAX_HEAD_BYTES, "no end after {fed} bytes");
        events = receive(&mut codec, b"X-Endless: and another one\r\n");
        fed += 28;
    }
    let fault = Err(Fault::Protocol("head_too_large"));
    assert_eq!(events, [Event::Done { token: Token(1), result: fault, reusable: false }]);
    assert!(fed < MAX_HEAD_BYTES + 28 && codec.buffer_bytes() <= 2 * MAX_HEAD_BYTES);
}

#[test]
fn frm_10_interim_heads_are_skipped_and_counted() {
    let (early, end) =
        ("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    check(&[
        (GET, &format!("HTTP/1.1 100 Continue\r\n\r\n{end}"), ok(200, 2)),
        (GET, &format!("{early}{early}{end}"), ok(200, 2)),
        (GET, &format!("HTTP/1.1 103 \r\nContent-Length: 5\r\n\r\n{end}"), ok(200, 2)),
        (
            GET,
            &format!("HTTP/1.1 102 \r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{end}"),
            ok(200, 2),
        ),
        (GET, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", fault("unexpected_upgrade")),
        (HEAD, &format!("{early}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"), ok(200, 0)),
        (GET, early, open()),
    ]);
    let many = |count: u8| "HTTP/1.1 102 \r\n\r\n".repeat(usize::from(count)) + end;
    assert_eq!(exchange_however_cut(GET, many(MAX_INTERIM_HEADS).as_bytes()), ok(200, 2));
    let beyond = many(MAX_INTERIM_HEADS + 1);
    assert_eq!(exchange_however_cut(GET, beyond.as_bytes()), fault("too_many_interim_heads"));
}

#[test]
fn frm_10_the_first_byte_is_that_of_the_first_interim_head() {
    let mut codec = Http1::new();
    start(&mut codec, Token(3), GET);
    assert_eq!(receive(&mut codec, b"HTTP/1.1 103 \r\n\r\n"), [Event::FirstByte(Token(3))]);
    let events = receive(&mut codec, b"HTTP/1.1 204 \r\n\r\n");
    assert!(matches!(events[..], [Event::Done { reusable: true, .. }]), "{events:?}");
}

#[test]
fn frm_12_a_hundred_204_answers_use_one_connection() {
    let mut codec = Http1::new();
    for n in 0..100 {
        start(&mut codec, Token(n), GET);
        let events = receive(&mut codec, b"HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n");
        assert!(matches!(events[..], [_, Event::Done { result: Ok(_), reusable: true, .. }]), "{events:?}");
    }
    check(&[
        (GET, "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", ok(204, 0)),
        (GET, "HTTP/1.1 304 Not Modified\r\n\r\n", ok(304, 0)),
        (HEAD, "HTTP/1.1 200 OK\r\n\r\n", ok(200, 0)),
        (HEAD, "HTTP/1.1 200 OK\r\nContent-Length: nonsense\r\n\r\n", ok(200, 0)),
    ]);
}

#[test]
fn frm_14_a_body_where_none_may_be_fails_no_request() {
    check(&[
        (HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", surplus(200, 0)),
        (GET, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", surplus(204, 0)),
        (GET, "HTTP/1.1 304 Not Modified\r\n\r\nhello", surplus(304, 0)),
    ]);
}

#[test]
fn frm_15_answers_without_a_body_end_with_their_head() {
    check(&[
        (GET, "HTTP/1.1 304 Not Modified\r\nConnection: keep-alive\r\n\r\n", ok(304, 0)),
        (GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n", ok(304, 0)),
        (GET, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ok(200, 0)),
        (GET, "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", ok(205, 0)),
    ]);
}

#[test]
fn frm_16_an_empty_chunked_body_ends_with_its_last_line() {
    let mut codec = Http1::new();
    start(&mut codec, Token(1), GET);
    assert_eq!(receive(&mut codec, CHUNKED.as_bytes()), [Event::FirstByte(Token(1))]);
    assert_eq!(receive(&mut codec, b"0\r\n"), []);
    let events = receive(&mut codec, b"\r\n");
    assert!(matches!(events[..], [Event::Done { result: Ok(_), reusable: true, .. }]), "{events:?}");
    start(&mut codec, Token(2), GET);
    let events = receive(&mut codec, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert!(matches!(events[..], [_, Event::Done { token: Token(2), result: Ok(_), .. }]), "{events:?}");
}

#[test]
fn frm_18_a_folded_field_is_ignored_and_a_folded_framing_field_is_a_fault() {
    let folded = || fault("folded_framing_field");
    check(&[
        (GET, "HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\n\tc\r\nContent-Length: 2\r\n\r\nok", ok(200, 2)),
        (GET, "HTTP/1.1 200 OK\r\nX-A:\r\n Content-Length: 9\r\nContent-Length: 2\r\n\r\nok", ok(200, 2)),
        (GET, "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n ANY TEXT\r\n\r\n", folded()),
        (GET, "HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nok", folded()),
        (GET, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n \r\n\r\nok", folded()),
        (GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n", folded()),
        (GET, "HTTP/1.1 200 OK\r\nConnection: keep-alive,\r\n close\r\nContent-Length: 0\r\n\r\n", folded()),
        (GET, "HTTP/1.1 200 OK\r\n X-A: a\r\nContent-Length: 0\r\n\r\n", fault("bad_field")),
    ]);
}

#[test]
fn frm_20_odd_spacing_is_read_as_the_table_says() {
    check(&[
        (GET, "HTTP/1.1 200 OK\r\nContent-Length:5\r\n\r\nhello", ok(200, 5)),
        (GET, "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello", ok(200, 5)),
        (GET, "HTTP/1.1 200 OK\r\nContent-Length\t:\t 5 \t\r\n\r\nhello", ok(200, 5)),
        (GET, "HTTP/1.1 200 OK\r\nX-Empty:\r\nContent-Length: 5\r\n\r\nhello", ok(200, 5)),
        (GET, "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", ok(200, 5)),
        (GET, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\nhello", ok(200, 5)),
        (GET, "HTTP/1.1 200 OK\nContent-Length: 5\n\r\nhello", ok(200, 5)),
        (GET, "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", ok(200, 5)),
        (GET, "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello", ok(200, 5)),
        (GET, "HTTP/1.1 200 OK\r\nNo colon here\r\n\r\n", fault("bad_field")),
        (GET, "HTTP/1.1 200 OK\r\n: 5\r\n\r\n", fault("bad_field")),
        (GET, "HTTP/1.1 200 OK\r\nX-A: a\rContent-Length: 5\r\n\r\nhello", fault("bad_field")),
        (GET, "HTTP/1.1 200 OK\r\nX-A: \0\r\n\r\n", fault("bad_field")),
    ]);
}

#[test]
fn frm_20_what_is_no_http_1_is_refused_at_its_first_wrong_byte() {
    check(&[
        (GET, "garbage", fault("not_http1")),
        (GET, "HTTP/2", fault("not_http1")),
        (GET, "\r\nHTTP/1.1 200 OK\r\n\r\n", fault("not_http1")),
        (GET, "http/1.1 200 OK\r\n\r\n", fault("not_http1")),
        (GET, "HTTP/2.0 200 OK\r\n\r\n", fault("not_http1")),
        (GET, "ICY 200 OK\r\n\r\n", fault("not_http1")),
        (GET, "HTTP/1.2 200 OK\r\n\r\n", fault("unsupported_version")),
        (GET, "HTTP/1.1 20 OK\r\n\r\n", fault("bad_status_line")),
        (GET, "HTTP/1.1 2000 OK\r\n\r\n", fault("bad_status_line")),
        (GET, "HTTP/1.1 two OK\r\n\r\n", fault("bad_status_line")),
        (GET, "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", ok(999, 0)),
    ]);
}

#[test]
fn frm_22_connection_is_a_list_of_tokens_in_any_letter_case_over_any_lines() {
    let with = |fields: &str| {
        let bytes = format!("HTTP/1.1 200 OK\r\n{fields}CONTENT-LENGTH: 0\r\n\r\n");
        exchange_however_cut(GET, bytes.as_bytes())
    };
    assert_eq!(with("coNNection: keep-alive, CLOSE\r\n"), last(200, 0));
    assert_eq!(with("connection: Close\r\n"), last(200, 0));
    assert_eq!(with("Connection: Keep-Alive\r\nConnection: ,close ,\r\n"), last(200, 0));
    assert_eq!(with("Connection: closed, not-close\r\n"), ok(200, 0));
    assert_eq!(with("Connection:\r\n"), ok(200, 0));
    check(&[
        (GET, "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", last(200, 0)),
        (GET, "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n", ok(200, 0)),
        (GET, "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive, close\r\n\r\n", last(200, 0)),
        (GET, "HTTP/1.1 200 OK\r\ntransfer-encoding: CHUNKED\r\n\r\n0\r\n\r\n", ok(200, 0)),
    ]);
}

#[test]
fn frm_22_close_in_the_request_ends_the_connection_whatever_the_answer_says() {
    let close = Exchange { close: true, ..GET };
    check(&[(close, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", last(200, 0))]);
}

#[test]
fn lengths_that_contradict_themselves_are_never_guessed() {
    let bad = || fault("bad_content_length");
    let with = |value: &str| {
        let bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\nhello");
        exchange_however_cut(GET, bytes.as_bytes())
    };
    assert_eq!(with("5, 5"), ok(200, 5));
    assert_eq!(with("5\r\ncontent-length: 05"), ok(200, 5));
    assert_eq!(with(&"0".repeat(30)), surplus(200, 0));
    assert_eq!(with("18446744073709551615"), open());
    for value in [
        "",
        "5, 6",
        "6, 5, 5",
        "5\r\nContent-Length: 6",
        "5,",
        "-5",
        "+5",
        "5.0",
        "0x5",
        "5 5",
        "18446744073709551616",
    ] {
        assert_eq!(with(value), bad(), "{value:?}");
    }
}

#[test]
fn transfer_codings_decide_as_the_table_says() {
    let bad = || fault("bad_transfer_encoding");
    let with = |version: &str, fields: &str, kind: Exchange| {
        let bytes =
            format!("HTTP/{version} 200 OK\r\nTransfer-Encoding: {fields}\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
        exchange_however_cut(kind, bytes.as_bytes())
    };
    assert_eq!(with("1.1", "gzip, chunked", GET), ok(200, 3));
    assert_eq!(with("1.1", "gzip\r\nTransfer-Encoding: chunked,", GET), ok(200, 3));
    assert_eq!(with("1.1", "chunked\r\nContent-Length: 5", GET), last(200, 3));
    assert_eq!(with("1.1", "chunked\r\nContent-Length: five", GET), last(200, 3));
    assert_eq!(with("1.1", "gzip", GET), open());
    assert_eq!(with("1.1", "gzip", GET_FIN), last(200, 13));
    assert_eq!(with("1.1", "xchunked\r\nContent-Length: 5", GET_FIN), last(200, 13));
    for fields in [
        "",
        ",",
        "chunked, chunked",
        "chunked, gzip",
        "chunked;a=b",
        "chunked;",
        "a;b=\", chunked",
        ";, chunked",
    ] {
        assert_eq!(with("1.1", fields, GET), bad(), "{fields:?}");
    }
    assert_eq!(with("1.0", "chunked", GET), bad());
}

#[test]
fn frm_06_nothing_of_one_answer_is_left_for_the_next() {
    let interim = "HTTP/1.1 102 \r\n\r\n".repeat(usize::from(MAX_INTERIM_HEADS));
    let answers = [
        (format!("{interim}{}", chunked("3\r\nabc\r\n0\r\nT: a\r\n\r\n")), 200, 3),
        (format!("{interim}HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"), 404, 2),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), 204, 0),
    ];
    let mut codec = Http1::new();
    for (n, (bytes, status, body_bytes)) in answers.iter().cycle().take(9).enumerate() {
        let token = Token(n as u32);
        start(&mut codec, token, GET);
        let events: Vec<_> =
            bytes.as_bytes().chunks(5).flat_map(|piece| receive(&mut codec, piece)).collect();
        let result = Ok(Answer::Http1 { status: *status, body_bytes: *body_bytes });
        assert_eq!(events, [Event::FirstByte(token), Event::Done { token, result, reusable: true }]);
    }
}

#[test]
fn whole_heads_and_bodies_are_never_stored_and_long_heads_not_kept() {
    let mut codec = Http1::new();
    let answer = |field: usize| {
        let field = "x".repeat(field);
        format!("HTTP/1.1 200 OK\r\nX: {field}\r\nContent-Length: 50000\r\n\r\n{}", "b".repeat(50_000))
    };
    for (n, (field, cut, kept)) in
        [(1000, 60_000, 0), (100_000, 200_000, 0), (1000, 500, 4096), (100_000, 500, 0)]
            .into_iter()
            .enumerate()
    {
        start(&mut codec, Token(n as u32), GET);
        let done = answer(field).as_bytes().chunks(cut).flat_map(|piece| receive(&mut codec, piece)).last();
        assert!(matches!(done, Some(Event::Done { result: Ok(_), reusable: true, .. })));
        assert!(codec.buffer_bytes() <= kept, "{field}, {cut}: {} bytes kept", codec.buffer_bytes());
    }
}

#[test]
fn cancelling_a_busy_request_closes_and_its_answer_is_ignored() {
    let mut codec = Http1::new();
    start(&mut codec, Token(1), GET);
    receive(&mut codec, b"HTTP/1.1 200 OK\r\n");
    let mut out = Vec::new();
    assert_eq!(codec.cancel(Token(9), &mut out), Cancelled::KeepConnection);
    assert_eq!(codec.cancel(Token(1), &mut out), Cancelled::CloseConnection);
    assert_eq!(receive(&mut codec, b"Content-Length: 0\r\n\r\n"), []);
    let mut events = Vec::new();
    codec.eof(&mut events);
    assert_eq!(events, []);
}

#[test]
fn cancelling_a_request_that_has_ended_keeps_the_connection() {
    let mut codec = Http1::new();
    start(&mut codec, Token(1), GET);
    receive(&mut codec, b"HTTP/1.1 204 \r\n\r\n");
    assert_eq!(codec.cancel(Token(1), &mut Vec::new()), Cancelled::KeepConnection);
}
