//! Sentences for what went wrong: the server's own text, and what to do about it.

use std::borrow::Cow;

use super::setup::Setup;
use crate::{Fault, SqlState};

/// What the server said of its last error. Its buffers are used again.
#[derive(Debug)]
pub(super) struct ServerError {
    state: [u8; 5],
    fatal: bool,
    text: String,
}

impl Default for ServerError {
    fn default() -> Self {
        Self { state: *b"XX000", fatal: false, text: String::new() }
    }
}

impl ServerError {
    /// Reads the body of an error: fields, each a letter and a text that a zero byte ends. A field that
    /// was cut off is left out.
    ///
    /// # Errors
    /// When there is no code in it.
    pub(super) fn read(&mut self, body: &[u8]) -> Result<(), ()> {
        let mut severity = Cow::Borrowed("ERROR");
        let [mut message, mut detail, mut hint, mut position] = [const { Cow::Borrowed("") }; 4];
        let mut state = None;
        let mut rest = body;
        while let Some((letter, tail)) = rest.split_first().filter(|(letter, _)| **letter != 0) {
            let Some(end) = tail.iter().position(|byte| *byte == 0) else { break };
            // Before the login a server speaks in its own encoding.
            let value = String::from_utf8_lossy(&tail[..end]);
            rest = &tail[end + 1..];
            match letter {
                b'V' => severity = value,
                // The same in the server's language; servers before 9.6 send no other.
                b'S' if severity == "ERROR" => severity = value,
                b'C' => state = code(&value),
                b'M' => message = value,
                b'D' => detail = value,
                b'H' => hint = value,
                b'P' => position = value,
                _ => {}
            }
        }
        self.state = state.ok_or(())?;
        self.fatal = matches!(&*severity, "FATAL" | "PANIC");
        self.text.clear();
        self.text.push_str(&message);
        for (before, part, after) in
            [(" at character ", &position, ""), (" (", &detail, ")"), ("; the server's hint: ", &hint, "")]
        {
            if !part.is_empty() {
                self.text.push_str(before);
                self.text.push_str(part.trim_end_matches('.'));
                self.text.push_str(after);
            }
        }
        // What is printed must not steer the terminal or break a line.
        if self.text.contains(char::is_control) {
            self.text = self.text.replace(char::is_control, " ");
        }
        Ok(())
    }

    pub(super) fn state(&self) -> SqlState {
        SqlState(self.state)
    }

    pub(super) fn is_fatal(&self) -> bool {
        self.fatal
    }
}

/// A code of five digits or capital letters.
fn code(text: &str) -> Option<[u8; 5]> {
    let code: [u8; 5] = text.as_bytes().try_into().ok()?;
    code.iter().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()).then_some(code)
}

/// A sentence for `fault`; `error` is what the server said last.
pub(super) fn explain(fault: Fault, error: &ServerError, setup: &Setup) -> Cow<'static, str> {
    if let Some(text) = fault.common_text() {
        return text.into();
    }
    match fault {
        Fault::SqlState(state) => match remedy(state, &error.text) {
            Some(remedy) => format!("{}; {remedy}", error.text).into(),
            None => error.text.clone().into(),
        },
        Fault::Protocol("password_missing") => format!(
            "the server asks for a password for the role '{}', and none was given; put it into the URL, \
             PGPASSWORD or the password file (~/.pgpass)",
            setup.settings().user
        )
        .into(),
        Fault::Protocol(name) => protocol(name).into(),
        Fault::ClosedBeforeResponse | Fault::ClosedInResponse => unreachable!("told above"),
    }
}

