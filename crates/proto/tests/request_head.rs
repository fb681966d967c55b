//! The bytes of a request's head: what users of curl expect, and nothing a server could read in two
//! ways.

use plimsoll_proto::http1::request::{
    Body, Header, RequestError, RequestHead, RequestSpec, USER_AGENT, host_value,
};
use proptest::prelude::*;

fn spec<'a>(method: Option<&'a str>, target: &'a str, headers: &'a [Header], body: Body) -> RequestSpec<'a> {
    RequestSpec { method, target, host: "h.test", headers, body }
}

fn headers(texts: &[&str]) -> Vec<Header> {
    texts.iter().map(|text| Header::parse(text).unwrap()).collect()
}

fn built(
    method: Option<&str>,
    target: &str,
    given: &[&str],
    body: Body,
) -> Result<RequestHead, RequestError> {
    RequestHead::build(&spec(method, target, &headers(given), body))
}

/// The lines of a head whose length, where it names one, is 3.
fn lines(method: Option<&str>, target: &str, given: &[&str], body: Body) -> Vec<String> {
    let head = built(method, target, given, body).unwrap();
    let mut bytes = head.before_length;
    if let Some(after) = head.after_length {
        bytes.push(b'3');
        bytes.extend(after);
    }
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.strip_suffix("\r\n\r\n").expect("a head ends with an empty line");
    lines.split("\r\n").map(str::to_owned).collect()
}

#[test]
fn a_plain_request_says_host_user_agent_and_accept() {
    let agent = format!("User-Agent: {USER_AGENT}");
    let expected = ["GET / HTTP/1.1", "Host: h.test", &agent, "Accept: */*"];
    assert_eq!(lines(None, "/", &[], Body::None), expected);
    assert!(USER_AGENT.starts_with("plimsoll/0"));
}

#[test]
fn cli_06_exactly_one_host_and_the_users_value_wins_in_any_letter_case() {
    for given in ["Host: a.test", "host: a.test", "HOST:a.test"] {
        let lines = lines(None, "/", &[given], Body::None);
        let hosts: Vec<_> = lines.iter().filter(|l| l.to_ascii_lowercase().starts_with("host:")).collect();
        assert_eq!(hosts, ["Host: a.test"], "{given}");
    }
}

#[test]
fn cli_06_an_empty_or_second_host_is_refused() {
    for given in ["Host:", "Host;", "host: ", "Host: a b"] {
        assert!(matches!(built(None, "/", &[given], Body::None), Err(RequestError::Host(_))), "{given}");
    }
    let twice = built(None, "/", &["Host: a", "hOST: b"], Body::None);
    assert_eq!(twice, Err(RequestError::Repeated("Host".into())));
}

#[test]
fn cli_06_the_users_headers_override_ours_and_others_stay_repeated_in_order() {
    let given = [
        "X-B: 1",
        "user-agent: mine",
        "x-b: 2",
        "content-type: text/plain",
        "ACCEPT: a/b",
        "X-A: 3",
        "X-B: 1",
    ];
    let lines = lines(None, "/", &given, Body::Fixed(3));
    let mut expected = vec!["POST / HTTP/1.1", "Host: h.test"];
    expected.extend([
        "X-B: 1",
        "user-agent: mine",
        "x-b: 2",
        "content-type: text/plain",
        "ACCEPT: a/b",
        "X-A: 3",
        "X-B: 1",
    ]);
    expected.push("Content-Length: 3");
    assert_eq!(lines, expected);
    for name in ["User-Agent", "Content-Type", "Content-Length"] {
        let given = [format!("{name}: 3"), format!("{}: 3", name.to_lowercase())];
        let twice = built(None, "/", &[&given[0], &given[1]], Body::Fixed(3));
        assert_eq!(twice, Err(RequestError::Repeated(name.into())));
    }
}

#[test]
fn as_in_curl_a_colon_takes_a_header_away_and_a_semicolon_makes_it_empty() {
    let lines = lines(None, "/", &["User-Agent:", "Accept;", "X-Empty;", "X-None:"], Body::None);
    assert_eq!(lines, ["GET / HTTP/1.1", "Host: h.test", "Accept:", "X-Empty:"]);
}

