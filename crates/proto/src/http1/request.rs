//! The bytes of a request's head, from what a user gave: checked once, before the run.
//!
//! Nothing here touches a body: the head names its length, and where that differs from request to
//! request the head comes in two parts with the number between them. What is written can hold one
//! request only: no line's end, no second `Host`, no second framing gets through.
//!
//! `${name}` may stand in a target or a value; it is left for the caller to fill in, and since
//! values are decimal numbers they change nothing that was checked.

use std::fmt;

/// Sent as `User-Agent` unless the user says otherwise.
pub const USER_AGENT: &str = concat!("plimsoll/", env!("CARGO_PKG_VERSION"));

/// What a request is to be.
#[derive(Clone, Copy, Debug)]
pub struct RequestSpec<'a> {
    /// The method, sent as it stands; `None` is GET, or POST with a body.
    pub method: Option<&'a str>,
    /// What follows the authority in the URL: sent byte for byte, but a fragment is cut off and a
    /// missing path is "/".
    pub target: &'a str,
    /// The value of `Host` where the user gave none; see [`host_value`].
    pub host: &'a str,
    /// The user's headers in order.
    pub headers: &'a [Header],
    /// What is known of the body.
    pub body: Body,
}

/// What is known of a request's body when its head is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    None,
    /// So many bytes in every request, 0 included.
    Fixed(u64),
    /// It differs from request to request.
    Varying,
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The bytes up to the value of `Content-Length`; all of the head where `after_length` is
    /// `None`.
    pub before_length: Vec<u8>,
    /// The bytes from the value of `Content-Length` up to the body. `None` when there is no body.
    pub after_length: Option<Vec<u8>>,
    /// The method is HEAD.
    pub head_only: bool,
    /// The request says `Connection: close`.
    pub close: bool,
}

/// A header as a user gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    name: String,
    /// Without space around it; `None` takes away the header that would be sent by itself.
    value: Option<String>,
}

