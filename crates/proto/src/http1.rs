//! HTTP/1.1, the client's side: [`request`] makes the bytes of a request, [`Http1`] reads answers.
//!
//! Of an answer only what decides its end is read: status, length, persistence. Heads are parsed
//! where they lie in the caller's buffer; only one that came in pieces is copied. Bodies are
//! counted, never stored and never decoded. One request at a time: no pipelining.
//!
//! # Where an answer ends (RFC 9112, section 6.3)
//!
//! | the head says | the body |
//! |---|---|
//! | answer to HEAD, or status 204 or 304 | none, whatever else the head says |
//! | status 1xx | skipped with its fields, at most [`MAX_INTERIM_HEADS`]; 101 is a fault: no upgrade was asked for |
//! | `Transfer-Encoding` with `chunked` once and last | chunked; codings before it are not undone |
//! | the same and `Content-Length` | chunked, which overrides; the connection is not reused |
//! | `Transfer-Encoding` without `chunked` | up to the end of the connection |
//! | `Transfer-Encoding` empty, with `chunked` not last, twice, or with parameters, or any quote | fault |
//! | `Transfer-Encoding` in HTTP/1.0 | fault (section 6.1: the framing is faulty) |
//! | `Content-Length` of digits only, up to 2⁶⁴ − 1 | so many bytes |
//! | `Content-Length` several times or as a list, all equal | as one |
//! | the same, not all equal, or anything but digits | fault |
//! | none of these | up to the end of the connection |
//!
//! # What is tolerated
//!
//! | input | what is made of it |
//! |---|---|
//! | no space after the colon, an empty value | fine |
//! | space or tab between name and colon | taken away, as section 5.1 asks of those who read answers |
//! | bare LF as a line's end in a head (section 2.2) | a line's end |
//! | bare LF in chunked framing or trailers; bare CR anywhere | fault |
//! | a folded field (section 5.2) | fine, it is ignored like the rest |
//! | a folded `Content-Length`, `Transfer-Encoding` or `Connection` | fault |
//! | empty lines or anything else before the status line | fault |
//! | space or tab after a chunk's size; extensions, quoted or not | ignored |
//!
//! # The connection afterwards (RFC 9112, section 9.3)
//!
//! Reusable when the answer's end did not need the connection's end, the request did not say
//! `close`, and the answer says HTTP/1.1 without `close`, or HTTP/1.0 with `keep-alive` and without
//! `close`. `Connection` is a list of tokens in any letter case over any number of lines.
//!
//! Bytes that follow an answer belong to no request, so they never answer the next one: the
//! finished request stands, its connection is not reusable, and [`Event::Surplus`] tells how many
//! they were. So it is with bytes on an idle connection (a server's 408 before it closes, say).
//!
//! # Limits
//!
//! [`MAX_HEAD_BYTES`], [`MAX_FIELDS`], [`MAX_INTERIM_HEADS`], [`MAX_CHUNK_LINE_BYTES`] and
//! [`MAX_TRAILER_BYTES`]. Beyond each lies a fault of its own.
//!
//! # Faults
//!
//! | [`Fault::Protocol`] | what came |
//! |---|---|
//! | `not_http1` | something that does not begin with `HTTP/1.` |
//! | `unsupported_version` | `HTTP/1.` and neither 0 nor 1 |
//! | `bad_status_line`, `bad_field` | a line no grammar allows |
//! | `head_too_large`, `too_many_headers`, `too_many_interim_heads` | more than the limit |
//! | `unexpected_upgrade` | 101 |
//! | `folded_framing_field`, `bad_content_length`, `bad_transfer_encoding` | see the tables above |
//! | `bad_chunk_size`, `chunk_too_large`, `chunk_line_too_long`, `bad_chunk_end` | a chunk's line that is none, a size beyond 2⁶⁴ − 1, a line beyond the limit, data not followed by CRLF |
//! | `bad_trailer`, `trailers_too_large` | a trailer line that is no field, more than the limit |

mod chunked;
mod explain;
mod head;
pub mod request;

pub use chunked::{MAX_CHUNK_LINE_BYTES, MAX_TRAILER_BYTES};
pub use head::{MAX_FIELDS, MAX_HEAD_BYTES};

use std::borrow::Cow;

use crate::{Answer, Cancelled, Connection, Event, Fault, Request, Token};
use chunked::Chunked;
use explain::explain;
use head::{Head, Length};

