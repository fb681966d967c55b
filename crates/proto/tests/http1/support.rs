//! A peer made of bytes: what a codec tells of them, in whatever pieces they come.

use plimsoll_proto::http1::Http1;
use plimsoll_proto::{Answer, Connection, Event, Fault, Request, Token};

/// What became of one request, and of the connection after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// How the request ended; `None` when it had not when the bytes did.
    pub(crate) result: Option<Result<Answer, Fault>>,
    /// The connection can take another request.
    pub(crate) reusable: bool,
    /// Some bytes belonged to no request.
    pub(crate) surplus: bool,
}

/// How a request is made and how the bytes that answer it end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) head_only: bool,
    pub(crate) close: bool,
    pub(crate) fin: bool,
}

pub(crate) const GET: Exchange = Exchange { head_only: false, close: false, fin: false };
pub(crate) const HEAD: Exchange = Exchange { head_only: true, ..GET };
pub(crate) const GET_FIN: Exchange = Exchange { fin: true, ..GET };

pub(crate) fn start(codec: &mut Http1, token: Token, exchange: Exchange) {
    let mut out = Vec::new();
    let Exchange { head_only, close, .. } = exchange;
    let request = Request::Http1 { bytes: b"request", head_only, close };
    codec.start(token, request, &mut out);
    assert_eq!(out, b"request");
}

pub(crate) fn receive(codec: &mut Http1, bytes: &[u8]) -> Vec<Event> {
    let (mut out, mut events) = (Vec::new(), Vec::new());
    codec.receive(bytes, &mut out, &mut events);
    assert!(out.is_empty(), "an HTTP/1.1 client says nothing of its own");
    events
}

/// Feeds `pieces` as the answer to one request, and asserts what holds of every exchange: the first
/// byte is told once and first, at most one end, nothing after a surplus, buffers within bounds.
pub(crate) fn exchange<'a>(exchange: Exchange, pieces: impl IntoIterator<Item = &'a [u8]>) -> Told {
    let mut codec = Http1::new();
    let mut events = Vec::new();
    codec.open(&mut Vec::new(), &mut events);
    assert_eq!(events, [Event::Ready]);
    events.clear();
    start(&mut codec, Token(7), exchange);
    for piece in pieces {
        events.extend(receive(&mut codec, piece));
        assert!(codec.buffer_bytes() <= 2 * plimsoll_proto::http1::MAX_HEAD_BYTES);
    }
    if exchange.fin {
        codec.eof(&mut events);
    }
    let mut told = Told { result: None, reusable: false, surplus: false };
    let mut heard = false;
    for event in events {
        assert!(!told.surplus, "{event:?} after a surplus");
        match event {
            Event::FirstByte(token) => {
                assert_eq!((token, heard, told.result), (Token(7), false, None));
                heard = true;
            }
            Event::Done { token, result, reusable } => {
                assert_eq!((token, told.result), (Token(7), None));
                assert!(heard || result == Err(Fault::ClosedBeforeResponse));
                assert!(!(reusable && result.is_err()));
                told.result = Some(result);
                told.reusable = reusable;
            }
            Event::Surplus { bytes } => {
                assert!(bytes > 0 && told.result.is_some());
                told.surplus = true;
                told.reusable = false;
            }
            other => panic!("{other:?} was told"),
        }
    }
    told
}

/// The exchange with the bytes whole, after asserting that no cut changes it: byte by byte, and, for
/// all but very long inputs, at each single place.
pub(crate) fn exchange_however_cut(kind: Exchange, bytes: &[u8]) -> Told {
    let whole = exchange(kind, [bytes]);
    let single = bytes.chunks(1);
    assert_eq!(exchange(kind, single), whole, "byte by byte: {}", bytes.escape_ascii());
    if bytes.len() <= 4096 {
        for at in 1..bytes.len() {
            let (first, second) = bytes.split_at(at);
            let told = exchange(kind, [first, second]);
            assert_eq!(told, whole, "{} | {}", first.escape_ascii(), second.escape_ascii());
        }
    }
    whole
}

pub(crate) fn ok(status: u16, body_bytes: u64) -> Told {
    Told { result: Some(Ok(Answer::Http1 { status, body_bytes })), reusable: true, surplus: false }
}

pub(crate) fn last(status: u16, body_bytes: u64) -> Told {
    Told { reusable: false, ..ok(status, body_bytes) }
}

pub(crate) fn surplus(status: u16, body_bytes: u64) -> Told {
    Told { surplus: true, ..last(status, body_bytes) }
}

pub(crate) fn fault(name: &'static str) -> Told {
    failed(Fault::Protocol(name))
}

pub(crate) fn failed(fault: Fault) -> Told {
    Told { result: Some(Err(fault)), reusable: false, surplus: false }
}

/// No end yet.
pub(crate) fn open() -> Told {
    Told { result: None, reusable: false, surplus: false }
}
