//! Laws that hold for whatever a peer sends.

use crate::support::*;
use plimsoll_proto::Answer;
use proptest::prelude::*;

/// A valid answer to GET, and the bytes of its body.
fn answer() -> impl Strategy<Value = (Vec<u8>, u64)> {
    let field = "[A-Za-z-]{1,12}:[ \t]{0,2}[!-~]{0,20}[ \t]{0,2}";
    let fields = proptest::collection::vec(field.prop_map(|field| format!("X-{field}\r\n")), 0..80);
    let body = proptest::collection::vec(any::<u8>(), 0..200);
    (0..3usize, fields, body, proptest::option::of(1..50usize), 200u16..600).prop_map(
        |(interim, fields, body, chunk, status)| {
            let status = if matches!(status, 204 | 304) { 200 } else { status };
            let mut bytes = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n".repeat(interim);
            bytes.extend(format!("HTTP/1.1 {status} OK\r\n{}", fields.concat()).bytes());
            match chunk {
                None => {
                    bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                    bytes.extend(&body);
                }
                Some(size) => {
                    bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                    for data in body.chunks(size) {
                        bytes.extend(format!("{:x};a=\"b\"\r\n", data.len()).bytes());
                        bytes.extend(data);
                        bytes.extend(b"\r\n");
                    }
                    bytes.extend(b"0\r\nT: u\r\n\r\n");
                }
            }
            (bytes, body.len() as u64)
        },
    )
}

/// Bytes that are nearly an answer, so that they get far.
fn nearly_an_answer() -> impl Strategy<Value = Vec<u8>> {
    const PARTS: &[&str] = &[
        "HTTP/1.1 200 OK",
        "HTTP/1.0 200",
        "HTTP/1.1 103 ",
        "HTTP/1.1 204 No",
        "HTTP/1.1 101 ",
        "\r\n",
        "\n",
        "\r",
        "\r\n\r\n",
        "\r\n ",
        " ",
        ":",
        ",",
        ";",
        "\"",
        "Content-Length: 5",
        "Content-Length:",
        "Transfer-Encoding: ",
        "chunked",
        "gzip",
        "Connection: ",
        "close",
        "keep-alive",
        "X: y",
        "5\r\nhello\r\n",
        "0\r\n",
        "ffffffffffffffff",
        "1",
        "hello",
        "\0",
        "\u{ff}",
    ];
    proptest::collection::vec(proptest::sample::select(PARTS), 0..30)
        .prop_map(|parts| parts.concat().into_bytes())
}

/// Cuts `bytes` at the given places, taken modulo its length.
fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn frm_05_a_valid_answer_is_read_to_its_last_byte_however_it_is_cut(
        (bytes, body_bytes) in answer(),
        cuts in proptest::collection::vec(any::<usize>(), 0..8),
    ) {
        let told = exchange(GET, pieces(&bytes, &cuts));
        prop_assert!(told.reusable && !told.surplus);
        let Ok(Answer::Http1 { body_bytes: counted, .. }) = told.result.unwrap() else {
            return Err(TestCaseError::fail("no answer"));
        };
        prop_assert_eq!(counted, body_bytes);
        // One byte less is no answer yet.
        prop_assert_eq!(exchange(GET, pieces(&bytes[..bytes.len() - 1], &cuts)), open());
    }

    #[test]
    fn frm_05_whatever_comes_is_read_alike_however_it_is_cut(
        bytes in nearly_an_answer(),
        cuts in proptest::collection::vec(any::<usize>(), 0..8),
        head_only: bool,
        close: bool,
        fin: bool,
    ) {
        let kind = Exchange { head_only, close, fin };
        let told = exchange_however_cut(kind, &bytes);
        prop_assert_eq!(&exchange(kind, pieces(&bytes, &cuts)), &told);
        // The connection's end ends every request.
        prop_assert!(!fin || told.result.is_some());
    }

    #[test]
    fn frm_02_arbitrary_bytes_and_an_end_give_exactly_one_result(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        after_head: bool,
    ) {
        let mut sent = if after_head { b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec() } else { vec![] };
        sent.extend(&bytes);
        prop_assert!(exchange_however_cut(GET_FIN, &sent).result.is_some());
    }
}