/// Most interim heads (status 1xx) before a final one.
pub const MAX_INTERIM_HEADS: u8 = 100;

/// A buffer for heads that came in pieces is kept for the next one up to this size, in bytes:
/// most heads fit, and ten thousand connections hold no more than 40 MB of them.
const KEPT_BUFFER_BYTES: usize = 4096;

/// The codec of one HTTP/1.1 connection; the module's text says how it reads answers.
///
/// `start` is allowed when no request is busy and no event has said otherwise. After a fault all
/// further bytes are ignored.
#[derive(Debug)]
pub struct Http1 {
    phase: Phase,
    token: Token,
    status: u16,
    interim_heads: u8,
    head_only: bool,
    /// True while neither the request nor its answer has ended the connection's use.
    persistent: bool,
    /// True once a byte came for the busy request.
    heard: bool,
    /// Bytes of the body so far.
    body_bytes: u64,
    /// The bytes so far of a head that came in pieces; fewer than `MAX_HEAD_BYTES`.
    partial_head: Vec<u8>,
}

#[derive(Debug)]
enum Phase {
    /// No request is busy.
    Idle,
    /// A request is busy and no final head was read.
    Head,
    /// In a body with so many bytes still to come, at least one.
    Counted(u64),
    Chunked(Chunked),
    UntilClose,
    /// Bytes no longer mean anything.
    Closed,
}

impl Http1 {
    /// The codec of a connection that is not up yet.
    pub fn new() -> Self {
        Self {
            phase: Phase::Idle,
            token: Token(0),
            status: 0,
            interim_heads: 0,
            head_only: false,
            persistent: true,
            heard: false,
            body_bytes: 0,
            partial_head: Vec::new(),
        }
    }

    /// Bytes this codec holds on the heap.
    pub fn buffer_bytes(&self) -> usize {
        self.partial_head.capacity()
    }

    /// Takes bytes of the busy request's answer: how many were taken once it is whole, `None` when
    /// all were and more must come.
    fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, &'static str> {
        let mut at = 0;
        while matches!(self.phase, Phase::Head) {
            let Some((head, taken)) = self.take_head(&bytes[at..])? else { return Ok(None) };
            at += taken;
            if self.begin_body(&head)? {
                return Ok(Some(at));
            }
        }
        let rest = &bytes[at..];
        match &mut self.phase {
            Phase::Counted(left) => {
                let taken = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                self.body_bytes += taken as u64;
                Ok((*left == 0).then_some(at + taken))
            }
            Phase::Chunked(chunked) => {
                let end = chunked.take(rest, &mut self.body_bytes)?;
                Ok(end.map(|taken| at + taken))
            }
            Phase::UntilClose => {
                self.body_bytes += rest.len() as u64;
                Ok(None)
            }
            Phase::Idle | Phase::Head | Phase::Closed => Ok(None),
        }
    }

    /// Takes bytes of a head: the head and how many were taken once it is whole, `None` when all
    /// were taken and kept.
    fn take_head(&mut self, bytes: &[u8]) -> Result<Option<(Head, usize)>, &'static str> {
        let room = MAX_HEAD_BYTES - self.partial_head.len();
        let window = &bytes[..bytes.len().min(room)];
        if self.partial_head.is_empty() {
            if let Some(found) = head::parse(window)? {
                return Ok(Some(found));
            }
        } else if let Some(taken) = head::end(&self.partial_head, window) {
            self.partial_head.extend_from_slice(&window[..taken]);
            let parsed = head::parse(&self.partial_head)?;
            if self.partial_head.capacity() > KEPT_BUFFER_BYTES {
                self.partial_head = Vec::new();
            }
            self.partial_head.clear();
            // The end was found, so a parser that wants more is a parser that was misled.
            return parsed.map(|(head, _)| Some((head, taken))).ok_or("bad_field");
        }
        if window.len() == room {
            return Err("head_too_large");
        }
        self.partial_head.extend_from_slice(window);
        head::check_beginning(&self.partial_head)?;
        Ok(None)
    }

    /// Acts on a head; true when the answer ends with it.
    fn begin_body(&mut self, head: &Head) -> Result<bool, &'static str> {
        if (100..200).contains(&head.status) {
            if head.status == 101 {
                return Err("unexpected_upgrade");
            }
            self.interim_heads += 1;
            return if self.interim_heads > MAX_INTERIM_HEADS {
                Err("too_many_interim_heads")
            } else {
                Ok(false)
            };
        }
        self.status = head.status;
        self.persistent &= head.persistent;
        if self.head_only || matches!(head.status, 204 | 304) {
            return Ok(true);
        }
        match head.length {
            Length::Counted(0) => return Ok(true),
            Length::Counted(bytes) => self.phase = Phase::Counted(bytes),
            Length::Chunked => self.phase = Phase::Chunked(Chunked::new()),
            Length::UntilClose => self.phase = Phase::UntilClose,
            Length::Faulty(fault) => return Err(fault),
        }
        Ok(false)
    }

    fn answer(&self) -> Answer {
        Answer::Http1 { status: self.status, body_bytes: self.body_bytes }
    }

    fn fail(&mut self, fault: Fault, events: &mut Vec<Event>) {
        self.phase = Phase::Closed;
        events.push(Event::Done { token: self.token, result: Err(fault), reusable: false });
    }
}

