//! Heads of answers: where one ends, and what it says of the body and the connection.
//!
//! Two parsers read a head. The first is strict, keeps its fields on the stack and serves nearly
//! all answers. What it refuses goes to the second, which also knows the forms that are tolerated,
//! and names the fault of those that are not.

use std::mem::MaybeUninit;

use httparse::{ParserConfig, Response, Status};

/// Longest head, in bytes, its empty line included.
pub const MAX_HEAD_BYTES: usize = 256 * 1024;

/// Most fields in a head.
pub const MAX_FIELDS: usize = 1000;

/// Fields the strict parser has room for: 2 KiB of stack.
const USUAL_FIELDS: usize = 64;

/// What a head says, so far as it matters here.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) length: Length,
    /// The connection may be used after this answer.
    pub(super) persistent: bool,
}

/// How the end of the body is found, where the status and the request allow one.
#[derive(Debug)]
pub(super) enum Length {
    Counted(u64),
    Chunked,
    UntilClose,
    /// It cannot be told, for the named reason. That is harmless where there is no body.
    Faulty(&'static str),
}

/// The head that `bytes` begin with and its length in bytes; `None` when its end is not among them.
///
/// A fault is told only when the end is there or the beginning is wrong, so that it makes no
/// difference in which pieces a head comes.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, &'static str> {
    check_beginning(bytes)?;
    let mut fields = [const { MaybeUninit::uninit() }; USUAL_FIELDS];
    let mut response = Response::new(&mut []);
    let parsed =
        ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut fields);
    match parsed {
        Ok(Status::Complete(length)) => Ok(Some((understand(&response), length))),
        Ok(Status::Partial) => Ok(None),
        Err(_) => match end(&[], bytes) {
            Some(length) => parse_unusual(&bytes[..length]).map(|head| Some((head, length))),
            None => Ok(None),
        },
    }
}

/// Refuses what cannot become a head of HTTP/1.x, from the first wrong byte on.
pub(super) fn check_beginning(bytes: &[u8]) -> Result<(), &'static str> {
    const BEGINNING: &[u8; 7] = b"HTTP/1.";
    let right = match bytes.first_chunk() {
        Some(beginning) => beginning == BEGINNING,
        None => BEGINNING.starts_with(bytes),
    };
    if right { Ok(()) } else { Err("not_http1") }
}

/// How many of `bytes` belong to the head that began with `before`, whose end is not in `before`;
/// `None` when it is not in `bytes` either.
pub(super) fn end(before: &[u8], bytes: &[u8]) -> Option<usize> {
    let blank_line = |bytes: &[u8]| match bytes {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    };
    let at_start = match before {
        [.., b'\n'] => blank_line(bytes),
        [.., b'\n', b'\r'] if bytes.first() == Some(&b'\n') => Some(1),
        _ => None,
    };
    at_start.or_else(|| {
        let mut at = 0;
        while let Some(line) = bytes[at..].iter().position(|b| *b == b'\n') {
            at += line + 1;
            if let Some(blank) = blank_line(&bytes[at..]) {
                return Some(at + blank);
            }
        }
        None
    })
}

/// The tolerant parser, for a whole head.
#[cold]
fn parse_unusual(bytes: &[u8]) -> Result<Head, &'static str> {
    let mut fields = vec![MaybeUninit::uninit(); MAX_FIELDS];
    let mut response = Response::new(&mut []);
    let parsed = ParserConfig::default()
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .parse_response_with_uninit_headers(&mut response, bytes, &mut fields);
    match parsed {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) => return Err("bad_field"),
        Err(error) => {
            return Err(match error {
                httparse::Error::Version => "unsupported_version",
                httparse::Error::Status => "bad_status_line",
                httparse::Error::TooManyHeaders => "too_many_headers",
                _ => "bad_field",
            });
        }
    }
    let names = response.headers.iter().map(|field| field.name);
    if names.filter(|name| Framing::named(name).is_some()).any(|name| folded(bytes, name)) {
        return Err("folded_framing_field");
    }
    Ok(understand(&response))
}

