//! What a PostgreSQL run sends: the texts of `--sql` and `--sql-file` become operations.

use plimsoll_core::plan::{Operation, QueryMode, Request, RequestFacts, SqlPart, Statement};

use super::lexer::{Kind, Token, place, tokens};
use crate::args::RunArgs;
use crate::fault::Check;

/// The longest name of a statement in reports, in characters.
const NAME_CHARS: usize = 40;

/// The greatest weight: a thousand million operations of it can still be added up.
const GREATEST_WEIGHT: u64 = 1_000_000_000;

/// A `--sql` or a `--sql-file`.
struct Source<'a> {
    /// What it is called in messages.
    label: String,
    text: &'a str,
    weight: Option<&'a String>,
    /// The name of the file, where it is one.
    file: Option<&'a str>,
}

/// One operation for each text. Their facts lack the URL.
pub(super) fn operations(args: &RunArgs, query_mode: QueryMode, check: &mut Check) -> Vec<Operation> {
    let sql = args.sql.iter().map(|sql| Source {
        label: format!("--sql '{}'", shortened(&in_one_line(&sql.text))),
        text: &sql.text,
        weight: sql.weight.as_ref(),
        file: None,
    });
    let files = args.sql_files.iter().map(|file| Source {
        label: format!("--sql-file {}", file.path),
        text: &file.text,
        weight: file.weight.as_ref(),
        file: Some(file.path.rsplit('/').next().unwrap_or(&file.path)),
    });
    let sources: Vec<Source<'_>> = sql.chain(files).collect();
    if sources.is_empty() {
        check.fault(
            "statement",
            "a PostgreSQL run needs one, and there is none",
            "give --sql 'SELECT 1', or --sql-file with several statements",
        );
    }
    let mut operations: Vec<Operation> = Vec::with_capacity(sources.len());
    let mut used = vec![false; args.params.len()];
    for source in &sources {
        let Some(mut operation) = source.operation(query_mode, &mut used, check) else { continue };
        let taken = |name: &str| operations.iter().any(|other| other.name == name);
        if taken(&operation.name) {
            let mut numbered = (2..).map(|number| format!("{} #{number}", operation.name));
            operation.name = numbered.find(|name| !taken(name)).unwrap_or_default();
        }
        operations.push(operation);
    }
    // A faulty statement may be the one that is to use it.
    let all_read = operations.len() == sources.len();
    for (number, law) in (1..).zip(&args.params).filter(|(number, _)| all_read && !used[number - 1]) {
        check.fault(
            format!("--param {law}"),
            format!("is the value of ${number}, which no statement has"),
            format!("write ${number} where it belongs, or leave it out"),
        );
    }
    operations
}

