//! A codec in a conversation with a server whose messages are written out.

use std::sync::Arc;

use plimsoll_proto::postgres::{Binding, Mode, Part, Postgres, Settings, Setup, Statement, TlsUse};
use plimsoll_proto::{Connection, Event, Request, Token, Value};

pub(crate) fn settings() -> Settings {
    Settings {
        user: "bob".to_owned(),
        password: Some(b"secret".to_vec()),
        database: "shop".to_owned(),
        settings: vec![("application_name".to_owned(), "plimsoll".to_owned())],
        tls: TlsUse::Never,
        binding: Binding::Prefer,
        mode: Mode::Prepared,
    }
}

/// A statement in which `$` stands for the next parameter.
pub(crate) fn statement(sql: &str) -> Statement {
    let mut parts = Vec::new();
    let mut parameters = 0;
    for (index, text) in sql.split('$').enumerate() {
        if index > 0 {
            parts.push(Part::Parameter(parameters));
            parameters += 1;
        }
        if !text.is_empty() {
            parts.push(Part::Text(text.to_owned()));
        }
    }
    Statement { parts, parameters }
}

/// A codec, and what it has sent and told since it was last asked.
pub(crate) struct Talk {
    pub(crate) codec: Postgres,
    sent: Vec<u8>,
    told: Vec<Event>,
}

impl Talk {
    /// A codec for these transactions whose connection is just there.
    pub(crate) fn open(settings: Settings, transactions: &[&[&str]]) -> Self {
        let transactions =
            transactions.iter().map(|statements| statements.iter().map(|sql| statement(sql)).collect());
        let setup = Setup::new(settings, transactions.collect());
        let mut talk = Self { codec: Postgres::new(Arc::new(setup)), sent: Vec::new(), told: Vec::new() };
        talk.codec.open(&mut talk.sent, &mut talk.told);
        talk
    }

    /// One that has logged in and had every statement parsed.
    pub(crate) fn ready(settings: Settings, transactions: &[&[&str]]) -> Self {
        let mut talk = Self::open(settings, transactions);
        let mut bytes = [auth_ok(), key(7, 99), ready(b'I')].concat();
        talk.hear(&bytes);
        let tried = frames(&talk.sent()).iter().filter(|(tag, _)| *tag == b'P').count();
        bytes.clear();
        (0..tried).for_each(|_| bytes.extend([message(b'1', b""), ready(b'I')].concat()));
        talk.hear(&bytes);
        assert_eq!(talk.told(), [Event::Ready]);
        talk
    }

    pub(crate) fn hear(&mut self, bytes: &[u8]) -> &mut Self {
        self.codec.receive(bytes, &mut self.sent, &mut self.told);
        self
    }

    pub(crate) fn eof(&mut self) -> &mut Self {
        self.codec.eof(&mut self.told);
        self
    }

    pub(crate) fn start(&mut self, token: u32, transaction: usize, values: &[Value<'_>]) -> &mut Self {
        let value = |index: usize| values[index];
        self.codec.start(Token(token), Request::Postgres { transaction, value: &value }, &mut self.sent);
        self
    }

    /// What was sent since it was last asked.
    pub(crate) fn sent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.sent)
    }

    /// The tags of the messages sent, in order.
    pub(crate) fn sent_tags(&mut self) -> String {
        frames(&self.sent()).iter().map(|(tag, _)| *tag as char).collect()
    }

    pub(crate) fn told(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.told)
    }
}

pub(crate) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag], length.as_slice(), body].concat()
}

/// The messages in `bytes`, each with its tag.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    while let [tag, l0, l1, l2, l3, rest @ ..] = bytes {
        // The first message of a connection has no tag: its length begins with zero.
        if *tag == 0 {
            let length = u32::from_be_bytes([*tag, *l0, *l1, *l2]) as usize;
            found.push((b'0', bytes[4..length].to_vec()));
            bytes = &bytes[length..];
            continue;
        }
        let length = u32::from_be_bytes([*l0, *l1, *l2, *l3]) as usize - 4;
        found.push((*tag, rest[..length].to_vec()));
        bytes = &rest[length..];
    }
    assert!(bytes.is_empty(), "a message was cut off: {bytes:?}");
    found
}

pub(crate) fn auth_ok() -> Vec<u8> {
    message(b'R', &0u32.to_be_bytes())
}

pub(crate) fn key(process: i32, key: i32) -> Vec<u8> {
    message(b'K', &[process.to_be_bytes(), key.to_be_bytes()].concat())
}

pub(crate) fn ready(status: u8) -> Vec<u8> {
    message(b'Z', &[status])
}

pub(crate) fn error(severity: &str, code: &str, text: &str) -> Vec<u8> {
    message(b'E', format!("S{severity}\0V{severity}\0C{code}\0M{text}\0\0").as_bytes())
}

pub(crate) fn notice() -> Vec<u8> {
    message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mhello\0\0")
}

pub(crate) fn setting() -> Vec<u8> {
    message(b'S', b"TimeZone\0UTC\0")
}

/// A row of one column.
pub(crate) fn row(value: &[u8]) -> Vec<u8> {
    message(b'D', &[&1u16.to_be_bytes(), (value.len() as u32).to_be_bytes().as_slice(), value].concat())
}

/// What answers a statement of the extended protocol that returns `rows`.
pub(crate) fn answer(rows: usize, status: u8) -> Vec<u8> {
    let mut bytes = message(b'2', b"");
    (0..rows).for_each(|_| bytes.extend(row(b"12345")));
    bytes.extend(message(b'C', b"SELECT 1\0"));
    bytes.extend(ready(status));
    bytes
}