impl Header {
    /// Reads `Name: value`. As in curl, `Name;` is a header with an empty value, and `Name:` takes
    /// away what would be sent by itself.
    ///
    /// # Errors
    ///
    /// The text is not of this form, the name is no token, or the value has a control byte.
    pub fn parse(text: &str) -> Result<Self, RequestError> {
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => {
                let value = value.trim_matches([' ', '\t']);
                (name, (!value.is_empty()).then_some(value))
            }
            None => match text.strip_suffix(';') {
                Some(name) => (name, Some("")),
                None => return Err(RequestError::HeaderForm(text.to_owned())),
            },
        };
        if !is_token(name) {
            return Err(RequestError::HeaderName(name.to_owned()));
        }
        if value.is_some_and(|value| value.bytes().any(|b| b.is_ascii_control() && b != b'\t')) {
            return Err(RequestError::HeaderValue(text.to_owned()));
        }
        Ok(Self { name: name.to_owned(), value: value.map(str::to_owned) })
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl RequestHead {
    /// Builds the head of `spec`.
    ///
    /// Its fields: `Host`; `User-Agent` and `Accept: */*` unless the user gave them; the user's in
    /// order; with a body `Content-Type: application/x-www-form-urlencoded` unless the user gave
    /// one, and `Content-Length`. Without a body POST, PUT and PATCH say `Content-Length: 0`.
    ///
    /// # Errors
    ///
    /// The first thing found that cannot be sent, with its remedy.
    pub fn build(spec: &RequestSpec<'_>) -> Result<Self, RequestError> {
        let default_method = if spec.body == Body::None { "GET" } else { "POST" };
        let method = spec.method.unwrap_or(default_method);
        check_method(method)?;
        let target = target(method, spec.target)?;
        let host = host(spec)?;
        refuse_repeated(spec.headers)?;
        let says_length = check_framing(spec)?;

        let mut head = Vec::with_capacity(512);
        for part in [method, " ", &target, " HTTP/1.1\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
        field(&mut head, "Host", host);
        let given = |name: &str| spec.headers.iter().any(|header| header.is(name));
        if !given("User-Agent") {
            field(&mut head, "User-Agent", USER_AGENT);
        }
        if !given("Accept") {
            field(&mut head, "Accept", "*/*");
        }
        for header in spec.headers.iter().filter(|h| !h.is("Host") && !h.is("Content-Length")) {
            if let Some(value) = &header.value {
                field(&mut head, &header.name, value);
            }
        }
        let after_length = if spec.body == Body::None {
            if says_length || matches!(method, "POST" | "PUT" | "PATCH") {
                field(&mut head, "Content-Length", "0");
            }
            head.extend_from_slice(b"\r\n");
            None
        } else {
            if !given("Content-Type") {
                field(&mut head, "Content-Type", "application/x-www-form-urlencoded");
            }
            head.extend_from_slice(b"Content-Length: ");
            Some(b"\r\n\r\n".to_vec())
        };
        let close = spec.headers.iter().filter(|header| header.is("Connection")).any(|header| {
            let value = header.value.as_deref().unwrap_or("");
            value.split(',').any(|token| token.trim().eq_ignore_ascii_case("close"))
        });
        Ok(Self { before_length: head, after_length, head_only: method == "HEAD", close })
    }
}

/// The value of `Host` for a URL's host and port: the port only where it is not the scheme's own,
/// an IPv6 address in brackets and without its zone, which means nothing to another machine (RFC
/// 6874, section 4). `host` may come with or without brackets.
pub fn host_value(host: &str, port: u16, default_port: u16) -> String {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let mut value = if bare.contains(':') {
        format!("[{}]", bare.split('%').next().unwrap_or(bare))
    } else {
        bare.to_owned()
    };
    if port != default_port {
        value.push_str(&format!(":{port}"));
    }
    value
}

/// A request cannot be sent as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The method is no token.
    Method(String),
    /// CONNECT asks for a tunnel.
    Connect,
    /// The target begins with neither "/" nor "?".
    TargetStart(String),
    /// The target holds a space or a control byte.
    TargetByte {
        /// The target.
        target: String,
        /// The byte.
        byte: u8,
    },
    /// A header is not of the form `Name: value`.
    HeaderForm(String),
    /// A header's name is no token.
    HeaderName(String),
    /// A header's value, here with its name, holds a control byte.
    HeaderValue(String),
    /// `Host` is empty or holds a space or a control byte.
    Host(String),
    /// A header was given twice that may stand in a request once.
    Repeated(String),
    /// `Content-Length` is not the body's.
    ContentLength {
        /// What was given.
        given: String,
        /// The body's length in bytes.
        body_bytes: u64,
    },
    /// `Content-Length` was given for a body whose length varies.
    VaryingLength(String),
    /// `Content-Length` was to be left out.
    LengthTakenAway,
    /// `Transfer-Encoding` was given.
    TransferEncoding(String),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method(method) => write!(
                f,
                "{method:?} is no HTTP method; give letters, digits and -, without spaces, such as GET"
            ),
            Self::Connect => write!(
                f,
                "the method CONNECT asks for a tunnel, whose bytes cannot be measured; give another method"
            ),
            Self::TargetStart(target) => {
                write!(f, "the request target {target:?} must begin with / or ?; put a / before it")
            }
            Self::TargetByte { target, byte } => write!(
                f,
                "the request target {target:?} holds the byte 0x{byte:02x}, which cannot be sent; \
                 write it as %{byte:02X}"
            ),
            Self::HeaderForm(text) => write!(
                f,
                "{text:?} is no header; give 'Name: value', 'Name;' for an empty value, or 'Name:' to \
                 leave out what is sent by itself"
            ),
            Self::HeaderName(name) => write!(
                f,
                "{name:?} is no header name; give letters, digits and -, with no space before the colon"
            ),
            Self::HeaderValue(text) => write!(
                f,
                "the header {text:?} holds a control byte (a line's end, perhaps), which cannot be sent; \
                 take it out, or give each header by itself"
            ),
            Self::Host(host) => write!(
                f,
                "the header Host is {host:?}, which names no host, but HTTP/1.1 needs one; give a name \
                 without spaces or leave Host out"
            ),
            Self::Repeated(name) => {
                write!(f, "the header {name} is given more than once; a request has one: give it once")
            }
            Self::ContentLength { given, body_bytes } => write!(
                f,
                "Content-Length: {given:?} is not the body's length of {body_bytes} bytes; leave the \
                 header out, it is always sent where it is needed"
            ),
            Self::VaryingLength(given) => write!(
                f,
                "Content-Length: {given:?} cannot be right for a body with variables; leave the header \
                 out, each request gets its own length"
            ),
            Self::LengthTakenAway => write!(
                f,
                "'Content-Length:' would leave that header out, and a server could not find the body's \
                 end; do not give it"
            ),
            Self::TransferEncoding(given) => write!(
                f,
                "Transfer-Encoding: {given:?} cannot be sent, bodies go out with Content-Length; leave the \
                 header out"
            ),
        }
    }
}

