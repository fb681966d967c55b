//! Requests on a connection that is ready.

use plimsoll_proto::postgres::{Mode, Settings};
use plimsoll_proto::{Answer, Cancelled, Connection, Event, Fault, SqlState, Token, Value};

use crate::support::*;

const SELECT: &[&[&str]] = &[&["SELECT balance FROM accounts WHERE id = $"]];
const TRANSFER: &[&[&str]] = &[&[
    "BEGIN",
    "UPDATE accounts SET balance = balance + $ WHERE id = $",
    "INSERT INTO log VALUES ($)",
    "COMMIT",
]];
const VALUES: [Value<'static>; 3] = [Value::Whole(5), Value::Whole(-42), Value::Text("it's")];

fn done(token: u32, result: Result<Answer, Fault>, reusable: bool) -> Event {
    Event::Done { token: Token(token), result, reusable }
}

fn failed(token: u32, code: &[u8; 5]) -> Event {
    done(token, Ok(Answer::SqlError(SqlState(*code))), true)
}

#[test]
fn a_prepared_statement_is_bound_executed_and_its_rows_are_counted() {
    let mut talk = Talk::ready(settings(), SELECT);
    for (token, rows) in [(1, 0), (2, 1), (3, 1000)] {
        talk.start(token, 0, &[Value::Whole(-7)]);
        let sent = frames(&talk.sent());
        // Unnamed portal, the statement's name, no formats, one value of two bytes, no result formats.
        let (tag, bind) = &sent[0];
        assert!(*tag == b'B' && bind.starts_with(b"\0plimsoll_"), "{bind:?}");
        assert!(bind.ends_with(b"\0\0\0\0\x01\0\0\0\x02-7\0\0"), "{bind:?}");
        assert_eq!(sent[1..], [(b'E', b"\0\0\0\0\0".to_vec()), (b'S', Vec::new())]);
        talk.hear(&answer(rows, b'I'));
        assert_eq!(
            talk.told(),
            [Event::FirstByte(Token(token)), done(token, Ok(Answer::Rows(rows as u64)), true)]
        );
    }
}

#[test]
fn the_unnamed_statement_is_parsed_with_each_use_so_that_poolers_may_share_sessions() {
    let mut talk = Talk::ready(Settings { mode: Mode::Unnamed, ..settings() }, SELECT);
    for token in 0..2 {
        talk.start(token, 0, &[Value::Whole(1)]);
        let sent = frames(&talk.sent());
        assert_eq!(sent.iter().map(|(tag, _)| *tag as char).collect::<String>(), "PBES");
        assert!(sent[0].1.starts_with(b"\0SELECT") && sent[1].1.starts_with(b"\0\0"), "no names: {sent:?}");
        talk.hear(&[message(b'1', b""), answer(1, b'I')].concat());
        assert!(matches!(talk.told()[1], Event::Done { result: Ok(Answer::Rows(1)), .. }));
    }
}

#[test]
fn the_simple_protocol_writes_values_as_literals() {
    let mut talk = Talk::ready(Settings { mode: Mode::Simple, ..settings() }, &[&["SELECT 3-$, $, $"]]);
    talk.start(1, 0, &[Value::Whole(-5), Value::Whole(8), Value::Text("it's \\ all")]);
    assert_eq!(frames(&talk.sent()), [(b'Q', b"SELECT 3-(-5), 8,  E'it''s \\\\ all'\0".to_vec())]);
    let bytes = [message(b'T', b"\0\0"), row(b"8"), message(b'C', b"SELECT 1\0"), ready(b'I')].concat();
    talk.hear(&bytes);
    assert_eq!(talk.told()[1], done(1, Ok(Answer::Rows(1)), true));
}

#[test]
fn statements_of_a_transaction_go_one_after_the_other() {
    let mut talk = Talk::ready(settings(), TRANSFER);
    talk.start(1, 0, &VALUES);
    let mut bound = Vec::new();
    for (rows, status) in [(0, b'T'), (0, b'T'), (2, b'T'), (0, b'I')] {
        let sent = frames(&talk.sent());
        assert_eq!(sent.iter().map(|(tag, _)| *tag as char).collect::<String>(), "BES");
        bound.push(String::from_utf8_lossy(&sent[0].1).into_owned());
        assert!(talk.told().iter().all(|event| matches!(event, Event::FirstByte(_))));
        talk.hear(&answer(rows, status));
    }
    assert!(bound[1].contains("\x015") && bound[1].contains("-42"), "{bound:?}");
    assert!(bound[2].contains("it's"), "{bound:?}");
    assert_eq!(talk.told(), [done(1, Ok(Answer::Rows(2)), true)]);
}

#[test]
fn an_error_ends_the_request_under_its_code_and_the_connection_lives_on() {
    let mut talk = Talk::ready(settings(), SELECT);
    talk.start(1, 0, &[Value::Whole(1)]).sent();
    talk.hear(&error("ERROR", "22003", "value \"9999999999\" is out of range for type integer"));
    assert_eq!(talk.told(), [Event::FirstByte(Token(1))], "the server has not yet come back to us");
    talk.hear(&ready(b'I'));
    assert_eq!(talk.told(), [failed(1, b"22003")]);
    let text = talk.codec.explain(Fault::SqlState(SqlState(*b"22003")));
    assert!(text.starts_with("value \"9999999999\" is out of range") && text.contains("--param"), "{text}");
    talk.start(2, 0, &[Value::Whole(1)]).hear(&answer(1, b'I'));
    assert_eq!(talk.told()[1], done(2, Ok(Answer::Rows(1)), true));
}

#[test]
fn dbr_02_a_failed_transaction_is_rolled_back_and_its_other_statements_are_not_sent() {
    let mut talk = Talk::ready(settings(), TRANSFER);
    for token in 1..3 {
        talk.start(token, 0, &VALUES).hear(&answer(0, b'T')).sent();
        talk.hear(&[error("ERROR", "40001", "could not serialize access"), ready(b'E')].concat());
        assert_eq!(frames(&talk.sent()), [(b'Q', b"ROLLBACK\0".to_vec())]);
        assert_eq!(talk.told(), [Event::FirstByte(Token(token))]);
        talk.hear(&[message(b'C', b"ROLLBACK\0"), ready(b'I')].concat());
        assert_eq!((talk.told(), talk.sent_tags()), (vec![failed(token, b"40001")], String::new()));
    }
}

#[test]
fn a_transaction_left_open_is_rolled_back_and_told() {
    let mut talk = Talk::ready(settings(), &[&["BEGIN"]]);
    talk.start(1, 0, &[]).sent();
    talk.hear(&answer(0, b'T'));
    assert_eq!(talk.sent_tags(), "Q");
    talk.hear(&[message(b'C', b"ROLLBACK\0"), ready(b'I')].concat());
    let fault = Fault::Protocol("transaction_left_open");
    assert_eq!(talk.told()[1], done(1, Err(fault), true));
    assert!(talk.codec.explain(fault).contains("COMMIT"));
}

#[test]
fn a_rollback_that_fails_costs_the_connection() {
    let mut talk = Talk::ready(settings(), TRANSFER);
    talk.start(1, 0, &VALUES).hear(&answer(0, b'T'));
    talk.hear(&[error("ERROR", "40001", "no"), ready(b'E')].concat());
    talk.hear(&[message(b'C', b"ROLLBACK\0"), ready(b'E')].concat());
    assert_eq!(talk.told().pop(), Some(done(1, Err(Fault::Protocol("rollback_failed")), false)));
}

#[test]
fn a_fatal_error_ends_request_and_connection() {
    let mut talk = Talk::ready(settings(), SELECT);
    talk.start(1, 0, &[Value::Whole(1)]);
    let shutdown = error("FATAL", "57P01", "terminating connection due to administrator command");
    talk.hear(&shutdown);
    assert_eq!(talk.told()[1], done(1, Ok(Answer::SqlError(SqlState(*b"57P01"))), false));
    talk.eof();
    assert_eq!(talk.told(), [], "its end has been told");
    let mut idle = Talk::ready(settings(), SELECT);
    assert_eq!(idle.hear(&shutdown).told(), [Event::Closing(Fault::SqlState(SqlState(*b"57P01")))]);
}

#[test]
fn the_end_of_the_connection_is_told_by_where_it_comes() {
    let mut talk = Talk::ready(settings(), SELECT);
    talk.start(1, 0, &[Value::Whole(1)]).eof();
    assert_eq!(talk.told(), [done(1, Err(Fault::ClosedBeforeResponse), false)]);
    let mut talk = Talk::ready(settings(), SELECT);
    talk.start(1, 0, &[Value::Whole(1)]).hear(&message(b'2', b"")).eof();
    assert_eq!(talk.told()[1], done(1, Err(Fault::ClosedInResponse), false));
    assert_eq!(Talk::ready(settings(), SELECT).eof().told(), []);
}

#[test]
fn notices_settings_and_notifications_change_nothing() {
    let asides = [notice(), setting(), message(b'A', b"\0\0\0\x01channel\0text\0")].concat();
    let mut talk = Talk::ready(settings(), SELECT);
    assert_eq!(talk.hear(&asides).told(), []);
    talk.start(1, 0, &[Value::Whole(1)]);
    let plain = answer(2, b'I');
    let mut bytes = Vec::new();
    for (tag, body) in frames(&plain) {
        bytes.extend([asides.clone(), message(tag, &body)].concat());
    }
    talk.hear(&bytes);
    assert_eq!(talk.told()[1], done(1, Ok(Answer::Rows(2)), true));
}

#[test]
fn rows_that_nobody_asked_for_cost_the_connection() {
    let mut talk = Talk::ready(settings(), SELECT);
    assert!(matches!(talk.hear(&row(b"1")).told().as_slice(), [Event::Surplus { bytes: 5.. }]));
    let mut talk = Talk::ready(settings(), SELECT);
    assert_eq!(talk.hear(b"<html>").told(), [Event::Closing(Fault::Protocol("bad_message"))]);
}

#[test]
fn dbr_01_named_statements_behind_a_pooler_fail_one_by_one_and_are_prepared_anew() {
    // The pooler says at the start that the statement exists already, and then that it does not.
    let mut talk = Talk::open(settings(), SELECT);
    talk.hear(&[auth_ok(), ready(b'I')].concat());
    talk.sent();
    talk.hear(
        &[error("ERROR", "42P05", "prepared statement \"plimsoll_0\" already exists"), ready(b'I')].concat(),
    );
    assert_eq!(talk.told(), [Event::Ready]);
    let gone =
        [error("ERROR", "26000", "prepared statement \"plimsoll_0\" does not exist"), ready(b'I')].concat();
    talk.start(1, 0, &[Value::Whole(1)]);
    assert_eq!(talk.sent_tags(), "BES");
    talk.hear(&gone);
    assert_eq!(talk.told()[1], failed(1, b"26000"));
    assert!(talk.codec.explain(Fault::SqlState(SqlState(*b"26000"))).contains("--query-mode unnamed"));
    talk.start(2, 0, &[Value::Whole(1)]);
    assert_eq!(talk.sent_tags(), "PBES", "prepared anew with its use");
    talk.hear(&[message(b'1', b""), answer(1, b'I')].concat());
    assert_eq!(talk.told()[1], done(2, Ok(Answer::Rows(1)), true));
}

#[test]
fn copy_from_stdin_is_refused_and_copy_to_stdout_skipped() {
    let mut talk = Talk::ready(settings(), &[&["COPY t FROM STDIN"]]);
    talk.start(1, 0, &[]).sent();
    talk.hear(&[message(b'2', b""), message(b'G', b"\0\0\x01\0\0")].concat());
    assert_eq!(talk.sent_tags(), "fS");
    talk.hear(&[error("ERROR", "57014", "COPY from stdin failed"), ready(b'I')].concat());
    assert_eq!(talk.told()[1], failed(1, b"57014"));
    let mut talk = Talk::ready(settings(), &[&["COPY t TO STDOUT"]]);
    talk.start(1, 0, &[]);
    let out = [message(b'2', b""), message(b'H', b"\0\0\x01\0\0"), message(b'd', b"1\n"), message(b'c', b"")]
        .concat();
    talk.hear(&[out, message(b'C', b"COPY 1\0"), ready(b'I')].concat());
    assert_eq!(talk.told()[1], done(1, Ok(Answer::Rows(0)), true));
}

#[test]
fn a_request_no_longer_wanted_is_cancelled_over_a_connection_of_its_own() {
    let mut talk = Talk::ready(settings(), SELECT);
    talk.start(1, 0, &[Value::Whole(1)]);
    let mut out = Vec::new();
    assert_eq!(talk.codec.cancel(Token(1), &mut out), Cancelled::CloseAndTellElsewhere);
    let request = [16u32, 80_877_102, 7, 99].map(u32::to_be_bytes).concat();
    assert_eq!(out, request, "the cancel request of the documentation, section Message Formats");
    assert_eq!(talk.codec.cancel(Token(1), &mut out), Cancelled::CloseConnection);
}

#[test]
fn a_statement_that_cannot_be_prepared_says_why_each_time() {
    let mut talk = Talk::open(settings(), &[&["BEGIN", "SELECT * FROM nowhere", "COMMIT"]]);
    let parsed = [message(b'1', b""), ready(b'I')].concat();
    let missing = error("ERROR", "42P01", "relation \"nowhere\" does not exist");
    talk.hear(&[auth_ok(), ready(b'I'), parsed.clone(), missing.clone(), ready(b'I'), parsed].concat());
    assert_eq!(talk.told(), [Event::Ready]);
    for token in 0..3 {
        talk.start(token, 0, &[]).hear(&answer(0, b'T')).sent();
        talk.hear(&[missing.clone(), ready(b'E'), message(b'C', b"ROLLBACK\0"), ready(b'I')].concat());
        assert_eq!(talk.told().pop(), Some(failed(token, b"42P01")));
    }
}

#[test]
fn readiness_without_an_end_of_the_statement_is_no_answer() {
    let mut talk = Talk::ready(settings(), SELECT);
    talk.start(1, 0, &[Value::Whole(1)]).hear(&ready(b'I'));
    assert_eq!(talk.told()[1], done(1, Err(Fault::Protocol("bad_message")), false));
}

#[test]
fn a_server_that_asks_for_data_without_end_gets_no_answer_without_end() {
    let mut talk = Talk::ready(settings(), &[&["COPY t FROM STDIN"]]);
    talk.start(1, 0, &[]).sent();
    talk.hear(&message(b'G', b"\0\0\0").repeat(1_000));
    assert_eq!(talk.sent_tags(), "fS");
    assert_eq!(talk.told()[1], done(1, Err(Fault::Protocol("bad_message")), false));
}

#[test]
fn what_the_server_says_is_shown_without_its_control_characters_and_in_any_encoding() {
    let mut talk = Talk::ready(settings(), SELECT);
    talk.start(1, 0, &[Value::Whole(1)]);
    let body = b"SERROR\0VERROR\0C22000\0Mred \x1b[31m\nr\xe4tsel\0\0";
    talk.hear(&[message(b'E', body), ready(b'I')].concat());
    let text = talk.codec.explain(Fault::SqlState(SqlState(*b"22000")));
    assert_eq!(text, "red  [31m r\u{fffd}tsel");
}
