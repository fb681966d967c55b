//! What a PostgreSQL run sends: statements, transactions, parameters, and what is said of faulty ones.

use plimsoll_core::plan::{Operation, QueryMode, Request, Session, SqlPart, Statement};
use plimsoll_core::value::{Key, Value};
use plimsoll_scenario::{Environment, Lowered, Machine, RunArgs, SqlFile, SqlText, lower};

const MACHINE: Machine = Machine { cpus: 8, descriptor_limit: 1_064 };

fn args(sql: &[&str], params: &[&str]) -> RunArgs {
    RunArgs {
        target: "postgres://u@h/d".to_owned(),
        rate: Some("100".to_owned()),
        sql: sql.iter().map(|text| SqlText { text: (*text).to_owned(), weight: None }).collect(),
        params: params.iter().map(|law| (*law).to_owned()).collect(),
        ..RunArgs::default()
    }
}

fn file(text: &str, params: &[&str]) -> RunArgs {
    let file = SqlFile { path: "scripts/pay.sql".to_owned(), text: text.to_owned(), weight: None };
    RunArgs { sql_files: vec![file], ..args(&[], params) }
}

fn lowered(args: &RunArgs) -> Lowered {
    lower(args, &MACHINE, &Environment::default()).unwrap_or_else(|faults| panic!("{faults}"))
}

/// The faults, which must be exactly `count`.
fn faults(args: &RunArgs, count: usize) -> String {
    let faults = lower(args, &MACHINE, &Environment::default()).expect_err("faulty");
    assert_eq!(faults.0.len(), count, "{faults}");
    faults.to_string()
}

fn statements(operation: &Operation) -> &[Statement] {
    match &operation.request {
        Request::Postgres(statements) => statements,
        other => panic!("{other:?}"),
    }
}

/// Each statement as it is sent, with the variables of its parameters.
fn sent(args: &RunArgs) -> Vec<(String, Vec<usize>)> {
    let plan = lowered(args).plan;
    let text = |part: &SqlPart| match part {
        SqlPart::Text(text) => text.clone(),
        SqlPart::Parameter(index) => format!("${}", index + 1),
    };
    let sent =
        |statement: &Statement| (statement.parts.iter().map(text).collect(), statement.parameters.clone());
    statements(&plan.operations[0]).iter().map(sent).collect()
}

fn expected(statements: &[(&str, &[usize])]) -> Vec<(String, Vec<usize>)> {
    statements.iter().map(|(text, parameters)| ((*text).to_owned(), parameters.to_vec())).collect()
}

#[test]
fn one_statement_is_one_operation_with_its_parameters() {
    let run = args(&["SELECT balance FROM accounts WHERE id = $1;\n"], &["uniform:0..1000000"]);
    let plan = lowered(&run).plan;
    assert_eq!(sent(&run), expected(&[("SELECT balance FROM accounts WHERE id = $1", &[0])]));
    let operation = &plan.operations[0];
    assert_eq!((operation.weight, operation.target), (1, 0));
    assert_eq!(operation.name, "SELECT balance FROM accounts WHERE id =…");
    let facts = &operation.facts;
    assert_eq!((facts.url.as_str(), facts.protocol.as_str()), ("postgres://h:5432/d", "postgres"));
    assert_eq!((facts.method.as_str(), facts.body_bytes), ("prepared", 0));
    assert_eq!(facts.sql, ["SELECT balance FROM accounts WHERE id = $1"]);
    assert_eq!(plan.variables[0].name(), "1");
    let Value::Whole(id) = plan.variables[0].value(Key::Seq(0)) else { panic!("whole") };
    assert!((0..1_000_000).contains(&id));
}