impl Source<'_> {
    /// Its operation. Marks the parameters it uses.
    fn operation(&self, query_mode: QueryMode, used: &mut [bool], check: &mut Check) -> Option<Operation> {
        let weight = check.count("--weight", self.weight, 1..=GREATEST_WEIGHT).unwrap_or(1);
        let tokens = tokens(self.text)
            .map_err(|fault| {
                let (line, column) = place(self.text, fault.at);
                let reason = format!("line {line}, column {column}: {}", fault.reason);
                check.fault(&self.label, reason, fault.remedy);
            })
            .ok()?;
        let pieces = split(&tokens);
        if pieces.is_empty() {
            check.fault(&self.label, "holds no statement", "give one, such as SELECT 1");
            return None;
        }
        if pieces.len() > 1 && self.file.is_none() {
            check.fault(
                &self.label,
                format!("holds {} statements", pieces.len()),
                "write them to a file and give --sql-file, which sends them as one transaction",
            );
            return None;
        }
        let mut statements = Vec::with_capacity(pieces.len() + 2);
        for piece in &pieces {
            statements.push(self.statement(piece, used, check)?);
        }
        let mut sql: Vec<String> = pieces.iter().map(|piece| one_line(piece)).collect();
        // What a single statement does is a transaction by itself.
        if pieces.len() > 1 && !pieces.iter().any(|piece| begins_transaction(piece)) {
            let alone = |text: &str| Statement {
                parts: vec![SqlPart::Text(text.to_owned())],
                parameters: Vec::new(),
            };
            statements.insert(0, alone("BEGIN"));
            statements.push(alone("COMMIT"));
            sql.insert(0, "BEGIN".to_owned());
            sql.push("COMMIT".to_owned());
        }
        Some(Operation {
            name: self.file.map_or_else(|| shortened(&sql[0]), str::to_owned),
            target: 0,
            weight,
            request: Request::Postgres(statements),
            facts: RequestFacts {
                protocol: "postgres".to_owned(),
                method: query_mode.name().to_owned(),
                sql,
                ..RequestFacts::default()
            },
        })
    }

    fn statement(&self, piece: &[Token<'_>], used: &mut [bool], check: &mut Check) -> Option<Statement> {
        let numbers = match numbers(piece) {
            Ok(numbers) => numbers,
            Err(text) => {
                check.fault(
                    &self.label,
                    format!("{text} is not a parameter, which are counted from 1 to 65535"),
                    "write $1 for the first --param",
                );
                return None;
            }
        };
        if let Some(highest) = numbers.last().filter(|number| **number > used.len()) {
            let first = numbers.iter().find(|number| **number > used.len()).unwrap_or(highest);
            let were = if used.len() == 1 { "was" } else { "were" };
            check.fault(
                &self.label,
                format!(
                    "${first} has no --param: the statement needs {highest}, and {} {were} given",
                    used.len()
                ),
                "give one --param LAW for each, $1 first, such as --param uniform:0..1000",
            );
            return None;
        }
        numbers.iter().for_each(|number| used[number - 1] = true);
        let mut statement =
            Statement { parts: Vec::new(), parameters: numbers.iter().map(|number| number - 1).collect() };
        for token in piece {
            let parameter = number(token).and_then(|number| numbers.binary_search(&number).ok());
            match (parameter, statement.parts.last_mut()) {
                (Some(index), _) => statement.parts.push(SqlPart::Parameter(index)),
                (None, Some(SqlPart::Text(text))) => text.push_str(token.text),
                (None, _) => statement.parts.push(SqlPart::Text(token.text.to_owned())),
            }
        }
        Some(statement)
    }
}

/// The statements, without those that are empty, and without the space around each.
fn split<'a, 'b>(tokens: &'b [Token<'a>]) -> Vec<&'b [Token<'a>]> {
    let says_nothing = |kind: Kind| matches!(kind, Kind::Space | Kind::Comment);
    tokens
        .split(|token| token.kind == Kind::Semicolon)
        .filter(|piece| !piece.iter().all(|token| says_nothing(token.kind)))
        .map(|piece| {
            let is_word = |token: &Token<'_>| token.kind != Kind::Space;
            let first = piece.iter().position(is_word).unwrap_or(0);
            let last = piece.iter().rposition(is_word).unwrap_or(0);
            &piece[first..=last]
        })
        .collect()
}

/// The number of the parameter a token stands for; protocol messages count them in 16 bits.
fn number(token: &Token<'_>) -> Option<usize> {
    let digits = token.text.strip_prefix('$').filter(|_| token.kind == Kind::Parameter)?;
    digits.parse().ok().filter(|number| (1..=usize::from(u16::MAX)).contains(number))
}

/// The numbers of the parameters in a statement, rising, each once; the text of one that is none.
fn numbers<'a>(piece: &[Token<'a>]) -> Result<Vec<usize>, &'a str> {
    let parameters = piece.iter().filter(|token| token.kind == Kind::Parameter);
    let mut numbers =
        parameters.map(|token| number(token).ok_or(token.text)).collect::<Result<Vec<usize>, _>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// True for BEGIN and START TRANSACTION.
fn begins_transaction(piece: &[Token<'_>]) -> bool {
    let mut words = piece.iter().filter(|token| token.kind == Kind::Word).map(|token| token.text);
    let is = |word: Option<&str>, keyword: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(keyword));
    let first = words.next();
    is(first, "begin") || (is(first, "start") && is(words.next(), "transaction"))
}

