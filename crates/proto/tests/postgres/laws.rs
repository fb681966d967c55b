//! Laws that hold for whatever a server sends and however it is cut.

use proptest::prelude::*;

use plimsoll_proto::postgres::{MAX_KEPT_BYTES, Settings, TlsUse};
use plimsoll_proto::{Event, Value};

use crate::support::*;

const TRANSFER: &[&[&str]] = &[&["BEGIN", "UPDATE t SET a = $", "COMMIT"]];

/// A whole conversation: logging in and one request, with the server's bytes in pieces.
fn converse(pieces: &[&[u8]]) -> Vec<Event> {
    let mut talk = Talk::open(Settings { tls: TlsUse::Offered, ..settings() }, TRANSFER);
    let mut events = Vec::new();
    for piece in pieces {
        talk.hear(piece);
        let told = talk.told();
        if told.contains(&Event::Ready) {
            talk.start(1, 0, &[Value::Text("value")]);
        }
        events.extend(told);
    }
    talk.eof();
    events.extend(talk.told());
    events
}

fn login() -> Vec<u8> {
    let parsed = [message(b'1', b""), ready(b'I')].concat();
    [b"N".to_vec(), auth_ok(), key(1, 2), setting(), ready(b'I'), parsed.repeat(3)].concat()
}

fn server_message() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(row(b"12345")),
        Just(notice()),
        Just(setting()),
        Just(message(b'2', b"")),
        Just(message(b'C', b"SELECT 1\0")),
        Just(ready(b'I')),
        Just(ready(b'T')),
        Just(ready(b'E')),
        Just(error("ERROR", "40001", "no")),
        Just(error("FATAL", "57P01", "gone")),
        Just(error("ERROR", "40001", &"long ".repeat(MAX_KEPT_BYTES))),
        Just(message(b'G', b"\0\0\0")),
        (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(tag, body)| message(tag, &body)),
        proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #[test]
    fn what_is_told_does_not_depend_on_how_bytes_are_cut(
        messages in proptest::collection::vec(server_message(), 0..12),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let bytes = messages.concat();
        let login = login();
        let whole = converse(&[&login, &bytes]);
        let single: Vec<&[u8]> = std::iter::once(login.as_slice()).chain(bytes.chunks(1)).collect();
        prop_assert_eq!(&converse(&single), &whole);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let pieces = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        let pieces: Vec<&[u8]> = std::iter::once(login.as_slice()).chain(pieces).collect();
        prop_assert_eq!(&converse(&pieces), &whole);
    }

    #[test]
    fn a_request_ends_at_most_once_and_nothing_panics(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        logged_in in any::<bool>(),
    ) {
        let begin = if logged_in { login() } else { Vec::new() };
        let events = converse(&[&begin, &bytes]);
        let ends = events.iter().filter(|event| matches!(event, Event::Done { .. })).count();
        prop_assert_eq!(ends, usize::from(logged_in));
    }
}

#[test]
fn the_login_may_come_byte_by_byte() {
    let bytes = login();
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(converse(&single), converse(&[&bytes]));
}