impl std::error::Error for RequestError {}

fn check_method(method: &str) -> Result<(), RequestError> {
    if !is_token(method) {
        return Err(RequestError::Method(method.to_owned()));
    }
    if method == "CONNECT" { Err(RequestError::Connect) } else { Ok(()) }
}

fn target(method: &str, given: &str) -> Result<String, RequestError> {
    let target = given.split('#').next().unwrap_or(given);
    if let Some(byte) = target.bytes().find(|b| b.is_ascii_control() || *b == b' ') {
        return Err(RequestError::TargetByte { target: target.to_owned(), byte });
    }
    match target.as_bytes() {
        [] | [b'?', ..] => Ok(format!("/{target}")),
        [b'/', ..] => Ok(target.to_owned()),
        b"*" if method == "OPTIONS" => Ok(target.to_owned()),
        _ => Err(RequestError::TargetStart(target.to_owned())),
    }
}

fn host<'a>(spec: &RequestSpec<'a>) -> Result<&'a str, RequestError> {
    let given = spec.headers.iter().find(|header| header.is("Host"));
    let host = given.map_or(spec.host, |header| header.value.as_deref().unwrap_or(""));
    let unfit = host.is_empty() || host.bytes().any(|b| b.is_ascii_control() || b == b' ');
    if unfit { Err(RequestError::Host(host.to_owned())) } else { Ok(host) }
}

/// Refuses more than one of the headers that servers read one of, each perhaps another one.
fn refuse_repeated(headers: &[Header]) -> Result<(), RequestError> {
    for name in ["Host", "Content-Length", "Content-Type", "User-Agent"] {
        if headers.iter().filter(|header| header.is(name)).count() > 1 {
            return Err(RequestError::Repeated(name.to_owned()));
        }
    }
    Ok(())
}

/// Checks the user's own words on where the body ends; true when they name its length.
fn check_framing(spec: &RequestSpec<'_>) -> Result<bool, RequestError> {
    let mut codings = spec.headers.iter().filter(|header| header.is("Transfer-Encoding"));
    if let Some(given) = codings.find_map(|header| header.value.clone()) {
        return Err(RequestError::TransferEncoding(given));
    }
    let Some(header) = spec.headers.iter().find(|header| header.is("Content-Length")) else {
        return Ok(false);
    };
    let given = header.value.clone().ok_or(RequestError::LengthTakenAway)?;
    let body_bytes = match spec.body {
        Body::None => 0,
        Body::Fixed(bytes) => bytes,
        Body::Varying => return Err(RequestError::VaryingLength(given)),
    };
    let digits = given.bytes().all(|b| b.is_ascii_digit());
    if digits && given.parse() == Ok(body_bytes) {
        Ok(true)
    } else {
        Err(RequestError::ContentLength { given, body_bytes })
    }
}

fn field(head: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, if value.is_empty() { ":" } else { ": " }, value, "\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(super::is_token_byte)
}
