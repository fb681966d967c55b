//! The answers, made once at the start: a head for every status and shape, one body each.

use std::io::{self, Write};

use crate::http::{Form, Persist};

/// The statuses the target answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 0,
    BadRequest = 1,
    HeadTooLong = 2,
    Error = 3,
    Unavailable = 4,
}

impl Status {
    const ALL: [Self; 5] = [Self::Ok, Self::BadRequest, Self::HeadTooLong, Self::Error, Self::Unavailable];

    const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::HeadTooLong => "431 Request Header Fields Too Large",
            Self::Error => "500 Internal Server Error",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

/// The interim answer to a client that waits before it sends its body.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Every answer the target can give but the truth.
pub(crate) struct Answers {
    /// By status.
    plain: Vec<Prepared>,
    /// The 200 answer, compressed.
    gzip: Option<Prepared>,
}

struct Prepared {
    /// By `Persist`.
    heads: [Vec<u8>; 3],
    body: Vec<u8>,
}

impl Answers {
    /// Answers whose 200 has a body of `body_bytes` (the word "ok", over and over).
    pub(crate) fn new(body_bytes: usize, gzip: bool) -> io::Result<Self> {
        let body: Vec<u8> = b"ok".iter().copied().cycle().take(body_bytes).collect();
        let gzip = if gzip {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(&body)?;
            let fields = "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n";
            Some(Prepared::new(Status::Ok, "text/plain", fields, encoder.finish()?))
        } else {
            None
        };
        let fields = if gzip.is_some() { "Vary: Accept-Encoding\r\n" } else { "" };
        let plain = Status::ALL
            .into_iter()
            .map(|status| match status {
                Status::Ok => Prepared::new(status, "text/plain", fields, body.clone()),
                _ => Prepared::new(status, "text/plain", "", format!("{}\n", status.line()).into_bytes()),
            })
            .collect();
        Ok(Self { plain, gzip })
    }

    /// Head and body of an answer.
    pub(crate) fn parts(&self, status: Status, form: Form) -> (&[u8], &[u8]) {
        let prepared = match &self.gzip {
            Some(gzip) if form.gzip && status == Status::Ok => gzip,
            _ => &self.plain[status as usize],
        };
        (&prepared.heads[form.persist as usize], if form.head_only { &[] } else { &prepared.body })
    }
}

impl Prepared {
    fn new(status: Status, content_type: &str, fields: &str, body: Vec<u8>) -> Self {
        let heads = [Persist::Implied, Persist::Stated, Persist::Close]
            .map(|persist| head(status, content_type, fields, persist, body.len()));
        Self { heads, body }
    }
}

/// A whole 200 answer with a JSON body.
pub(crate) fn json(persist: Persist, body: &[u8]) -> Box<[u8]> {
    let mut bytes = head(Status::Ok, "application/json", "", persist, body.len());
    bytes.extend_from_slice(body);
    bytes.into_boxed_slice()
}

fn head(status: Status, content_type: &str, fields: &str, persist: Persist, body_bytes: usize) -> Vec<u8> {
    let connection = match persist {
        Persist::Implied => "",
        Persist::Stated => "Connection: keep-alive\r\n",
        Persist::Close => "Connection: close\r\n",
    };
    format!(
        "HTTP/1.1 {}\r\nContent-Length: {body_bytes}\r\nContent-Type: {content_type}\r\n{fields}{connection}\r\n",
        status.line()
    )
    .into_bytes()
}
