//! SQL as far as it must be understood to find parameters and the ends of statements.
//!
//! The rules are those of PostgreSQL's own scanner with `standard_conforming_strings` on (documentation,
//! "Lexical Structure"). Tokens cover the text without a gap.

/// A piece of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Space,
    Comment,
    /// A string in any of its forms, or an identifier in double quotes.
    Quoted,
    /// A keyword or an identifier.
    Word,
    /// `$1`.
    Parameter,
    /// A `;` outside parentheses (inside, it belongs to the statement, as in CREATE RULE).
    Semicolon,
    /// Everything else, a character or a number at a time.
    Other,
}

/// Why a text is not SQL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LexFault {
    /// Where it begins, in bytes.
    pub(super) at: usize,
    pub(super) reason: String,
    pub(super) remedy: &'static str,
}

/// The tokens of `sql`.
pub(super) fn tokens(sql: &str) -> Result<Vec<Token<'_>>, LexFault> {
    let mut tokens = Vec::new();
    let mut depth = 0_usize;
    let mut at = 0;
    while at < sql.len() {
        let (kind, length) = token(&sql[at..]).map_err(|fault| LexFault { at, ..fault })?;
        let text = &sql[at..at + length];
        let kind = match text {
            ";" if depth > 0 => Kind::Other,
            _ => kind,
        };
        match text {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => (),
        }
        tokens.push(Token { kind, text });
        at += length;
    }
    Ok(tokens)
}

/// The line and the column, both from 1, of the byte `at`.
pub(super) fn place(sql: &str, at: usize) -> (usize, usize) {
    let before = &sql[..at];
    let line = before.rsplit('\n').next().unwrap_or(before);
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// The kind and the length of the token that `rest`, which is not empty, begins with.
fn token(rest: &str) -> Result<(Kind, usize), LexFault> {
    let bytes = rest.as_bytes();
    let second = bytes.get(1).copied();
    let escapes = |length: usize| (Kind::Quoted, length);
    match (bytes[0], second) {
        (b, _) if is_space(b) => Ok((Kind::Space, run(bytes, is_space))),
        (b'-', Some(b'-')) => Ok((Kind::Comment, rest.find(['\n', '\r']).unwrap_or(rest.len()))),
        (b'/', Some(b'*')) => block_comment(bytes).map(|length| (Kind::Comment, length)),
        (b'e' | b'E', Some(b'\'')) => escape_string(bytes).map(escapes),
        (b'\'', _) => quoted(bytes, b'\'').map(escapes),
        (b'"', _) => quoted(bytes, b'"').map(escapes),
        (b'$', Some(b'0'..=b'9')) => Ok((Kind::Parameter, 1 + run(&bytes[1..], |b| b.is_ascii_digit()))),
        (b'$', _) => match dollar_tag(bytes) {
            Some(tag) => dollar_string(rest, &rest[..tag]).map(escapes),
            None => Ok((Kind::Other, 1)),
        },
        (b'\\', _) => Err(meta_command(rest)),
        (b';', _) => Ok((Kind::Semicolon, 1)),
        (b'0'..=b'9', _) => {
            Ok((Kind::Other, run(bytes, |b| b.is_ascii_alphanumeric() || b"_.".contains(&b))))
        }
        (b, _) if begins_word(b) => Ok((Kind::Word, run(bytes, |b| continues_tag(b) || b == b'$'))),
        _ => Ok((Kind::Other, 1)),
    }
}

const fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

const fn ends_line(b: u8) -> bool {
    matches!(b, b'\n' | b'\r')
}

/// Every byte of a character beyond ASCII belongs to a word, so that no character is cut.
const fn begins_word(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b >= 0x80
}

const fn continues_tag(b: u8) -> bool {
    begins_word(b) || b.is_ascii_digit()
}

/// How many bytes from the first on are as `holds` says.
fn run(bytes: &[u8], holds: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|b| !holds(*b)).unwrap_or(bytes.len())
}

fn unended(what: &str, remedy: &'static str) -> LexFault {
    LexFault { at: 0, reason: format!("{what} begins there and never ends"), remedy }
}

/// Comments of this kind nest.
fn block_comment(bytes: &[u8]) -> Result<usize, LexFault> {
    let (mut depth, mut at) = (0_usize, 0);
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") if depth == 1 => return Ok(at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    Err(unended("a comment", "end each /* with its */"))
}

/// Text between quotes, in which a doubled quote is one.
fn quoted(bytes: &[u8], quote: u8) -> Result<usize, LexFault> {
    let mut at = 1;
    while at < bytes.len() {
        match (bytes[at] == quote, bytes.get(at + 1) == Some(&quote)) {
            (true, true) => at += 2,
            (true, false) => return Ok(at + 1),
            (false, _) => at += 1,
        }
    }
    Err(match quote {
        b'"' => unended("an identifier in quotes", "end it with a '\"'"),
        _ => unended("a string", "end it with a ', and write a ' inside as ''"),
    })
}

/// `E'…'`, in which a backslash takes its meaning from the next character. A string goes on after space
/// with a line end in it, and so do its escapes.
fn escape_string(bytes: &[u8]) -> Result<usize, LexFault> {
    let mut at = 2;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => match continuation(&bytes[at + 1..]) {
                Some(length) => at += 1 + length,
                None => return Ok(at + 1),
            },
            _ => at += 1,
        }
    }
    Err(unended("a string", "end it with a ', and write a ' inside as \\'"))
}

/// The length of what stands between two parts of one string, the second one's quote included: space and
/// comments up to the line's end, with a line end among them.
fn continuation(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b if is_space(*b) => at += 1,
            b'-' if bytes.get(at + 1) == Some(&b'-') => at += run(&bytes[at..], |b| !ends_line(b)),
            b'\'' => return bytes[..at].iter().any(|b| ends_line(*b)).then_some(at + 1),
            _ => return None,
        }
    }
}

