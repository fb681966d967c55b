//! Reading HTTP/1.1 requests (RFC 9112), sans-IO: bytes in, whole requests out.
//!
//! The target answers every request alike, so of a request only what shapes the answer is kept;
//! bodies are skipped, whatever their length. Nothing grows beyond [`MOST_HEAD_BYTES`].

/// The longest request line and header together; more is answered 431.
pub const MOST_HEAD_BYTES: usize = 16 * 1024;

/// The most header fields; more is answered 431.
const MOST_HEADERS: usize = 100;

/// The longest line of a chunked body that is not data: a size with its extensions, a trailer.
const MOST_LINE_BYTES: usize = 4096;

/// The most trailer lines after a chunked body.
const MOST_TRAILERS: u32 = 100;

/// What the answer to a request depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET /truth`: the target's own account is asked for.
    pub wants_truth: bool,
    /// The shape of the answer.
    pub form: Form,
}

/// The shape of an answer, whatever its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// HEAD: the answer has no body.
    pub head_only: bool,
    /// The client accepts gzip.
    pub gzip: bool,
    /// What happens to the connection after the answer.
    pub persist: Persist,
}

impl Form {
    /// The shape of an answer to what was no request.
    pub const FAULT: Self = Self { head_only: false, gzip: false, persist: Persist::Close };
    /// The shape of what comes before an answer.
    pub const INTERIM: Self = Self { head_only: false, gzip: false, persist: Persist::Implied };
}

/// What happens to the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// Kept, as HTTP/1.1 does unless told otherwise.
    Implied,
    /// Kept, and said so in the answer, for a client of HTTP/1.0 that asked for it.
    Stated,
    /// Closed.
    Close,
}

/// What the reader found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The client waits for "100 Continue" before it sends its body.
    Continue,
    /// A request was read to its last byte.
    Request(Request),
}

/// What was read was no request; the connection can only be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It breaks the protocol: answered 400.
    Malformed,
    /// Its head is longer than [`MOST_HEAD_BYTES`] or has too many fields: answered 431.
    HeadTooLong,
}

/// Reads the requests of one connection.
///
/// Call [`RequestReader::next`] with the bytes received until it returns `None`; it takes from the
/// front of the slice what it used, and in the end all of it. After a fault it must not be called
/// again. Whatever way the bytes are cut into pieces, the events are the same, but for
/// [`Event::Continue`], which is left out when the body is there already.
#[derive(Debug, Default)]
pub struct RequestReader {
    state: State,
    /// The unfinished head or line; empty between requests and inside of bodies.
    kept: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// In the head, or between requests.
    #[default]
    Head,
    /// In a body with this many bytes to come.
    Body(Request, u64),
    /// In the line with a chunk's size.
    ChunkSize(Request),
    /// In a chunk's data with this many bytes to come.
    ChunkData(Request, u64),
    /// In the line break after a chunk's data.
    ChunkEnd(Request),
    /// In the trailers, this many lines read.
    Trailers(Request, u32),
}

