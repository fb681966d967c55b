//! Until the connection is ready: TLS, who comes, the proof, the statements tried.

use plimsoll_proto::postgres::{Binding, Mode, Settings, TlsUse};
use plimsoll_proto::{Connection, Event, Fault, SqlState};

use crate::support::*;

const SELECT: &[&[&str]] = &[&["SELECT balance FROM accounts WHERE id = $"]];

fn refused(name: &'static str) -> Vec<Event> {
    vec![Event::Refused(Fault::Protocol(name))]
}

#[test]
fn a_connection_says_who_comes_and_is_ready_when_every_statement_was_parsed() {
    let mut talk = Talk::open(settings(), SELECT);
    let sent = talk.sent();
    let startup = &frames(&sent)[0].1;
    assert_eq!(startup[..4], 196_608u32.to_be_bytes(), "protocol version 3.0");
    assert_eq!(
        startup[4..],
        *b"user\0bob\0database\0shop\0client_encoding\0UTF8\0application_name\0plimsoll\0\0"
    );
    talk.hear(&[auth_ok(), setting(), key(7, 99), notice(), ready(b'I')].concat());
    let sent = frames(&talk.sent());
    let (name, rest) = std::str::from_utf8(&sent[0].1).unwrap().split_once('\0').unwrap();
    assert!(name.starts_with("plimsoll_") && name.len() == 25, "{name}");
    assert_eq!(rest, "SELECT balance FROM accounts WHERE id = $1\0\0\0");
    assert_eq!((sent[0].0, &sent[1]), (b'P', &(b'S', Vec::new())));
    assert_eq!(talk.told(), []);
    talk.hear(&[message(b'1', b""), ready(b'I')].concat());
    assert_eq!(talk.told(), [Event::Ready]);
}

#[test]
fn the_same_statement_is_prepared_once_and_none_in_the_simple_protocol() {
    let mut talk =
        Talk::open(settings(), &[&["BEGIN", "SELECT 1", "COMMIT"], &["BEGIN", "SELECT 2", "COMMIT"]]);
    talk.sent();
    talk.hear(&[auth_ok(), ready(b'I')].concat());
    assert_eq!(talk.sent_tags(), "PSPSPSPS");
    let mut simple = Talk::open(Settings { mode: Mode::Simple, ..settings() }, SELECT);
    simple.hear(&[auth_ok(), ready(b'I')].concat());
    assert_eq!((simple.sent_tags().as_str(), simple.told()), ("0", vec![Event::Ready]));
}

#[test]
fn passwords_go_in_the_clear_or_as_md5_as_the_server_asks() {
    let mut talk = Talk::open(settings(), SELECT);
    talk.sent();
    talk.hear(&message(b'R', &3u32.to_be_bytes()));
    assert_eq!(frames(&talk.sent()), [(b'p', b"secret\0".to_vec())]);
    let mut talk = Talk::open(settings(), SELECT);
    talk.sent();
    talk.hear(&message(b'R', &[&5u32.to_be_bytes()[..], &[1, 2, 3, 4]].concat()));
    // 'md5' || md5(md5('secret' || 'bob') || '\x01020304'), by Python's hashlib.
    assert_eq!(frames(&talk.sent()), [(b'p', b"md5f21dfe33ff3a9e03dbc3e008251fe5cc\0".to_vec())]);
}

#[test]
fn a_password_that_is_asked_for_and_not_there_is_told_with_the_role_and_the_places_for_it() {
    for asked in [3u32, 10] {
        let mut talk = Talk::open(Settings { password: None, ..settings() }, SELECT);
        let body = [&asked.to_be_bytes()[..], if asked == 10 { b"SCRAM-SHA-256\0\0" } else { b"" }].concat();
        talk.hear(&message(b'R', &body));
        assert_eq!(talk.told(), refused("password_missing"));
        let text = talk.codec.explain(Fault::Protocol("password_missing"));
        assert!(
            text.contains("'bob'") && text.contains("PGPASSWORD") && text.contains("~/.pgpass"),
            "{text}"
        );
    }
}

#[test]
fn an_error_refuses_the_connection_with_the_servers_text_and_a_remedy() {
    for (code, text, remedy) in [
        ("28P01", "password authentication failed for user \"bob\"", "PGPASSWORD"),
        ("3D000", "database \"shop\" does not exist", "postgres://HOST/DATABASE"),
        ("53300", "sorry, too many clients already", "max_connections"),
        ("57P03", "the database system is starting up", "wait until"),
        ("28000", "no pg_hba.conf entry for host \"::1\", user \"bob\", no encryption", "sslmode=require"),
    ] {
        let mut talk = Talk::open(settings(), SELECT);
        talk.hear(&error("FATAL", code, text));
        let state = SqlState(code.as_bytes().try_into().unwrap());
        assert_eq!(talk.told(), [Event::Refused(Fault::SqlState(state))]);
        let told = talk.codec.explain(Fault::SqlState(state));
        assert!(told.starts_with(text) && told.contains(remedy), "{told}");
    }
}