/// The length of `$tag$`, where `bytes` begins with one.
fn dollar_tag(bytes: &[u8]) -> Option<usize> {
    let tag = &bytes[1..];
    let length = match tag.first() {
        Some(b) if begins_word(*b) => run(tag, continues_tag),
        _ => 0,
    };
    (tag.get(length) == Some(&b'$')).then_some(length + 2)
}

fn dollar_string(rest: &str, tag: &str) -> Result<usize, LexFault> {
    rest[tag.len()..].find(tag).map(|at| at + 2 * tag.len()).ok_or_else(|| LexFault {
        reason: format!("a string in {tag} begins there and never ends"),
        ..unended("", "end it with the same dollar quote")
    })
}

fn meta_command(rest: &str) -> LexFault {
    let name = &rest[1..];
    let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len())];
    LexFault {
        at: 0,
        reason: format!("\\{name} is a command of psql or pgbench, not SQL"),
        remedy: "take it out; random values come from --param, as $1 in the statement",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The tokens that are no space, each with the first letter of its kind.
    fn kinds(sql: &str) -> Vec<String> {
        let tokens = tokens(sql).unwrap_or_else(|fault| panic!("{sql}: {fault:?}"));
        let shown = |token: &Token<'_>| format!("{}:{}", &format!("{:?}", token.kind)[..1], token.text);
        tokens.iter().filter(|token| token.kind != Kind::Space).map(shown).collect()
    }

    /// Most of these were put to PostgreSQL 15 itself: PREPARE tells how many parameters it found.
    #[test]
    fn tokens_are_those_of_postgresqls_scanner() {
        for (sql, expected) in [
            // "Lexical Structure": comments, nested ones too.
            ("a--$1\n$1", vec!["W:a", "C:--$1", "P:$1"]),
            ("/* $1 /* ; */ ' */;", vec!["C:/* $1 /* ; */ ' */", "S:;"]),
            ("1-2/3", vec!["O:1", "O:-", "O:2", "O:/", "O:3"]),
            // Strings: doubled quotes; a backslash means something after E only.
            ("'it''s $1;'$1", vec!["Q:'it''s $1;'", "P:$1"]),
            ("'a\\' $1", vec!["Q:'a\\'", "P:$1"]),
            ("E'a\\'$1' $2", vec!["Q:E'a\\'$1'", "P:$2"]),
            ("e'a'''", vec!["Q:e'a'''"]),
            ("E'a'\n  'b\\'$1'", vec!["Q:E'a'\n  'b\\'$1'"]),
            ("E'a' -- ' $2\n'b\\'$1'$3", vec!["Q:E'a' -- ' $2\n'b\\'$1'", "P:$3"]),
            ("E'a'--\n/**/'b'", vec!["Q:E'a'", "C:--", "C:/**/", "Q:'b'"]),
            ("E'a' 'b'", vec!["Q:E'a'", "Q:'b'"]),
            ("U&'d\\0061$1' $1", vec!["W:U", "O:&", "Q:'d\\0061$1'", "P:$1"]),
            ("like'a'", vec!["W:like", "Q:'a'"]),
            ("table'a'", vec!["W:table", "Q:'a'"]),
            ("\"a\"\"$1;\"", vec!["Q:\"a\"\"$1;\""]),
            // Dollar quotes, with another inside; an identifier may hold a dollar.
            ("$$;'$1$$$1", vec!["Q:$$;'$1$$", "P:$1"]),
            ("$f$ $$ $g$ $f$", vec!["Q:$f$ $$ $g$ $f$"]),
            ("a$1 b$c$ d", vec!["W:a$1", "W:b$c$", "W:d"]),
            ("$1$2", vec!["P:$1", "P:$2"]),
            ("$a $", vec!["O:$", "W:a", "O:$"]),
            // Casts, slices, numbers.
            ("$1::int", vec!["P:$1", "O::", "O::", "W:int"]),
            ("1.5e10 0xFF 1_000", vec!["O:1.5e10", "O:0xFF", "O:1_000"]),
            ("größe=$12", vec!["W:größe", "O:=", "P:$12"]),
            // Only outside parentheses does a semicolon end a statement.
            ("(a;b);", vec!["O:(", "W:a", "O:;", "W:b", "O:)", "S:;"]),
            ("§ €", vec!["W:§", "W:€"]),
        ] {
            assert_eq!(kinds(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_never_ends_is_named_with_its_place() {
        for (sql, reason, expected) in [
            ("select 'a", "a string begins", (1, 8)),
            ("select\n  E'a\\'", "a string begins", (2, 3)),
            ("ä \"a", "an identifier in quotes begins", (1, 3)),
            ("/* /* */", "a comment begins", (1, 1)),
            ("$a$ $b$", "a string in $a$ begins", (1, 1)),
            ("select 1;\n\\set aid random(1, 10)", "\\set is a command of psql or pgbench", (2, 1)),
        ] {
            let fault = tokens(sql).expect_err(sql);
            assert!(fault.reason.contains(reason), "{sql}: {fault:?}");
            assert_eq!(place(sql, fault.at), expected, "{sql}");
        }
    }

    proptest! {
        #[test]
        fn tokens_cover_the_text(sql in "[a$1;'\"\\-/*\\\\Ee \n().:\\PC]{0,40}") {
            if let Ok(tokens) = tokens(&sql) {
                prop_assert_eq!(tokens.iter().map(|token| token.text).collect::<String>(), sql.as_str());
                prop_assert!(tokens.iter().all(|token| !token.text.is_empty()));
            }
        }
    }
}
