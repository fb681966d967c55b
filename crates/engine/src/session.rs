//! The protocols, and what each connection of one begins with.

use std::sync::Arc;

use plimsoll_core::plan::{
    ChannelBinding, Operation, PostgresSession, QueryMode, Request, Session, SqlPart, Target,
};
use plimsoll_proto::Connection;
use plimsoll_proto::http1::Http1;
use plimsoll_proto::postgres::{self, Postgres};

/// A protocol, ready to begin on connections to one target.
#[derive(Clone, Debug)]
pub enum SessionSetup {
    /// HTTP/1.1.
    Http1,
    /// PostgreSQL.
    Postgres(Arc<postgres::Setup>),
}

impl SessionSetup {
    /// What `target` speaks; `operations` are all those of the plan that go to it.
    pub fn new<'a>(target: &Target, operations: impl Iterator<Item = &'a Operation>) -> Self {
        match &target.session {
            Session::Http1 => Self::Http1,
            Session::Postgres(session) => {
                let settings = settings(session, target.tls.is_some());
                let transactions = operations.map(|operation| match &operation.request {
                    Request::Postgres(statements) => statements.iter().map(statement).collect(),
                    Request::Http1(_) => unreachable!("operations speak their target's protocol"),
                });
                Self::Postgres(Arc::new(postgres::Setup::new(settings, transactions.collect())))
            }
        }
    }

    /// TLS comes before everything else; otherwise the protocol asks for it.
    pub(crate) fn begins_with_tls(&self) -> bool {
        matches!(self, Self::Http1)
    }

    /// Opening a connection costs both sides much, so that programs keep a fixed number of them: all are
    /// opened before the start, and a failed one is followed by a pause.
    pub(crate) fn opens_ahead(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// A server that cannot be had with TLS may be had without.
    pub(crate) fn tls_is_optional(&self) -> bool {
        matches!(self, Self::Postgres(setup) if setup.tls() == postgres::TlsUse::Offered)
    }

    /// The codec of a new connection, which asks for TLS as the plan wants unless it is `without_tls`.
    pub(crate) fn codec(&self, without_tls: bool) -> Box<dyn Connection> {
        match self {
            Self::Http1 => Box::new(Http1::new()),
            Self::Postgres(setup) if without_tls => Box::new(Postgres::without_tls(Arc::clone(setup))),
            Self::Postgres(setup) => Box::new(Postgres::new(Arc::clone(setup))),
        }
    }
}

fn settings(session: &PostgresSession, tls: bool) -> postgres::Settings {
    postgres::Settings {
        user: session.user.clone(),
        password: session.password.clone(),
        database: session.database.clone(),
        settings: session.settings.clone(),
        tls: match (tls, session.tls_required) {
            (false, _) => postgres::TlsUse::Never,
            (true, false) => postgres::TlsUse::Offered,
            (true, true) => postgres::TlsUse::Required,
        },
        binding: match session.channel_binding {
            ChannelBinding::Disable => postgres::Binding::Disable,
            ChannelBinding::Prefer => postgres::Binding::Prefer,
            ChannelBinding::Require => postgres::Binding::Require,
        },
        mode: match session.query_mode {
            QueryMode::Prepared => postgres::Mode::Prepared,
            QueryMode::Unnamed => postgres::Mode::Unnamed,
            QueryMode::Simple => postgres::Mode::Simple,
        },
    }
}

fn statement(statement: &plimsoll_core::plan::Statement) -> postgres::Statement {
    let part = |part: &SqlPart| match part {
        SqlPart::Text(text) => postgres::Part::Text(text.clone()),
        SqlPart::Parameter(index) => postgres::Part::Parameter(*index),
    };
    postgres::Statement {
        parts: statement.parts.iter().map(part).collect(),
        parameters: statement.parameters.len(),
    }
}