#[test]
fn a_statement_the_server_refuses_refuses_the_connection() {
    let mut talk = Talk::open(settings(), &[&["SELEC 1"], &["SELECT 1"]]);
    talk.hear(&[auth_ok(), ready(b'I')].concat());
    talk.hear(&[error("ERROR", "42601", "syntax error at or near \"SELEC\""), ready(b'I')].concat());
    assert_eq!(talk.told(), [Event::Refused(Fault::SqlState(SqlState(*b"42601")))]);
    talk.hear(&[message(b'1', b""), ready(b'I')].concat());
    assert_eq!(talk.told(), [], "what comes after belongs to nobody");
}

#[test]
fn a_statement_of_a_transaction_may_need_an_earlier_one_and_is_prepared_when_it_is_used() {
    let transaction: &[&str] =
        &["BEGIN", "CREATE TEMP TABLE t (a int)", "INSERT INTO t VALUES ($)", "ROLLBACK"];
    let mut talk = Talk::open(settings(), &[transaction]);
    talk.hear(&[auth_ok(), ready(b'I')].concat());
    let parsed = [message(b'1', b""), ready(b'I')].concat();
    let missing = [error("ERROR", "42P01", "relation \"t\" does not exist"), ready(b'I')].concat();
    talk.sent();
    talk.hear(&[parsed.clone(), parsed.clone(), missing, parsed].concat());
    assert_eq!(talk.told(), [Event::Ready]);
    talk.start(1, 0, &[plimsoll_proto::Value::Whole(5)]);
    assert_eq!(talk.sent_tags(), "BES");
    talk.hear(&answer(0, b'T'));
    assert_eq!(talk.sent_tags(), "BES");
    talk.hear(&answer(0, b'T'));
    assert_eq!(talk.sent_tags(), "PBES", "prepared in one go with its use");
}

#[test]
fn tls_is_asked_for_and_a_server_without_it_is_refused_only_where_it_must_be() {
    let asking = |tls| Talk::open(Settings { tls, ..settings() }, SELECT);
    let request = [8u32.to_be_bytes(), 80_877_103u32.to_be_bytes()].concat();
    let mut talk = asking(TlsUse::Required);
    assert_eq!(talk.sent(), request);
    talk.hear(b"S");
    assert_eq!((talk.told(), talk.sent()), (vec![Event::StartTls], Vec::new()));
    let (mut out, mut events) = (Vec::new(), Vec::new());
    talk.codec.secured(None, &mut out, &mut events);
    assert_eq!(frames(&out)[0].0, b'0', "now it says who comes");

    assert_eq!(asking(TlsUse::Required).hear(b"N").told(), refused("tls_refused"));
    let mut talk = asking(TlsUse::Offered);
    talk.sent();
    talk.hear(b"N");
    assert_eq!((talk.sent_tags().as_str(), talk.told()), ("0", Vec::new()));
    // CVE-2021-23222: what comes behind the S in the clear is not the server's.
    assert_eq!(asking(TlsUse::Offered).hear(b"SZ").told(), refused("bytes_before_tls"));
    let full = error("FATAL", "53300", "sorry, too many clients already");
    let told = asking(TlsUse::Offered).hear(&full).told();
    assert_eq!(told, [Event::Refused(Fault::SqlState(SqlState(*b"53300")))]);
}

#[test]
fn what_is_no_postgresql_is_told_at_its_first_bytes() {
    let http = b"HTTP/1.1 400 Bad Request\r\n\r\n";
    assert_eq!(Talk::open(settings(), SELECT).hear(http).told(), refused("not_postgres"));
    let asking = Settings { tls: TlsUse::Offered, ..settings() };
    assert_eq!(Talk::open(asking, SELECT).hear(http).told(), refused("not_postgres"));
    // Readiness before anybody was let in.
    assert_eq!(Talk::open(settings(), SELECT).hear(&ready(b'I')).told(), refused("not_postgres"));
    assert_eq!(Talk::open(settings(), SELECT).eof().told(), refused("closed_in_login"));
}

