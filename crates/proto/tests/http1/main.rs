//! The HTTP/1.1 codec from outside: bytes in, events out.

mod framing;
mod laws;
mod support;