impl RequestReader {
    /// The next event in `input`, `None` when more bytes are needed.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Fault> {
        loop {
            self.state = match self.state {
                State::Head => {
                    let Some(head) = self.head(input)? else { return Ok(None) };
                    match head.body {
                        Length::Bytes(0) => return Ok(Some(Event::Request(head.request))),
                        Length::Bytes(bytes) => self.state = State::Body(head.request, bytes),
                        Length::Chunked => self.state = State::ChunkSize(head.request),
                    }
                    if head.expects_continue && input.is_empty() {
                        return Ok(Some(Event::Continue));
                    }
                    continue;
                }
                State::Body(request, left) => match skip(input, left) {
                    0 => return self.whole(request),
                    left => {
                        self.state = State::Body(request, left);
                        return Ok(None);
                    }
                },
                State::ChunkSize(request) => {
                    if !self.line(input)? {
                        return Ok(None);
                    }
                    let Ok(httparse::Status::Complete((_, size))) = httparse::parse_chunk_size(&self.kept)
                    else {
                        return Err(Fault::Malformed);
                    };
                    if size == 0 { State::Trailers(request, 0) } else { State::ChunkData(request, size) }
                }
                State::ChunkData(request, left) => match skip(input, left) {
                    0 => State::ChunkEnd(request),
                    left => {
                        self.state = State::ChunkData(request, left);
                        return Ok(None);
                    }
                },
                State::ChunkEnd(request) => match self.line(input)? {
                    false => return Ok(None),
                    true if self.kept == b"\r\n" => State::ChunkSize(request),
                    true => return Err(Fault::Malformed),
                },
                State::Trailers(request, lines) => match self.line(input)? {
                    false => return Ok(None),
                    true if self.kept == b"\r\n" => return self.whole(request),
                    true if lines < MOST_TRAILERS => State::Trailers(request, lines + 1),
                    true => return Err(Fault::HeadTooLong),
                },
            };
            self.kept.clear();
        }
    }

    fn whole(&mut self, request: Request) -> Result<Option<Event>, Fault> {
        self.kept.clear();
        self.state = State::Head;
        Ok(Some(Event::Request(request)))
    }

    /// Takes a whole head from what is kept and `input`, or keeps what there is of it.
    fn head(&mut self, input: &mut &[u8]) -> Result<Option<Head>, Fault> {
        let before = self.kept.len();
        if before == 0
            && let Some((bytes, head)) = Head::parse(input)?
        {
            *input = &input[bytes..];
            return Ok(Some(head));
        }
        let taken = input.len().min(MOST_HEAD_BYTES - before);
        self.kept.extend_from_slice(&input[..taken]);
        if before > 0
            && let Some((bytes, head)) = Head::parse(&self.kept)?
        {
            // What was kept before was no whole head, so this one ends inside of `input`.
            *input = &input[bytes - before..];
            self.kept.clear();
            return Ok(Some(head));
        }
        *input = &input[taken..];
        if self.kept.len() == MOST_HEAD_BYTES { Err(Fault::HeadTooLong) } else { Ok(None) }
    }

    /// Takes bytes up to and with the next line feed into `kept`; true when it was found.
    fn line(&mut self, input: &mut &[u8]) -> Result<bool, Fault> {
        let end = input.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let taken = end.unwrap_or(input.len());
        if self.kept.len() + taken > MOST_LINE_BYTES {
            return Err(Fault::HeadTooLong);
        }
        self.kept.extend_from_slice(&input[..taken]);
        *input = &input[taken..];
        Ok(end.is_some())
    }
}

/// Skips up to `left` bytes; what is then left.
fn skip(input: &mut &[u8], left: u64) -> u64 {
    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
    *input = &input[taken..];
    left - taken as u64
}

struct Head {
    request: Request,
    body: Length,
    expects_continue: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Bytes(u64),
    Chunked,
}