#[test]
fn scram_is_chosen_as_the_server_and_tls_allow() {
    let sasl = |mechanisms: &[u8]| message(b'R', &[&10u32.to_be_bytes()[..], mechanisms].concat());
    let both = sasl(b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
    let plain = sasl(b"SCRAM-SHA-256\0\0");
    // With TLS, its hash, and the server's offer, which decides what is said of tying.
    let chosen = |binding, tls: Option<Option<&[u8]>>, offer: &[u8]| {
        let asking = if tls.is_some() { TlsUse::Required } else { TlsUse::Never };
        let mut talk = Talk::open(Settings { binding, tls: asking, ..settings() }, SELECT);
        let mut out = talk.sent();
        if let Some(hash) = tls {
            talk.hear(b"S").told();
            talk.codec.secured(hash, &mut out, &mut Vec::new());
        }
        talk.hear(offer);
        match talk.told().as_slice() {
            [] => {
                let body = frames(&talk.sent())[0].1.clone();
                let text = String::from_utf8_lossy(&body).into_owned();
                let (mechanism, rest) = text.split_once('\0').unwrap();
                format!(
                    "{mechanism} {}",
                    rest.trim_start_matches('\0')
                        .split(",,")
                        .next()
                        .unwrap()
                        .trim_matches(|c: char| !c.is_alphabetic())
                )
            }
            [Event::Refused(Fault::Protocol(name))] => (*name).to_owned(),
            other => panic!("{other:?}"),
        }
    };
    let hash: Option<Option<&[u8]>> = Some(Some(b"hash"));
    for (binding, tls, offer, expected) in [
        (Binding::Prefer, hash, &both, "SCRAM-SHA-256-PLUS p=tls-server-end-point"),
        (Binding::Prefer, hash, &plain, "SCRAM-SHA-256 y"),
        (Binding::Prefer, Some(None), &both, "SCRAM-SHA-256 n"),
        (Binding::Prefer, None, &plain, "SCRAM-SHA-256 n"),
        (Binding::Disable, hash, &both, "SCRAM-SHA-256 n"),
        (Binding::Require, hash, &both, "SCRAM-SHA-256-PLUS p=tls-server-end-point"),
        (Binding::Require, hash, &plain, "channel_binding_missing"),
        (Binding::Require, None, &plain, "channel_binding_missing"),
    ] {
        assert_eq!(chosen(binding, tls, offer), expected, "{binding:?} {tls:?}");
    }
    let other = sasl(b"OAUTHBEARER\0\0");
    assert_eq!(chosen(Binding::Prefer, None, &other), "unsupported_authentication");
    // GSSAPI.
    assert_eq!(
        chosen(Binding::Prefer, None, &message(b'R', &7u32.to_be_bytes())),
        "unsupported_authentication"
    );
}

#[test]
fn a_server_that_lets_in_without_the_proof_it_owes_is_refused() {
    let mut talk = Talk::open(settings(), SELECT);
    talk.hear(&message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"));
    talk.hear(&auth_ok());
    assert_eq!(talk.told(), refused("server_unproved"));
    let bound = Settings { binding: Binding::Require, ..settings() };
    let mut talk = Talk::open(bound, SELECT);
    talk.hear(&[auth_ok(), ready(b'I')].concat());
    assert_eq!(talk.told(), refused("channel_binding_missing"));
}

#[test]
fn the_name_of_a_prepared_statement_stands_for_its_text() {
    let name = |sql: &str| {
        let mut talk = Talk::open(settings(), &[&[sql]]);
        talk.sent();
        talk.hear(&[auth_ok(), ready(b'I')].concat());
        frames(&talk.sent())[0].1.split(|byte| *byte == 0).next().unwrap().to_vec()
    };
    assert_eq!(name("SELECT 1"), name("SELECT 1"));
    assert_ne!(name("SELECT 1"), name("SELECT 2"), "another run's statement must not answer for this one");
}

#[test]
fn a_faulty_statement_of_a_transaction_is_told_as_well() {
    let mut talk = Talk::open(settings(), &[&["BEGIN", "SELEC 1", "COMMIT"]]);
    talk.hear(&[auth_ok(), ready(b'I')].concat());
    let parsed = [message(b'1', b""), ready(b'I')].concat();
    talk.hear(&[parsed, error("ERROR", "42601", "syntax error"), ready(b'I')].concat());
    assert_eq!(talk.told(), [Event::Refused(Fault::SqlState(SqlState(*b"42601")))]);
}

#[test]
fn a_password_is_sent_once() {
    let mut talk = Talk::open(settings(), SELECT);
    talk.hear(&message(b'R', &3u32.to_be_bytes()).repeat(2));
    assert_eq!(talk.told(), refused("bad_message"));
}

#[test]
fn without_tls_none_is_asked_for() {
    let setup = std::sync::Arc::new(plimsoll_proto::postgres::Setup::new(
        Settings { tls: TlsUse::Offered, ..settings() },
        Vec::new(),
    ));
    let (mut out, mut events) = (Vec::new(), Vec::new());
    plimsoll_proto::postgres::Postgres::without_tls(setup).open(&mut out, &mut events);
    assert_eq!(out[4..8], 196_608u32.to_be_bytes());
}