/// The text of a `--sql`, faulty perhaps, in one line.
fn in_one_line(sql: &str) -> String {
    let words = || sql.split_whitespace().collect::<Vec<_>>().join(" ");
    tokens(sql).map_or_else(|_| words(), |tokens| one_line(&tokens))
}

/// A statement in one line, without comments.
fn one_line(piece: &[Token<'_>]) -> String {
    let mut line = String::new();
    for token in piece {
        match token.kind {
            Kind::Space | Kind::Comment if line.is_empty() || line.ends_with(' ') => (),
            Kind::Space | Kind::Comment => line.push(' '),
            _ => line.extend(token.text.chars().map(|c| if c.is_control() { ' ' } else { c })),
        }
    }
    line.truncate(line.trim_end_matches([' ', ';']).len());
    line
}

/// The first words of a line, `…` where some are left out.
fn shortened(line: &str) -> String {
    if line.chars().count() <= NAME_CHARS {
        return line.to_owned();
    }
    // One character less leaves room for the ellipsis.
    let end = line.char_indices().nth(NAME_CHARS - 1).map_or(line.len(), |(at, _)| at);
    let (text, rest) = line.split_at(end);
    let words = match rest.starts_with(' ') {
        true => text,
        false => text.rsplit_once(' ').map_or(text, |(words, _)| words),
    };
    format!("{}…", words.trim_end())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_the_first_words() {
        for (line, name) in [
            ("SELECT 1", "SELECT 1"),
            ("SELECT balance FROM accounts WHERE id=$1", "SELECT balance FROM accounts WHERE id=$1"),
            ("SELECT balance FROM accounts WHERE id = $1", "SELECT balance FROM accounts WHERE id =…"),
            (
                "SELECT_a_word_that_is_longer_than_forty_characters",
                "SELECT_a_word_that_is_longer_than_forty…",
            ),
            ("ÄÄÄÄÄÄÄÄÄÄ ÄÄÄÄÄÄÄÄÄ ÄÄÄÄÄÄÄÄÄ ÄÄÄÄÄÄÄÄÄ Ä", "ÄÄÄÄÄÄÄÄÄÄ ÄÄÄÄÄÄÄÄÄ ÄÄÄÄÄÄÄÄÄ…"),
        ] {
            assert_eq!(shortened(line), name);
            assert!(name.chars().count() <= NAME_CHARS);
        }
    }

    #[test]
    fn lines_of_reports_have_no_comments_and_no_line_ends() {
        let sql = "-- first\nSELECT 'a\nb',  /* $1 */\n\t$1 -- last";
        assert_eq!(one_line(&tokens(sql).unwrap()), "SELECT 'a b', $1");
    }

    /// A statement's text with its parameters as PostgreSQL numbers them.
    fn sent(statement: &Statement) -> String {
        let part = |part: &SqlPart| match part {
            SqlPart::Text(text) => text.clone(),
            SqlPart::Parameter(index) => format!("${}", index + 1),
        };
        statement.parts.iter().map(part).collect()
    }

    proptest! {
        #[test]
        fn joined_parts_give_the_text_with_parameters_numbered_anew(
            sql in "[a$123;'\"/* \n(),]{0,40}",
        ) {
            let Ok(tokens) = tokens(&sql) else { return Ok(()) };
            let mut used = vec![true; 400];
            let source = Source { label: String::new(), text: &sql, weight: None, file: None };
            for piece in split(&tokens) {
                let mut check = Check::default();
                let Some(statement) = source.statement(piece, &mut used, &mut check) else { continue };
                let expected = piece.iter().map(|token| match number(token) {
                    Some(number) => {
                        let index = statement.parameters.iter().position(|p| p + 1 == number);
                        format!("${}", index.expect("among the statement's") + 1)
                    }
                    None => token.text.to_owned(),
                });
                prop_assert_eq!(sent(&statement), expected.collect::<String>());
                // Read again, its parameters are 1 to their count.
                let sent = sent(&statement);
                let again = super::tokens(&sent).expect("lexes as before");
                prop_assert_eq!(numbers(&again).unwrap(), (1..=statement.parameters.len()).collect::<Vec<_>>());
            }
        }
    }
}
