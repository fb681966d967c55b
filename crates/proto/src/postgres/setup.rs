//! What a connection must know before it begins: who comes, and which statements will be sent.

use bytes::BytesMut;
use postgres_protocol::message::frontend;

/// How statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Named prepared statements.
    Prepared,
    /// The unnamed prepared statement, parsed with each use.
    Unnamed,
    /// The simple protocol, values written into the text.
    Simple,
}

/// Whether TLS is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsUse {
    /// No.
    Never,
    /// Yes, and a server without it will do.
    Offered,
    /// Yes, and a server without it is refused.
    Required,
}

/// Whether a login by SCRAM is tied to TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Never.
    Disable,
    /// Where both sides can.
    Prefer,
    /// Always; a login without it is refused.
    Require,
}

/// Who comes, and how.
#[derive(Clone)]
pub struct Settings {
    /// The role.
    pub user: String,
    /// What it proves itself with, where it must.
    pub password: Option<Vec<u8>>,
    /// The database.
    pub database: String,
    /// Settings of the session, names and values.
    pub settings: Vec<(String, String)>,
    /// Whether TLS is asked for.
    pub tls: TlsUse,
    /// Whether the login is tied to it.
    pub binding: Binding,
    /// How statements are sent.
    pub mode: Mode,
}

/// A statement with places for values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// Its text in pieces.
    pub parts: Vec<Part>,
    /// How many parameters it has.
    pub parameters: usize,
}

/// A piece of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text as it is.
    Text(String),
    /// The place of the statement's parameter with this index, from 0.
    Parameter(usize),
}

impl Statement {
    /// Its text with `$1`, `$2` … in the places of its parameters.
    pub fn sql(&self) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Parameter(index) => format!("${}", index + 1),
        };
        self.parts.iter().map(part).collect()
    }
}

/// What all connections to a server share.
pub struct Setup {
    settings: Settings,
    transactions: Vec<Vec<Prepare>>,
    prepared: Vec<Prepared>,
}

/// A statement of a transaction, and which of the prepared ones it is.
struct Prepare {
    statement: Ready,
    prepared: Option<usize>,
}

/// A statement ready to be encoded.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) parts: Vec<Part>,
    pub(super) parameters: usize,
    /// The name it is prepared under; empty for none.
    pub(super) name: String,
}

/// A statement that is parsed by the server.
#[derive(Debug)]
pub(super) struct Prepared {
    sql: String,
    /// The message that has it parsed.
    pub(super) parse: Vec<u8>,
    /// It is a whole request in at least one place.
    pub(super) stands_alone: bool,
}

impl Setup {
    /// The set-up for connections that carry these `transactions`, each of one or more statements.
    ///
    /// # Panics
    /// When a statement contains a zero byte, which no text of SQL can.
    pub fn new(settings: Settings, transactions: Vec<Vec<Statement>>) -> Self {
        let mut this = Self { settings, transactions: Vec::new(), prepared: Vec::new() };
        for statements in transactions {
            let stands_alone = statements.len() == 1;
            let ready = statements.into_iter().map(|statement| this.prepare(statement, stands_alone));
            let ready = ready.collect();
            this.transactions.push(ready);
        }
        this
    }

    fn prepare(&mut self, statement: Statement, stands_alone: bool) -> Prepare {
        let sql = statement.sql();
        let Statement { parts, parameters } = statement;
        if self.settings.mode == Mode::Simple {
            return Prepare { statement: Ready { parts, parameters, name: String::new() }, prepared: None };
        }
        let index = match self.prepared.iter().position(|prepared| prepared.sql == sql) {
            Some(index) => index,
            None => {
                let name = self.name(&sql);
                let mut parse = BytesMut::new();
                frontend::parse(&name, &sql, [], &mut parse).expect("a statement has no zero byte");
                let parse = parse.to_vec();
                self.prepared.push(Prepared { sql, parse, stands_alone });
                self.prepared.len() - 1
            }
        };
        self.prepared[index].stands_alone |= stands_alone;
        let name = self.name(&self.prepared[index].sql);
        Prepare { statement: Ready { parts, parameters, name }, prepared: Some(index) }
    }

    /// The name a statement is prepared under. It is made of the text, since a pooler may hand out a session
    /// in which somebody has prepared statements before: what is there already under a name must be the
    /// same statement.
    fn name(&self, sql: &str) -> String {
        match self.settings.mode {
            Mode::Prepared => format!("plimsoll_{:016x}", fingerprint(sql.as_bytes())),
            Mode::Unnamed | Mode::Simple => String::new(),
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn mode(&self) -> Mode {
        self.settings.mode
    }

    /// Whether TLS is asked for.
    pub fn tls(&self) -> TlsUse {
        self.settings.tls
    }

    pub(super) fn prepared(&self) -> &[Prepared] {
        &self.prepared
    }

    pub(super) fn prepared_index(&self, transaction: usize, statement: usize) -> Option<usize> {
        self.transactions[transaction][statement].prepared
    }

    pub(super) fn transaction(&self, index: usize) -> impl Iterator<Item = &Ready> {
        self.transactions[index].iter().map(|prepare| &prepare.statement)
    }
}

/// 64 bits of a text by FNV-1a (Fowler, Noll, Vo).
fn fingerprint(text: &[u8]) -> u64 {
    text.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the password.
        f.debug_struct("Setup")
            .field("user", &self.settings.user)
            .field("database", &self.settings.database)
            .field("mode", &self.settings.mode)
            .field("prepared", &self.prepared)
            .finish_non_exhaustive()
    }
}