impl Default for Http1 {
    fn default() -> Self {
        Self::new()
    }
}

impl Connection for Http1 {
    fn explain(&self, fault: Fault) -> Cow<'static, str> {
        let text = fault.common_text().unwrap_or_else(|| match fault {
            Fault::Protocol(name) => explain(name),
            _ => unreachable!("HTTP knows no other faults"),
        });
        text.into()
    }

    fn open(&mut self, _out: &mut Vec<u8>, events: &mut Vec<Event>) {
        events.push(Event::Ready);
    }

    fn start(&mut self, token: Token, request: Request<'_>, out: &mut Vec<u8>) {
        debug_assert!(matches!(self.phase, Phase::Idle) && self.persistent, "the connection is not free");
        let Request::Http1 { bytes, head_only, close } = request else {
            unreachable!("an HTTP connection is given HTTP requests");
        };
        self.phase = Phase::Head;
        self.token = token;
        self.interim_heads = 0;
        self.head_only = head_only;
        self.persistent = !close;
        self.heard = false;
        self.body_bytes = 0;
        out.extend_from_slice(bytes);
    }

    fn receive(&mut self, bytes: &[u8], _out: &mut Vec<u8>, events: &mut Vec<Event>) {
        if bytes.is_empty() {
            return;
        }
        match self.phase {
            Phase::Closed => return,
            Phase::Idle => {
                self.phase = Phase::Closed;
                events.push(Event::Surplus { bytes: bytes.len() });
                return;
            }
            _ => {}
        }
        if !self.heard {
            self.heard = true;
            events.push(Event::FirstByte(self.token));
        }
        match self.advance(bytes) {
            Ok(None) => {}
            Ok(Some(taken)) => {
                let surplus = bytes.len() - taken;
                self.phase = if surplus == 0 { Phase::Idle } else { Phase::Closed };
                let reusable = self.persistent && surplus == 0;
                events.push(Event::Done { token: self.token, result: Ok(self.answer()), reusable });
                if surplus > 0 {
                    events.push(Event::Surplus { bytes: surplus });
                }
            }
            Err(fault) => self.fail(Fault::Protocol(fault), events),
        }
    }

    fn eof(&mut self, events: &mut Vec<Event>) {
        match self.phase {
            Phase::Idle | Phase::Closed => self.phase = Phase::Closed,
            Phase::UntilClose => {
                self.phase = Phase::Closed;
                events.push(Event::Done { token: self.token, result: Ok(self.answer()), reusable: false });
            }
            Phase::Head | Phase::Counted(_) | Phase::Chunked(_) => {
                let fault = if self.heard { Fault::ClosedInResponse } else { Fault::ClosedBeforeResponse };
                self.fail(fault, events);
            }
        }
    }

    fn cancel(&mut self, token: Token, _out: &mut Vec<u8>) -> Cancelled {
        match self.phase {
            Phase::Closed => Cancelled::CloseConnection,
            // It has ended; nothing stands in the way of the next.
            Phase::Idle if self.persistent => Cancelled::KeepConnection,
            Phase::Head | Phase::Counted(_) | Phase::Chunked(_) | Phase::UntilClose
                if token != self.token =>
            {
                Cancelled::KeepConnection
            }
            _ => {
                self.phase = Phase::Closed;
                Cancelled::CloseConnection
            }
        }
    }
}

/// True for the bytes of a token (RFC 9110, section 5.6.2), such as a method or a field's name.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_idle_codecs_are_cheap() {
        assert!(size_of::<Http1>() < 100, "{} bytes", size_of::<Http1>());
        assert_eq!(Http1::new().buffer_bytes(), 0);
    }
}