#[test]
fn parameters_are_numbered_for_each_statement() {
    let params = ["uniform:0..9", "zipf:0..9", "csv:names.csv:1"];
    let text = "UPDATE a SET x = x + $3 WHERE id = $2;\n\
                -- nothing but a comment: $9\n;;\n\
                INSERT INTO h VALUES ($2, '$1', $2::text, $1);";
    let names = vec![("names.csv".to_owned(), b"a\nb\n".to_vec())];
    let run = RunArgs { files: names, ..file(text, &params) };
    assert_eq!(
        sent(&run),
        expected(&[
            ("BEGIN", &[]),
            ("UPDATE a SET x = x + $2 WHERE id = $1", &[1, 2]),
            ("INSERT INTO h VALUES ($2, '$1', $2::text, $1)", &[0, 1]),
            ("COMMIT", &[]),
        ])
    );
    let plan = lowered(&run).plan;
    assert_eq!(plan.variables.iter().map(|v| v.name().to_owned()).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!(plan.variables[2].value(Key::Seq(1)), Value::Text("b"));
    assert_eq!(plan.operations[0].name, "pay.sql");
    // Reports keep the numbers that were written.
    assert_eq!(
        plan.operations[0].facts.sql,
        [
            "BEGIN",
            "UPDATE a SET x = x + $3 WHERE id = $2",
            "INSERT INTO h VALUES ($2, '$1', $2::text, $1)",
            "COMMIT"
        ]
    );
    assert_eq!(run.files_named(&Environment::default()), ["names.csv"]);
}

#[test]
fn a_file_is_one_transaction_unless_it_says_otherwise() {
    let own = ["BEGIN; SELECT 1; END", "select 1; /* own */ start\n transaction; select 2; commit"];
    for text in own {
        let count = text.split(';').count();
        assert_eq!(sent(&file(text, &[])).len(), count, "{text}");
    }
    // A single statement is a transaction by itself.
    assert_eq!(
        sent(&file("/*+ SeqScan(a) */ SELECT 1;", &[])),
        expected(&[("/*+ SeqScan(a) */ SELECT 1", &[])])
    );
    // A word inside is no transaction control.
    let inside = "SELECT 'begin'; SELECT start FROM begin";
    assert_eq!(sent(&file(inside, &[])).len(), 4);
}

#[test]
fn operations_have_weights_and_names_of_their_own() {
    let mut run = args(&["SELECT 1", "SELECT  1;", "SELECT 2"], &[]);
    run.sql[1].weight = Some("9".to_owned());
    run.sql_files = vec![SqlFile { path: "SELECT 2".to_owned(), text: "SELECT 3".to_owned(), weight: None }];
    let operations = lowered(&run).plan.operations;
    let named: Vec<_> = operations.iter().map(|o| (o.name.as_str(), o.weight)).collect();
    assert_eq!(named, [("SELECT 1", 1), ("SELECT 1 #2", 9), ("SELECT 2", 1), ("SELECT 2 #2", 1)]);
    run.sql[0].weight = Some("0".to_owned());
    assert!(faults(&run, 1).contains("--weight 0"));
}

#[test]
fn statements_are_sent_in_the_mode_that_was_asked_for() {
    for (text, mode) in
        [("prepared", QueryMode::Prepared), ("unnamed", QueryMode::Unnamed), ("simple", QueryMode::Simple)]
    {
        let run = RunArgs { query_mode: Some(text.to_owned()), ..args(&["SELECT 1"], &[]) };
        let plan = lowered(&run).plan;
        assert!(matches!(&plan.targets[0].session, Session::Postgres(session) if session.query_mode == mode));
        assert_eq!(plan.operations[0].facts.method, text);
    }
    let run = RunArgs { query_mode: Some("extended".to_owned()), ..args(&["SELECT 1"], &[]) };
    assert!(faults(&run, 1).contains("prepared, unnamed or simple"));
}

#[test]
fn faulty_statements_and_parameters_are_named_with_the_remedy() {
    let law = "uniform:0..9";
    for (run, parts) in [
        (args(&[], &[]), ["a PostgreSQL run needs one", "--sql 'SELECT 1'"]),
        (args(&["-- nothing\n;"], &[]), ["holds no statement", "SELECT 1"]),
        (args(&["SELECT 1; SELECT 2"], &[]), ["holds 2 statements", "--sql-file"]),
        (
            args(&["SELECT $2, $1"], &[law]),
            ["$2 has no --param: the statement needs 2, and 1 was given", "--param LAW"],
        ),
        (
            args(&["SELECT $1"], &[]),
            ["$1 has no --param: the statement needs 1, and 0 were given", "$1 first"],
        ),
        (args(&["SELECT $2"], &[law, law]), ["is the value of $1, which no statement has", "leave it out"]),
        (args(&["SELECT $0"], &[]), ["$0 is not a parameter", "$1 for the first"]),
        (args(&["SELECT $99999999999999999999"], &[]), ["is not a parameter", "counted from 1 to 65535"]),
        (
            args(&["SELECT 'a"], &[]),
            ["--sql 'SELECT 'a': line 1, column 8: a string begins", "end it with a '"],
        ),
        (
            file("SELECT 1;\n\\set id random(1, 2)\n", &[]),
            ["line 2, column 1: \\set is a command", "--param"],
        ),
        (args(&["SELECT $1"], &["uniform:5..5"]), ["the range 5..5 is empty", "zipf:A..B"]),
        (args(&["SELECT $1"], &["csv:a.csv:id"]), ["a.csv could not be read", "can be read"]),
    ] {
        let text = faults(&run, 1);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    // All at once; what a faulty statement would use is not said to be unused.
    let many = args(&["SELECT 'a", "SELECT $9", "SELECT $0"], &["uniform", "zipf:0..9"]);
    faults(&many, 4);
    assert_eq!(faults(&args(&["SELECT 1"], &[law, law]), 2).matches("which no statement has").count(), 2);
}

#[test]
fn flags_of_the_other_protocol_are_refused_with_the_right_ones() {
    let some = |text: &str| Some(text.to_owned());
    let run = RunArgs {
        method: some("POST"),
        headers: vec!["A: b".to_owned()],
        body: Some(Vec::new()),
        user: some("u:secret"),
        variables: vec!["id=sequence".to_owned()],
        no_keepalive: true,
        ..args(&["SELECT 1"], &[])
    };
    let text = faults(&run, 6);
    for part in ["--sql", "postgres://USER@HOST/", "--param LAW for $1", "--no-keepalive"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("secret"));
    let http = RunArgs {
        target: "http://h/".to_owned(),
        query_mode: some("simple"),
        sql_files: vec![SqlFile::default()],
        ..args(&["SELECT 1"], &["sequence"])
    };
    let text = faults(&http, 4);
    assert!(text.contains("--var NAME=LAW") && text.contains("postgres:// URL"), "{text}");
}
