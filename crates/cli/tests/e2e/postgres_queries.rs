//! Statements, their parameters and their ends, on a real server.

use crate::common::postgres::{Postgres, Setup};
use crate::common::program::{measure, run};

const ACCOUNTS: &str = "CREATE TABLE accounts AS SELECT id, 0 AS balance FROM generate_series(0, 9999) id; \
     ALTER TABLE accounts ADD PRIMARY KEY (id); \
     CREATE TABLE seen (number int, big bigint, real float8, exact numeric, words text)";

fn accounts() -> Postgres {
    Postgres::start(&Setup { sql: ACCOUNTS, ..Setup::default() })
}

#[test]
fn rows_are_counted_in_every_query_mode_and_connections_stand_before_the_start() {
    let server = accounts();
    for mode in ["prepared", "unnamed", "simple"] {
        let sql = "SELECT * FROM accounts WHERE id BETWEEN $1 AND $1 + 2";
        let arguments = ["--sql", sql, "--param", "uniform:0..9000", "--query-mode", mode];
        let measured = measure(&server.url(), &[&arguments[..], &["-c", "3", "-n", "30"]].concat());
        assert_eq!((measured.counts.ok, measured.rows), (30, 90), "{mode}: {:?}", measured.error_texts);
        assert_eq!(measured.plan.operations[0].method, mode);
        let connections = &measured.connections;
        assert_eq!((connections.wanted, connections.established, connections.opened), (Some(3), 3, 3));
        assert_eq!(measured.blocked_ns.as_ref().unwrap().max, 0, "{mode}");
    }
    let arguments = ["--sql", "SELECT 1", "--rate", "200", "-n", "40"];
    let measured = measure(&server.url(), &arguments);
    assert_eq!(
        (measured.connections.wanted, measured.connections.opened, measured.counts.ok),
        (Some(10), 10, 40)
    );
}

#[test]
fn whole_numbers_and_text_take_the_type_that_the_statement_gives_them() {
    let server = accounts();
    let csv = server.socket_directory().join("words.csv");
    std::fs::write(&csv, "id,words\n1,it's\n2,\"a \\ and a \"\" and ü\"\n").unwrap();
    let words = format!("csv:{}:words", csv.display());
    for mode in ["prepared", "unnamed", "simple"] {
        let sql = "INSERT INTO seen VALUES ($1::int, $2::bigint, $1::int, $2::bigint, $3)";
        let measured = measure(
            &server.url(),
            &[
                "--sql",
                sql,
                "--param",
                "uniform:-5..-4",
                "--param",
                "sequence:7..9",
                "--param",
                &words,
                "--query-mode",
                mode,
                "--rate",
                "100",
                "-n",
                "4",
                "--connections",
                "1",
            ],
        );
        assert_eq!(measured.counts.ok, 4, "{mode}: {:?}", measured.error_texts);
        let rows = server.sql("DELETE FROM seen RETURNING *");
        let expected = "-5|7|-5|7|it's\n-5|8|-5|8|a \\ and a \" and ü\n";
        assert_eq!(rows, expected.repeat(2).trim_end(), "{mode}");
    }
}

#[test]
fn statements_are_chosen_by_their_weights() {
    let server = accounts();
    let sql = ["--sql", "SELECT 1", "--weight", "3", "--sql", "INSERT INTO seen (number) VALUES (1)"];
    let measured = measure(&server.url(), &[&sql[..], &["-c", "2", "-n", "400"]].concat());
    let inserted: u64 = server.sql("SELECT count(*) FROM seen").parse().unwrap();
    let by_operation: Vec<u64> = measured.operations.iter().map(|operation| operation.counts.ok).collect();
    assert_eq!((by_operation.iter().sum::<u64>(), by_operation[1]), (400, inserted));
    // 100 ± 5 standard deviations of a binomial law of 400 draws at 1/4.
    assert!((57..=143).contains(&inserted), "{inserted}");
}

#[test]
fn an_error_fails_its_request_under_its_code_and_the_connection_lives_on() {
    let server = accounts();
    // Every fifth request divides by zero.
    let arguments =
        ["--sql", "SELECT 1 / ($1 % 5)", "--param", "sequence:0..100", "--rate", "400", "-n", "100"];
    let measured = measure(&server.url(), &[&arguments[..], &["--connections", "1"]].concat());
    assert_eq!((measured.counts.ok, measured.counts.failed, measured.errors("sqlstate_22012")), (80, 20, 20));
    assert_eq!((measured.counts.answered, measured.connections.opened), (100, 1));
    assert_eq!(measured.error_texts["sqlstate_22012"], "division by zero");
}