impl Head {
    /// The head at the front of `bytes` and its length, `None` when its end is not there yet.
    fn parse(bytes: &[u8]) -> Result<Option<(usize, Self)>, Fault> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        let length = match head.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Fault::HeadTooLong),
            Err(_) => return Err(Fault::Malformed),
        };
        if length > MOST_HEAD_BYTES {
            return Err(Fault::HeadTooLong);
        }
        let is_1_1 = head.version == Some(1);
        let method = head.method.unwrap_or_default();
        let mut hosts = 0;
        let mut gzip = false;
        let mut connection = (false, false);
        let mut content_length = None;
        let mut chunked = false;
        let mut expects_continue = false;
        for header in head.headers.iter() {
            let name = header.name;
            if name.eq_ignore_ascii_case("host") {
                hosts += 1;
            } else if name.eq_ignore_ascii_case("connection") {
                connection.0 |= tokens(header.value).any(|token| token.eq_ignore_ascii_case(b"close"));
                connection.1 |= tokens(header.value).any(|token| token.eq_ignore_ascii_case(b"keep-alive"));
            } else if name.eq_ignore_ascii_case("content-length") {
                let number = digits(header.value).ok_or(Fault::Malformed)?;
                // Two lengths that differ, and below a length beside an encoding, are the marks
                // of request smuggling (RFC 9112, sections 6.2 and 6.3).
                if content_length.replace(number).is_some_and(|other| other != number) {
                    return Err(Fault::Malformed);
                }
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                if chunked || !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(Fault::Malformed);
                }
                chunked = true;
            } else if name.eq_ignore_ascii_case("accept-encoding") {
                gzip |= tokens(header.value).any(accepts_gzip);
            } else if name.eq_ignore_ascii_case("expect") {
                expects_continue = header.value.trim_ascii().eq_ignore_ascii_case(b"100-continue");
            }
        }
        if chunked && content_length.is_some() || is_1_1 && hosts != 1 || hosts > 1 {
            return Err(Fault::Malformed);
        }
        let persist = match connection {
            (true, _) => Persist::Close,
            _ if is_1_1 => Persist::Implied,
            (_, true) => Persist::Stated,
            _ => Persist::Close,
        };
        let request = Request {
            wants_truth: method == "GET" && head.path == Some("/truth"),
            form: Form { head_only: method == "HEAD", gzip, persist },
        };
        let body = if chunked { Length::Chunked } else { Length::Bytes(content_length.unwrap_or(0)) };
        Ok(Some((length, Self { request, body, expects_continue: expects_continue && is_1_1 })))
    }
}

/// The elements of a comma-separated field value.
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// True for `gzip`, `x-gzip` and `*` unless with a weight of zero (RFC 9110, section 12.5.3).
fn accepts_gzip(token: &[u8]) -> bool {
    let mut parts = token.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let coding = parts.next().unwrap_or_default();
    let named = [&b"gzip"[..], b"x-gzip", b"*"].iter().any(|name| coding.eq_ignore_ascii_case(name));
    let refused = parts.any(|part| match part {
        [b'q' | b'Q', b'=', weight @ ..] => weight.iter().all(|byte| matches!(byte, b'0' | b'.')),
        _ => false,
    });
    named && !refused
}

