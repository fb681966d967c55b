//! One client's connection: bytes in and out, and the answers owed to it in order.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustls::{HandshakeKind, ServerConfig, ServerConnection};

use crate::answer::{Answers, CONTINUE, Status};
use crate::http::{Form, Persist, RequestReader};
use crate::io::{self as os, Interest};

/// Answers owed at which no more is read from a connection: a client that pipelines without
/// reading is held back by its own window. One read's requests may go beyond.
const MOST_OWED: usize = 1024;

/// Bytes read at a time.
const READ_BYTES: usize = 64 * 1024;

/// Reading room, shared by all connections.
pub(crate) struct Buffers {
    /// What came from the socket, encrypted.
    raw: Box<[u8]>,
    /// What the client said.
    pub(crate) plain: Box<[u8]>,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        // The plain text of one read is not longer than the read and one record begun before it
        // (16 KiB), so twice the length is enough.
        Self { raw: vec![0; READ_BYTES].into(), plain: vec![0; 2 * READ_BYTES].into() }
    }
}

/// What is read from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intake {
    /// Requests.
    Open,
    /// Bytes that mean nothing any more: the last request was read.
    Discarded,
    /// Nothing: the client has ended its side.
    Ended,
}

/// What a request gets.
pub(crate) enum Reply {
    /// Its turn has not come.
    Waiting,
    /// Not an answer: the client may send the body of its request.
    Continue,
    Answer(Status),
    /// A whole answer made for this request.
    Bytes(Box<[u8]>),
    /// The connection is closed in place of an answer.
    Close,
    /// The connection is reset in place of an answer.
    Reset,
}

/// Where writing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// All that could be answered is.
    Idle,
    /// The client does not read fast enough; go on when the socket is writable.
    Blocked,
    /// The last answer is out; the connection can be closed in order.
    Done,
    /// The connection is to be reset.
    Reset,
    /// The client is gone.
    Gone,
}

/// What one read brought.
pub(crate) struct Received {
    /// Length of what is in [`Buffers::plain`].
    pub(crate) bytes: usize,
    /// The client has ended its side.
    pub(crate) ended: bool,
    /// A TLS handshake was completed by it.
    pub(crate) handshake: Option<HandshakeKind>,
}

/// A connection could not be read.
pub(crate) enum ReceiveError {
    /// The client is gone.
    Gone,
    /// The client broke TLS; an alert may be left to send.
    Tls,
}

pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) reader: RequestReader,
    pub(crate) intake: Intake,
    /// The interest registered with the poller.
    pub(crate) interest: Interest,
    /// Closed for writing; waits for the client to close its side.
    pub(crate) lingers: bool,
    /// What it brought to the truth's counts, to take it back where it only asked for the truth.
    pub(crate) standing: Standing,
    tls: Option<Box<ServerConnection>>,
    owed: VecDeque<Owed>,
    /// Number of the first entry of `owed`; wraps around.
    front: u32,
    /// Bytes of the first answer owed that are written (or taken by TLS).
    sent: usize,
    blocked: bool,
    done: bool,
}

struct Owed {
    form: Form,
    reply: Reply,
}

/// A connection's part in the truth.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Standing {
    /// It was counted in this edition of the account, with this handshake, and brought no request.
    Fresh(u64, Option<HandshakeKind>),
    /// It stays counted, whatever comes.
    Counted,
}

impl Connection {
    /// A fresh connection, counted in `edition` of the account.
    pub(crate) fn new(socket: OwnedFd, tls: Option<&Arc<ServerConfig>>, edition: u64) -> io::Result<Self> {
        let tls = tls.map(|config| ServerConnection::new(config.clone()).map(Box::new)).transpose();
        Ok(Self {
            socket,
            reader: RequestReader::default(),
            intake: Intake::Open,
            interest: Interest::IN,
            lingers: false,
            standing: Standing::Fresh(edition, None),
            tls: tls.map_err(io::Error::other)?,
            owed: VecDeque::new(),
            front: 0,
            sent: 0,
            blocked: false,
            done: false,
        })
    }

    /// Reads once from the socket. An empty result is no end unless it says so.
    pub(crate) fn receive(&mut self, buffers: &mut Buffers) -> Result<Received, ReceiveError> {
        let nothing = Received { bytes: 0, ended: false, handshake: None };
        let plain = &mut buffers.plain;
        let (read, tls) = match &mut self.tls {
            Some(tls) if !self.lingers => (os::read(&self.socket, &mut buffers.raw), Some(tls)),
            _ => (os::read(&self.socket, &mut plain[..READ_BYTES]), None),
        };
        let read = match read {
            Ok(0) => return Ok(Received { ended: true, ..nothing }),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(nothing),
            Err(_) => return Err(ReceiveError::Gone),
        };
        match tls {
            Some(tls) => decrypt(tls, &buffers.raw[..read], plain),
            None => Ok(Received { bytes: read, ..nothing }),
        }
    }