#[test]
fn dbr_02_a_failed_transaction_is_one_failure_and_is_rolled_back() {
    let server = accounts();
    let file = server.socket_directory().join("transfer.sql");
    let text = "UPDATE accounts SET balance = balance + 1 WHERE id = $1; -- first\n\
         SELECT 1 / ($1 % 5);\n\
         INSERT INTO seen (number) VALUES ($1);";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let ended = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    for mode in ["prepared", "unnamed", "simple"] {
        let before: u64 = server.sql(ended).parse().unwrap();
        let measured = measure(
            &server.url(),
            &[
                "--sql-file",
                file,
                "--param",
                "sequence:0..1000",
                "--rate",
                "300",
                "-n",
                "100",
                "--connections",
                "2",
                "--query-mode",
                mode,
            ],
        );
        let counts = &measured.counts;
        assert_eq!((counts.ok, counts.failed, measured.errors("sqlstate_22012")), (80, 20, 20), "{mode}");
        assert_eq!(measured.json["errors"].as_object().unwrap().len(), 1, "no 25P02: {:?}", measured.errors);
        // What a failed transaction had done before is undone, and the rest of it was never sent.
        assert_eq!(server.sql("WITH gone AS (DELETE FROM seen RETURNING *) SELECT count(*) FROM gone"), "80");
        assert_eq!(server.sql("SELECT sum(balance) FROM accounts"), "80");
        server.sql("UPDATE accounts SET balance = 0 WHERE balance > 0");
        crate::common::eventually("the server's count of rollbacks", || {
            server.sql(ended).parse::<u64>().unwrap() >= before + 20
        });
    }
}

#[test]
fn a_file_with_its_own_transaction_is_sent_as_it_is() {
    let server = accounts();
    let file = server.socket_directory().join("own.sql");
    std::fs::write(&file, "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1; ROLLBACK").unwrap();
    let measured = measure(&server.url(), &["--sql-file", file.to_str().unwrap(), "-c", "1", "-n", "5"]);
    assert_eq!(measured.counts.ok, 5, "{:?}", measured.error_texts);
    std::fs::write(&file, "BEGIN; SELECT 1").unwrap();
    let measured = measure(&server.url(), &["--sql-file", file.to_str().unwrap(), "-c", "1", "-n", "5"]);
    assert_eq!((measured.counts.failed, measured.errors("protocol_transaction_left_open")), (5, 5));
    assert_eq!(measured.connections.opened, 1);
}

#[test]
fn faulty_statements_are_told_before_anything_is_measured() {
    let server = accounts();
    let url = server.url();
    for (arguments, code, text) in [
        (
            &["--sql", "SELEC 1"][..],
            4,
            "syntax error at or near \"SELEC\" at character 1; correct the statement",
        ),
        (&["--sql", "SELECT * FROM nowhere"], 4, "relation \"nowhere\" does not exist"),
        (&["--sql", "SELECT * FROM accounts WHERE id = $2", "--param", "sequence"], 2, "$2 has no --param"),
        (&["--sql", "SELECT 1", "--param", "sequence"], 2, "--param"),
        (&["--sql", "SELECT 1; SELECT 2"], 2, "--sql-file"),
        (&["--sql", "SELECT 'x"], 2, "SELECT 'x"),
        (&["--sql", "SELECT 1", "--query-mode", "fast"], 2, "prepared, unnamed or simple"),
        (&["--sql", "SELECT 1", "-H", "a: b"], 2, "-H"),
        (&[], 2, "--sql"),
    ] {
        let finished = run(&[&[url.as_str(), "-c", "2", "-n", "4"], arguments].concat());
        assert_eq!(finished.code, Some(code), "{arguments:?} {finished:?}");
        let said = format!("{}{}", finished.stdout, finished.stderr);
        assert!(said.contains(text), "{arguments:?}: {said}");
    }
    let file = server.socket_directory().join("faulty.sql");
    std::fs::write(&file, "SELECT 1; SELEC 2").unwrap();
    let finished = run(&[url.as_str(), "-c", "2", "-n", "4", "--sql-file", file.to_str().unwrap()]);
    assert_eq!(finished.code, Some(4), "{finished:?}");
    assert!(finished.stdout.contains("syntax error at or near \"SELEC\""), "{finished:?}");
}

#[test]
fn a_statement_longer_than_any_buffer_goes_out_whole_over_both_kinds_of_socket() {
    let server = Postgres::start(&Setup::default());
    let file = server.socket_directory().join("long.sql");
    std::fs::write(&file, format!("SELECT 1 / (length('{}') - 2999999)", "x".repeat(3_000_000))).unwrap();
    let directory = server.socket_directory().to_str().unwrap();
    let unix = format!("postgres:///admin?host={directory}&port={}&user=admin", server.port());
    for url in [server.url(), unix] {
        for mode in ["simple", "unnamed"] {
            let arguments =
                ["--sql-file", file.to_str().unwrap(), "-c", "1", "-n", "3", "--query-mode", mode];
            let measured = measure(&url, &arguments);
            assert_eq!(measured.counts.ok, 3, "{url} {mode}: {:?}", measured.error_texts);
            assert!(measured.bytes.sent > 9_000_000);
        }
    }
}