/// What to do about an error. Codes are those of PostgreSQL's documentation, appendix A.
fn remedy(state: SqlState, text: &str) -> Option<&'static str> {
    Some(match &state.0 {
        b"28P01" => "give the right password in the URL, PGPASSWORD or the password file (~/.pgpass)",
        b"28000" if text.contains("no encryption") || text.contains("SSL off") => {
            "a server that lets in over TLS only needs sslmode=require; otherwise see its pg_hba.conf"
        }
        b"28000" => "check the role's name and the server's pg_hba.conf",
        b"3D000" => "name a database that exists: postgres://HOST/DATABASE",
        b"42601" => "correct the statement given with --sql or --sql-file",
        b"42P01" | b"42703" | b"42883" | b"3F000" => {
            "check the statement's names, and that the URL names the database that has them"
        }
        b"42P18" => "write the parameter's type into the statement, such as $1::int",
        b"42P02" => "give a --param for each of $1, $2, … in the statement",
        b"26000" | b"42P05" => {
            "a pooler that shares sessions loses prepared statements: use --query-mode unnamed"
        }
        b"08P01" if text.contains("prepared statement") || text.contains("bind message") => {
            "give a --param for each of $1, $2, … in the statement"
        }
        b"0A000" if text.contains("prepared statement") => "use --query-mode unnamed or simple",
        b"53300" => "use fewer --connections or --clients, or raise the server's max_connections",
        b"57P03" => "wait until the server has started",
        b"22P02" | b"22003" => "give a --param whose values fit the statement's types",
        _ => return None,
    })
}

fn protocol(name: &'static str) -> &'static str {
    match name {
        "not_postgres" => "what answers is no PostgreSQL server; check the host and port",
        "bad_message" => "the server sent a message that the protocol does not allow there",
        "tls_refused" => {
            "the server takes no TLS; use sslmode=prefer or sslmode=disable, or switch its ssl on"
        }
        "bytes_before_tls" => {
            "bytes came before TLS began, which a third party may have put in; the way to the server cannot be trusted"
        }
        "unsupported_authentication" => {
            "the server asks for a way of authentication other than password, md5 and scram-sha-256, which are \
             those supported; change its pg_hba.conf for this role"
        }
        "channel_binding_missing" => {
            "channel_binding=require, and the server's login cannot be tied to TLS; use scram-sha-256 over TLS, or channel_binding=prefer"
        }
        "bad_scram" => "the server's part of SCRAM is not what the standard says; check what stands between",
        "server_unproved" => {
            "the server did not prove that it knows the password, so it may be another one; check the host"
        }
        "zero_byte_in_login" => "a user, database, password or setting has a zero byte; leave it out",
        "closed_in_login" => {
            "the server closed the connection while logging in; see its log, and check the port"
        }
        "copy_both" => "the statement begins replication, which is no query",
        "transaction_left_open" => {
            "the statements end inside a transaction, which was rolled back; end them with COMMIT"
        }
        "rollback_failed" => "the transaction could not be rolled back; its connection was replaced",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(fields: &[(char, &str)]) -> Vec<u8> {
        let mut body = Vec::new();
        for (letter, text) in fields {
            body.push(*letter as u8);
            body.extend(text.bytes());
            body.push(0);
        }
        body.push(0);
        body
    }

    #[test]
    fn an_error_is_told_in_the_servers_words_with_its_place_detail_and_hint() {
        let mut error = ServerError::default();
        let fields = [
            ('S', "FEHLER"),
            ('V', "ERROR"),
            ('C', "42601"),
            ('M', "syntax error at or near \"SELEC\""),
            ('D', "Some detail."),
            ('P', "1"),
            ('H', "Try again."),
        ];
        error.read(&body(&fields)).unwrap();
        assert_eq!((error.state().0, error.is_fatal()), (*b"42601", false));
        assert_eq!(
            error.text,
            "syntax error at or near \"SELEC\" at character 1 (Some detail); the server's hint: Try again"
        );
    }

    #[test]
    fn severity_decides_what_is_fatal_and_a_code_is_demanded() {
        let mut error = ServerError::default();
        error.read(&body(&[('S', "FATAL"), ('C', "57P01"), ('M', "terminating")])).unwrap();
        assert!(error.is_fatal());
        assert!(error.read(&body(&[('M', "no code")])).is_err());
        assert!(error.read(&body(&[('C', "4260\n")])).is_err());
        assert!(error.read(b"C42601").is_err(), "cut off");
        assert!(error.read(b"").is_err());
    }
}
