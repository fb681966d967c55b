//! Rust source reduced to what a rule looks at: code without comments, literals and tests.
//!
//! Not a parser. It knows where comments and literals begin and end, and which braces belong
//! together, which is all that is needed to find a word.

/// `source` with comments and the contents of string and character literals blanked out. Line breaks
/// stay, so that a line keeps its number.
pub fn without_comments_and_text(source: &str) -> String {
    let mut rest = source;
    let mut out = String::with_capacity(source.len());
    while let Some(first) = rest.chars().next() {
        let previous = out.chars().next_back();
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => text(rest),
            'r' if !previous.is_some_and(is_name) || previous == Some('b') => raw_text(rest).unwrap_or(0),
            '\'' => character(rest).unwrap_or(0),
            _ => 0,
        };
        if length == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            out.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[length..];
        }
    }
    out
}

/// `code`, in which comments and literals are blanked out already, without the items under
/// `#[cfg(test)]`. Line breaks stay.
pub fn without_test_items(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        let item = &rest[at..];
        let mut depth = 0usize;
        let mut end = item.len();
        for (i, c) in item.char_indices().skip(MARK.len()) {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && (c == '}' || c == ';') {
                end = i + 1;
                break;
            }
        }
        out.extend(item[..end].chars().filter(|c| *c == '\n'));
        rest = &item[end..];
    }
    out.push_str(rest);
    out
}

/// True when `line` holds `word` and no letter, digit or `_` touches it where it begins or ends with
/// one.
pub fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().filter(|_| word.starts_with(is_name));
        let after = line[at + word.len()..].chars().next().filter(|_| word.ends_with(is_name));
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the block comment at the beginning of `rest`; they nest.
fn block_comment(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0usize);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if rest[at..].starts_with("*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The length of the string literal at the beginning of `rest`.
fn text(rest: &str) -> usize {
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !escaped => return i + 1,
            _ => escaped = c == '\\' && !escaped,
        }
    }
    rest.len()
}

/// The length of the raw string literal at the beginning of `rest`, where there is one.
fn raw_text(rest: &str) -> Option<usize> {
    let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
    let begin = 1 + hashes;
    rest[begin..].starts_with('"').then_some(())?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(rest[begin + 1..].find(&end).map_or(rest.len(), |at| begin + 1 + at + end.len()))
}

/// The length of the character literal at the beginning of `rest`; `None` for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let inside = &rest[1..];
    if inside.starts_with('\\') {
        // The escaped character may be a quote itself.
        return inside[2..].find('\'').map(|at| at + 4);
    }
    let length = inside.chars().next()?.len_utf8();
    inside[length..].starts_with('\'').then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_code_stays() {
        for (source, gone, kept) in [
            ("let a = 1; // unsafe\nlet b;", "unsafe", "let b;"),
            ("/* x /* unsafe */ y */ fn f() {}", "unsafe", "fn f() {}"),
            (r#"call("a \" unsafe", b)"#, "unsafe", ", b)"),
            (r##"call(r#"a " unsafe"#, b)"##, "unsafe", ", b)"),
            (r#"call(br"unsafe\", b)"#, "unsafe", ", b)"),
            ("if c == '\"' { unsafe_not(); } else { '\\'' }", "\"", "unsafe_not"),
            ("fn f<'a>(x: &'a str) -> char { 'u' }", "'u'", "<'a>(x: &'a str)"),
        ] {
            let code = without_comments_and_text(source);
            assert!(!code.contains(gone) && code.contains(kept), "{source}\n{code}");
            assert_eq!(code.lines().count(), source.lines().count(), "{source}");
        }
    }

    #[test]
    fn items_of_tests_are_cut_out_and_lines_keep_their_numbers() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { {} }\n}\n#[cfg(test)]\nuse c;\nfn d() {}";
        let product = without_test_items(code);
        assert!(!product.contains("fn b") && !product.contains("use c"), "{product}");
        assert_eq!(product.lines().position(|line| line == "fn d() {}"), Some(7));
    }

    #[test]
    fn words_are_found_whole() {
        assert!(has_word("let t = Instant::now();", "Instant"));
        assert!(!has_word("let t = MyInstant::now();", "Instant"));
        assert!(!has_word("fn instant_of()", "instant"));
        assert!(has_word("use std::net::TcpStream;", "std::net::"));
    }
}