/// True when the value of the field whose `name` lies in `head` is folded: the parser hides that,
/// the lines do not.
fn folded(head: &[u8], name: &str) -> bool {
    let start = name.as_ptr().addr() - head.as_ptr().addr();
    let second_line = head[start..].split(|b| *b == b'\n').nth(1);
    matches!(second_line, Some([b' ' | b'\t', ..]))
}

/// The fields that decide where an answer and its connection end.
enum Framing {
    ContentLength,
    TransferEncoding,
    Connection,
}

impl Framing {
    #[inline]
    fn named(name: &str) -> Option<Self> {
        // The length is compared first: nearly every other field is told apart by it.
        match name.len() {
            14 if name.eq_ignore_ascii_case("content-length") => Some(Self::ContentLength),
            17 if name.eq_ignore_ascii_case("transfer-encoding") => Some(Self::TransferEncoding),
            10 if name.eq_ignore_ascii_case("connection") => Some(Self::Connection),
            _ => None,
        }
    }
}

fn understand(response: &Response<'_, '_>) -> Head {
    let mut length = None;
    let mut bad_length = false;
    let mut codings = None::<Codings>;
    let (mut close, mut keep_alive) = (false, false);
    for field in response.headers.iter() {
        match Framing::named(field.name) {
            None => {}
            Some(Framing::ContentLength) => {
                for item in items(field.value) {
                    let value = decimal(item);
                    bad_length |= value.is_none() || (length.is_some() && length != value);
                    length = value;
                }
            }
            Some(Framing::TransferEncoding) => codings.get_or_insert_default().add(field.value),
            Some(Framing::Connection) => {
                for token in items(field.value) {
                    close |= token.eq_ignore_ascii_case(b"close");
                    keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            }
        }
    }
    let http_1_1 = response.version == Some(1);
    let mut persistent = !close && (http_1_1 || keep_alive);
    let length = match (codings, length) {
        (Some(codings), length) => {
            // Two framings in one answer: the stronger one holds, but who knows what comes next.
            persistent &= length.is_none() && !bad_length;
            if http_1_1 { codings.length() } else { Length::Faulty("bad_transfer_encoding") }
        }
        (None, _) if bad_length => Length::Faulty("bad_content_length"),
        (None, Some(bytes)) => Length::Counted(bytes),
        (None, None) => Length::UntilClose,
    };
    // A complete head has a status; 0 is no status anyone can send.
    Head { status: response.code.unwrap_or(0), length, persistent }
}

/// The transfer codings, over all lines of the field.
#[derive(Default)]
struct Codings {
    any: bool,
    /// The last one so far is `chunked`.
    chunked_last: bool,
    faulty: bool,
}

impl Codings {
    fn add(&mut self, value: &[u8]) {
        // A quoted parameter could hide a comma or a coding's name.
        self.faulty |= value.contains(&b'"');
        for item in items(value).filter(|item| !item.is_empty()) {
            let name = item.split(|b| *b == b';').next().unwrap_or(item).trim_ascii();
            let chunked = name.eq_ignore_ascii_case(b"chunked");
            // Nothing may come after `chunked`, which knows no parameters.
            self.faulty |= self.chunked_last || name.is_empty() || (chunked && name.len() != item.len());
            self.any = true;
            self.chunked_last = chunked;
        }
    }

    fn length(&self) -> Length {
        match self {
            Self { faulty: true, .. } | Self { any: false, .. } => Length::Faulty("bad_transfer_encoding"),
            Self { chunked_last: true, .. } => Length::Chunked,
            _ => Length::UntilClose,
        }
    }
}

/// The items of a list divided by commas, without the space around them.
fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|b| *b == b',').map(|item| item.trim_ascii())
}

/// The number that `digits` are; `None` when they are anything but digits, none, or beyond `u64`.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}
