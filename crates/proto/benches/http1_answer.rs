//! What the codec costs an answer, in nanoseconds: `cargo bench -p plimsoll-proto`.
//!
//! One connection, request and answer in turn, nothing between them: start, receive, look at the
//! events. The least of several rounds is told, since everything else only adds.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use plimsoll_proto::http1::Http1;
use plimsoll_proto::{Connection, Event, Request, Token};

const ROUNDS: u32 = 15;
const ANSWERS: u32 = 200_000;

fn main() {
    let small = b"HTTP/1.1 200 OK\r\nServer: nginx/1.26.3\r\nDate: Tue, 02 Jun 2026 10:11:12 GMT\r\n\
        Content-Type: text/plain\r\nContent-Length: 12\r\nConnection: keep-alive\r\n\r\nHello world!"
        .to_vec();
    let chunked = b"HTTP/1.1 200 OK\r\nServer: nginx/1.26.3\r\nDate: Tue, 02 Jun 2026 10:11:12 GMT\r\n\
        Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n\
        c\r\nHello world!\r\n0\r\n\r\n"
        .to_vec();
    let mut large = b"HTTP/1.1 200 OK\r\nServer: nginx/1.26.3\r\nContent-Length: 80000\r\n\r\n".to_vec();
    large.resize(large.len() + 80_000, b'x');

    tell("small answer, whole", &[&small]);
    tell("small answer, cut inside the head", &[&small[..100], &small[100..]]);
    tell("chunked answer, whole", &[&chunked]);
    tell("80 kB answer in pieces of 16 KiB", &large.chunks(16 * 1024).collect::<Vec<_>>());
}

fn tell(name: &str, pieces: &[&[u8]]) {
    let request = Request::Http1 {
        bytes: b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: plimsoll\r\nAccept: */*\r\n\r\n",
        head_only: false,
        close: false,
    };
    let (mut codec, mut out, mut events) = (Http1::new(), Vec::new(), Vec::new());
    let mut least_ns = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for n in 0..ANSWERS {
            out.clear();
            codec.start(Token(n), black_box(request), &mut out);
            for piece in pieces {
                codec.receive(black_box(piece), &mut out, &mut events);
            }
            assert!(matches!(events.last(), Some(Event::Done { result: Ok(_), reusable: true, .. })));
            events.clear();
        }
        least_ns = least_ns.min(begin.elapsed().as_nanos() as f64 / f64::from(ANSWERS));
    }
    println!("{name}: {least_ns:.1} ns");
}