/// A number of decimal digits alone; no sign, nothing empty.
fn digits(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of `bytes` given in pieces cut at `cuts`.
    fn read(bytes: &[u8], cuts: &[usize]) -> (Vec<Event>, Option<Fault>) {
        let mut reader = RequestReader::default();
        let mut events = Vec::new();
        let mut from = 0;
        for to in cuts.iter().copied().chain([bytes.len()]) {
            let mut input = &bytes[from..to];
            from = to;
            loop {
                match reader.next(&mut input) {
                    Ok(Some(Event::Continue)) => {}
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break,
                    Err(fault) => return (events, Some(fault)),
                }
            }
            assert!(input.is_empty(), "bytes left over");
        }
        (events, None)
    }

    fn requests(text: &str) -> Vec<Request> {
        let (events, fault) = read(text.as_bytes(), &[]);
        assert_eq!(fault, None, "{text}");
        events
            .into_iter()
            .map(|event| match event {
                Event::Request(request) => request,
                Event::Continue => unreachable!("left out by read"),
            })
            .collect()
    }

    fn one(head: &str) -> Request {
        let found = requests(&format!("{head}\r\n\r\n"));
        assert_eq!(found.len(), 1, "{head}");
        found[0]
    }

    #[test]
    fn the_connection_is_kept_as_version_and_header_say() {
        for (head, persist) in [
            ("GET / HTTP/1.1\r\nHost: a", Persist::Implied),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close", Persist::Close),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: te, Close", Persist::Close),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive", Persist::Implied),
            ("GET / HTTP/1.0", Persist::Close),
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive", Persist::Stated),
        ] {
            assert_eq!(one(head).form.persist, persist, "{head}");
        }
    }

    #[test]
    fn gzip_is_used_only_where_it_is_accepted() {
        for (value, gzip) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("*", true),
            ("", false),
            ("br", false),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("identity, gzip;q=0.001", true),
        ] {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {value}");
            assert_eq!(one(&head).form.gzip, gzip, "{value}");
        }
    }

    #[test]
    fn only_get_truth_asks_for_the_truth() {
        assert!(one("GET /truth HTTP/1.1\r\nHost: a").wants_truth);
        assert!(!one("HEAD /truth HTTP/1.1\r\nHost: a").wants_truth);
        assert!(!one("GET /truths HTTP/1.1\r\nHost: a").wants_truth);
        assert!(one("HEAD / HTTP/1.1\r\nHost: a").form.head_only);
    }

    #[test]
    fn the_same_requests_are_read_wherever_the_bytes_are_cut() {
        let bytes = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\
            POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nGET /\
            POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
            3;name=\"value\"\r\nabc\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nTrailer: x\r\n\r\n\
            \r\nHEAD /4 HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n";
        let whole = read(bytes, &[]);
        assert_eq!(whole.0.len(), 4);
        assert_eq!(whole.1, None);
        for cut in 0..bytes.len() {
            assert_eq!(read(bytes, &[cut]), whole, "cut at {cut}");
        }
        assert_eq!(read(bytes, &(0..bytes.len()).collect::<Vec<_>>()), whole, "byte by byte");
    }

    #[test]
    fn a_client_that_waits_is_told_to_continue() {
        let mut reader = RequestReader::default();
        let mut input =
            &b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"[..];
        assert_eq!(reader.next(&mut input), Ok(Some(Event::Continue)));
        assert_eq!(reader.next(&mut input), Ok(None));
        assert!(matches!(reader.next(&mut &b"ab"[..]), Ok(Some(Event::Request(_)))));
    }

    #[test]
    fn what_breaks_the_protocol_is_a_fault() {
        for (text, fault) in [
            ("\0\r\n\r\n", Fault::Malformed),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Fault::Malformed),
            ("GET /\r\n\r\n", Fault::Malformed),
            // No host, and two.
            ("GET / HTTP/1.1\r\n\r\n", Fault::Malformed),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Fault::Malformed),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", Fault::Malformed),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n", Fault::Malformed),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", Fault::Malformed),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", Fault::Malformed),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                Fault::Malformed,
            ),
            ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Fault::Malformed),
            ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", Fault::Malformed),
            ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", Fault::Malformed),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
                Fault::Malformed,
            ),
        ] {
            assert_eq!(read(text.as_bytes(), &[]), (vec![], Some(fault)), "{text:?}");
        }
    }

    #[test]
    fn heads_are_read_up_to_the_limit_and_refused_above() {
        let head = |bytes: usize| {
            let frame = "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n";
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(bytes - frame.len()))
        };
        for cuts in [vec![], vec![10], (0..MOST_HEAD_BYTES).step_by(97).collect()] {
            // A head that reaches the limit unfinished is refused, so the longest is whole at it.
            let (events, fault) = read(head(MOST_HEAD_BYTES).as_bytes(), &cuts);
            assert_eq!((events.len(), fault), (1, None));
            let (events, fault) = read(head(MOST_HEAD_BYTES + 1).as_bytes(), &cuts);
            assert_eq!((events.len(), fault), (0, Some(Fault::HeadTooLong)));
        }
        let fields = "X: y\r\n".repeat(MOST_HEADERS);
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(read(text.as_bytes(), &[]).1, Some(Fault::HeadTooLong));
        let chunk = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;{}",
            "x".repeat(MOST_LINE_BYTES)
        );
        assert_eq!(read(chunk.as_bytes(), &[]).1, Some(Fault::HeadTooLong));
    }
}