    /// Notes that a request of this form is to be answered after those before it; its number.
    pub(crate) fn owe(&mut self, form: Form, reply: Reply) -> u32 {
        let number = self.front.wrapping_add(self.owed.len() as u32);
        self.owed.push_back(Owed { form, reply });
        number
    }

    /// Says what request `number` gets.
    pub(crate) fn settle(&mut self, number: u32, reply: Reply) {
        if let Some(owed) = self.owed.get_mut(number.wrapping_sub(self.front) as usize) {
            owed.reply = reply;
        }
    }

    /// Writes what can be written, in order.
    pub(crate) fn flush(&mut self, answers: &Answers) -> Flushed {
        match self.write_all(answers) {
            Ok(flushed) => {
                self.blocked = false;
                flushed
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.blocked = true;
                Flushed::Blocked
            }
            Err(_) => Flushed::Gone,
        }
    }

    /// What to wait for on the socket.
    pub(crate) fn wanted_interest(&self) -> Interest {
        let mut interest = Interest::empty();
        interest.set(Interest::IN, self.intake != Intake::Ended && self.owed.len() < MOST_OWED);
        interest.set(Interest::OUT, self.blocked);
        interest
    }

    /// Ends the writing side and waits for the client's end. Closing at once instead would reset
    /// the connection where unread bytes lie in the kernel, and the client could lose the answer
    /// (RFC 9112, section 9.6).
    pub(crate) fn linger(&mut self) {
        os::shut_writing(&self.socket);
        self.lingers = true;
        self.intake = Intake::Discarded;
        self.owed.clear();
        self.blocked = false;
    }

    fn write_all(&mut self, answers: &Answers) -> io::Result<Flushed> {
        loop {
            if let Some(tls) = &mut self.tls {
                while tls.wants_write() {
                    tls.write_tls(&mut Ciphertext(&self.socket))?;
                }
            }
            if self.done {
                return Ok(Flushed::Done);
            }
            let Some(owed) = self.owed.front() else {
                return Ok(if self.intake == Intake::Ended { Flushed::Done } else { Flushed::Idle });
            };
            let (head, body) = match &owed.reply {
                Reply::Waiting => return Ok(Flushed::Idle),
                Reply::Close => return Ok(Flushed::Done),
                Reply::Reset => return Ok(Flushed::Reset),
                Reply::Continue => (CONTINUE, &[][..]),
                Reply::Bytes(bytes) => (&bytes[..], &[][..]),
                Reply::Answer(status) => answers.parts(*status, owed.form),
            };
            let head_left = &head[self.sent.min(head.len())..];
            let body_left = &body[self.sent.saturating_sub(head.len())..];
            self.sent += match &mut self.tls {
                None => os::write(&self.socket, head_left, body_left)?,
                Some(tls) => {
                    let taken = tls.writer().write(head_left)?;
                    taken + if taken == head_left.len() { tls.writer().write(body_left)? } else { 0 }
                }
            };
            if self.sent == head.len() + body.len() {
                let last = owed.form.persist == Persist::Close;
                self.owed.pop_front();
                self.front = self.front.wrapping_add(1);
                self.sent = 0;
                self.done = last;
                if let (true, Some(tls)) = (last, &mut self.tls) {
                    tls.send_close_notify();
                }
            }
        }
    }
}

/// Decrypts what came from the socket into `plain`.
fn decrypt(tls: &mut ServerConnection, mut raw: &[u8], plain: &mut [u8]) -> Result<Received, ReceiveError> {
    let shook_hands = !tls.is_handshaking();
    let mut received = Received { bytes: 0, ended: false, handshake: None };
    while !raw.is_empty() && !received.ended {
        // No bytes are taken after the client's closing notice.
        if tls.read_tls(&mut raw).map_err(|_| ReceiveError::Tls)? == 0 {
            break;
        }
        tls.process_new_packets().map_err(|_| ReceiveError::Tls)?;
        loop {
            match tls.reader().read(&mut plain[received.bytes..]) {
                Ok(0) => {
                    received.ended = true;
                    break;
                }
                Ok(bytes) => received.bytes += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(ReceiveError::Gone),
            }
        }
    }
    if !shook_hands && !tls.is_handshaking() {
        received.handshake = tls.handshake_kind();
    }
    Ok(received)
}

/// The socket as rustls writes to it.
struct Ciphertext<'a>(&'a OwnedFd);

impl Write for Ciphertext<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        os::write(self.0, bytes, &[])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