#[test]
fn cli_06_a_body_has_its_length_and_is_a_form_unless_the_user_says_otherwise() {
    let with_body = lines(None, "/", &[], Body::Varying);
    assert_eq!(with_body[0], "POST / HTTP/1.1");
    assert_eq!(with_body[4..], ["Content-Type: application/x-www-form-urlencoded", "Content-Length: 3"]);
    assert_eq!(lines(Some("GET"), "/", &[], Body::Fixed(3))[0], "GET / HTTP/1.1");
    for method in ["POST", "PUT", "PATCH"] {
        let lines = lines(Some(method), "/", &[], Body::None);
        assert_eq!(lines[4..], ["Content-Length: 0"], "{method}");
    }
    for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
        assert_eq!(lines(Some(method), "/", &[], Body::None).len(), 4, "{method}");
    }
}

#[test]
fn cli_17_the_users_content_length_must_be_the_bodys() {
    assert!(built(None, "/", &["Content-Length: 3"], Body::Fixed(3)).is_ok());
    assert_eq!(lines(None, "/", &["Content-Length: 0"], Body::None)[4..], ["Content-Length: 0"]);
    for (given, body) in
        [("99", Body::Fixed(3)), ("+3", Body::Fixed(3)), ("3, 3", Body::Fixed(3)), ("5", Body::None)]
    {
        let header = format!("content-length: {given}");
        let error = built(None, "/", &[&header], body).unwrap_err();
        assert!(matches!(error, RequestError::ContentLength { .. }), "{given}: {error}");
    }
    let varying = built(None, "/", &["Content-Length: 3"], Body::Varying);
    assert_eq!(varying, Err(RequestError::VaryingLength("3".into())));
    assert_eq!(built(None, "/", &["Content-Length:"], Body::Fixed(3)), Err(RequestError::LengthTakenAway));
}

#[test]
fn cli_17_transfer_encoding_is_refused_with_the_remedy() {
    let error = built(None, "/", &["transfer-ENCODING: chunked"], Body::Fixed(3)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Transfer-Encoding: \"chunked\" cannot be sent, bodies go out with Content-Length; leave the header out"
    );
}

#[test]
fn cli_07_host_has_the_port_only_where_it_is_not_the_schemes_own() {
    for (host, port, default_port, expected) in [
        ("h", 80, 80, "h"),
        ("h", 8080, 80, "h:8080"),
        ("h", 443, 443, "h"),
        ("h", 80, 443, "h:80"),
        ("127.0.0.1", 8080, 80, "127.0.0.1:8080"),
        ("::1", 8080, 80, "[::1]:8080"),
        ("[::1]", 80, 80, "[::1]"),
        ("fe80::1%25lo", 80, 80, "[fe80::1]"),
        ("[fe80::1%lo]", 81, 80, "[fe80::1]:81"),
        ("xn--bcher-kva.test", 80, 80, "xn--bcher-kva.test"),
    ] {
        assert_eq!(host_value(host, port, default_port), expected);
    }
}

#[test]
fn cli_08_the_target_is_sent_byte_for_byte() {
    for (given, sent) in [
        ("/a%2Fb//c/../d?x=%26&y=a+b&z=[1]|{2}&e=#frag", "/a%2Fb//c/../d?x=%26&y=a+b&z=[1]|{2}&e="),
        ("", "/"),
        ("?x=1", "/?x=1"),
        ("/?", "/?"),
        ("#top", "/"),
        ("//", "//"),
        ("/items/${id}?q=\"<>^`\\", "/items/${id}?q=\"<>^`\\"),
        ("/ü", "/ü"),
    ] {
        assert_eq!(lines(None, given, &[], Body::None)[0], format!("GET {sent} HTTP/1.1"));
    }
    assert_eq!(lines(Some("OPTIONS"), "*", &[], Body::None)[0], "OPTIONS * HTTP/1.1");
}

