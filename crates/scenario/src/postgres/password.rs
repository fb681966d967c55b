//! libpq's password file (PostgreSQL documentation, "The Password File"): lines of
//! `hostname:port:database:username:password`, the first that matches decides.

/// What is asked of a password file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The host as it was given; `localhost` for the usual socket directories.
    pub(super) host: &'a str,
    pub(super) port: &'a str,
    pub(super) database: &'a str,
    pub(super) user: &'a str,
}

/// The password in the text of a password file.
pub(super) fn find(file: &str, wanted: Wanted<'_>) -> Option<String> {
    file.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let rest = [wanted.host, wanted.port, wanted.database, wanted.user]
            .iter()
            .try_fold(line, |line, field| after_match(line, field))?;
        Some(field(rest).0)
    })
}

/// What follows the line's first field, where that field is `*` or stands for `value`.
fn after_match<'a>(line: &'a str, value: &str) -> Option<&'a str> {
    if let Some(rest) = line.strip_prefix("*:") {
        return Some(rest);
    }
    let (text, rest) = field(line);
    rest.filter(|_| text == value)
}

/// The first field with its escapes (`\:`, `\\`) resolved, and what follows the colon that ends it.
fn field(line: &str) -> (String, Option<&str>) {
    let mut text = String::new();
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            ':' => return (text, Some(&line[at + 1..])),
            '\\' => text.push(chars.next().map_or('\\', |(_, escaped)| escaped)),
            _ => text.push(c),
        }
    }
    (text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_matches_decides() {
        let file = "# host:5432:db:user:comment\n\
                    \n\
                    host:5432:db:user\n\
                    other:5432:db:user:a\r\n\
                    host:5433:*:user:b\n\
                    host:*:d\\:b\\\\:user:c\n\
                    h*:5432:db:user:literal\n\
                    *:*:*:user:p\\:a\\\\s s:rest\n\
                    *:*:*:*:last";
        let find = |host, port, database, user| find(file, Wanted { host, port, database, user });
        for (wanted, password) in [
            (("other", "5432", "db", "user"), "a"),
            (("host", "5433", "any", "user"), "b"),
            (("host", "1", "d:b\\", "user"), "c"),
            // A star stands for anything only where it is the whole field.
            (("h*", "5432", "db", "user"), "literal"),
            (("host", "5432", "db", "user"), "p:a\\s s"),
            (("host", "5432", "db", "nobody"), "last"),
        ] {
            let (host, port, database, user) = wanted;
            assert_eq!(find(host, port, database, user).as_deref(), Some(password), "{wanted:?}");
        }
        assert_eq!(super::find("", Wanted { host: "h", port: "1", database: "d", user: "u" }), None);
    }
}
