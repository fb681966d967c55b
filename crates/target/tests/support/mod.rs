//! A plain blocking client for the tests: one request, one answer, no cleverness.

#![allow(dead_code, reason = "every test program uses a part of it")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use plimsoll_target::{Running, Target, TargetConfig};

/// Guards against hanging; far above anything these tests wait for.
pub(crate) const HANG: Duration = Duration::from_secs(30);

pub(crate) const GET: &str = "GET / HTTP/1.1\r\nHost: target\r\n\r\n";

pub(crate) fn start(config: TargetConfig) -> Running {
    Target::start(config).expect("a target on a free port")
}

/// Parses a part of the configuration.
pub(crate) fn read<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().expect("one of the accepted forms")
}

/// An answer as it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Header fields, names in lower case.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) struct Client<S> {
    stream: BufReader<S>,
}

impl Client<TcpStream> {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the target accepts");
        stream.set_read_timeout(Some(HANG)).expect("a timeout above zero");
        stream.set_nodelay(true).expect("a TCP socket");
        Self::over(stream)
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).expect("the target reads");
    }

    /// Sends a request and reads its answer.
    pub(crate) fn ask(&mut self, request: &str) -> Answer {
        self.send(request);
        self.answer(request.starts_with("HEAD")).expect("an answer")
    }

    /// The next answer; an error of kind `UnexpectedEof` at the connection's end.
    pub(crate) fn answer(&mut self, head_only: bool) -> io::Result<Answer> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").expect("a header field");
            fields.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut answer = Answer { status, fields, body: Vec::new() };
        if !head_only && status >= 200 {
            let length = answer.field("content-length").and_then(|length| length.parse().ok());
            answer.body = vec![0; length.expect("every answer states its length")];
            self.stream.read_exact(&mut answer.body)?;
        }
        Ok(answer)
    }

    /// True when the connection ended in order, false when it was reset.
    pub(crate) fn ends_in_order(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(0) => true,
            Ok(_) => panic!("bytes in place of the end"),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("neither end nor reset: {error}"),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