#[test]
fn cli_08_spaces_and_control_bytes_in_a_target_are_refused_with_the_remedy() {
    let error = built(None, "/a b", &[], Body::None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the request target \"/a b\" holds the byte 0x20, which cannot be sent; write it as %20"
    );
    for target in ["/\r\n", "/\0", "/\t", "/\x7f", "/ HTTP/1.1\r\nHost: b\r\n\r\n"] {
        assert!(
            matches!(built(None, target, &[], Body::None), Err(RequestError::TargetByte { .. })),
            "{target:?}"
        );
    }
    assert!(matches!(built(None, "a", &[], Body::None), Err(RequestError::TargetStart(_))));
}

#[test]
fn methods_are_tokens_and_never_connect() {
    for method in ["", "GE T", "GET\r\n", "GET:", "MÉTHODE"] {
        assert!(
            matches!(built(Some(method), "/", &[], Body::None), Err(RequestError::Method(_))),
            "{method:?}"
        );
    }
    assert_eq!(built(Some("CONNECT"), "/", &[], Body::None), Err(RequestError::Connect));
    assert_eq!(lines(Some("PURGE"), "/", &[], Body::None)[0], "PURGE / HTTP/1.1");
}

#[test]
fn headers_that_would_break_the_head_are_refused() {
    for text in ["X: a\r\nY: b", "X: a\nb", "X: a\0", "X: \x7f"] {
        assert!(matches!(Header::parse(text), Err(RequestError::HeaderValue(_))), "{text:?}");
    }
    for text in [": a", "X : a", "X Y: a", " X: a", "X\r\nY: a", ";"] {
        assert!(matches!(Header::parse(text), Err(RequestError::HeaderName(_))), "{text:?}");
    }
    assert!(matches!(Header::parse("X"), Err(RequestError::HeaderForm(_))));
}

#[test]
fn head_and_close_are_told_to_whoever_reads_the_answer() {
    let flags = |method, given: &[&str]| {
        let head = built(method, "/", given, Body::None).unwrap();
        (head.head_only, head.close)
    };
    assert_eq!(flags(None, &[]), (false, false));
    assert_eq!(flags(Some("HEAD"), &["Connection: keep-alive"]), (true, false));
    assert_eq!(flags(Some("head"), &["Connection: keep-alive", "connection: TE , CLOSE"]), (false, true));
    assert_eq!(flags(None, &["Connection: closed"]), (false, false));
}

proptest! {
    #[test]
    fn whatever_is_given_a_server_reads_one_request_with_one_host_and_one_framing(
        method in "[A-Z]{0,6}[ \r\n]?",
        target in "[/?]?[/?#a:]{0,8}[ \r\n]?",
        texts in proptest::collection::vec(
            "(Host|X|Content-Length|Transfer-Encoding|Connection) ?[:;][ a3\r\n:]{0,6}", 0..5),
        length in 0u64..5,
        has_body: bool,
    ) {
        let given: Vec<_> = texts.iter().filter_map(|text| Header::parse(text).ok()).collect();
        let body = if has_body { Body::Fixed(length) } else { Body::None };
        if let Ok(head) = RequestHead::build(&spec(Some(&method), &target, &given, body)) {
            let mut bytes = head.before_length;
            if let Some(after) = head.after_length {
                bytes.extend(length.to_string().bytes());
                bytes.extend(after);
            }
            let mut fields = [httparse::EMPTY_HEADER; 32];
            let mut request = httparse::Request::new(&mut fields);
            let parsed = request.parse(&bytes);
            prop_assert_eq!(parsed, Ok(httparse::Status::Complete(bytes.len())));
            prop_assert_eq!(request.method, Some(&*method));
            let count = |name: &str| request.headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name)).count();
            prop_assert_eq!(count("host"), 1);
            prop_assert_eq!(count("transfer-encoding"), 0);
            prop_assert!(count("content-length") <= 1);
            let told = request.headers.iter().find(|h| h.name == "Content-Length").map(|h| h.value);
            let expected = if has_body { length } else { 0 }.to_string();
            prop_assert!(told.is_none_or(|told| told == expected.as_bytes()));
            prop_assert!(!has_body || told.is_some());
        }
    }
}
