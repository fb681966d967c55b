//! Feeds the HTTP/1.1 codec whatever the fuzzer thinks of as an answer.
//!
//! The first byte says how the request was made, the second where the rest is cut; the rest is what
//! the peer sends before it closes. Asserted: no panic; the first byte is told once and first;
//! exactly one end; nothing after a surplus; the same results whole, cut in two and byte by byte;
//! a bounded buffer.
//!
//! From the repository's root, on the stable compiler:
//!
//! ```text
//! cargo install cargo-fuzz
//! cargo fuzz run -s none http1_response -- -dict=fuzz/http1.dict -max_total_time=60
//! ```
//!
//! `-s none` because sanitizers need a nightly compiler, and because the codec has no `unsafe`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_proto::http1::{Http1, MAX_HEAD_BYTES};
use plimsoll_proto::{Answer, Connection, Event, Fault, Request, Token};

fuzz_target!(|data: &[u8]| {
    let [how, cut, bytes @ ..] = data else { return };
    let request = Request::Http1 { bytes: b"", head_only: how & 1 != 0, close: how & 2 != 0 };
    let (first, second) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let whole = exchange(request, [bytes]);
    assert_eq!(exchange(request, [first, second]), whole);
    assert_eq!(exchange(request, bytes.chunks(1)), whole);
});

/// How the request ended, and whether some bytes belonged to no request.
///
/// Whether the connection could be used is left out: an answer that ends a piece cannot know of the
/// bytes in the next.
fn exchange<'a>(
    request: Request<'_>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Answer, Fault>, bool) {
    let (mut codec, mut out, mut events) = (Http1::new(), Vec::new(), Vec::new());
    codec.open(&mut out, &mut events);
    codec.start(Token(7), request, &mut out);
    for piece in pieces {
        codec.receive(piece, &mut out, &mut events);
        assert!(codec.buffer_bytes() <= 2 * MAX_HEAD_BYTES);
    }
    codec.eof(&mut events);
    assert!(out.is_empty());

    let mut heard = false;
    let mut end = None;
    let mut surplus = false;
    for event in &events[1..] {
        assert!(!surplus, "{event:?} after a surplus");
        match *event {
            Event::Ready => panic!("Ready twice"),
            Event::FirstByte(Token(7)) => {
                assert!(!heard && end.is_none());
                heard = true;
            }
            Event::Done { token: Token(7), result, reusable } => {
                assert!(end.is_none(), "two ends");
                assert!(heard || result == Err(Fault::ClosedBeforeResponse));
                assert!(!(reusable && result.is_err()));
                end = Some(result);
            }
            Event::Surplus { bytes } => {
                assert!(bytes > 0 && end.is_some());
                surplus = true;
            }
            _ => panic!("{event:?} of another request"),
        }
    }
    (end.expect("the connection's end ends the request"), surplus)
}
