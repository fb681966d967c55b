//! Connection URLs of PostgreSQL, taken apart as libpq does (PostgreSQL documentation, "Connection
//! Strings"): `postgres://user:password@host:port/dbname?keyword=value&…`, every part optional, escapes
//! resolved everywhere.

use crate::url::{Refusal, unescape};

/// What follows `postgres://` or `postgresql://`; `None` for another URL.
pub(crate) fn after_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    ["postgres", "postgresql"].iter().any(|known| scheme.eq_ignore_ascii_case(known)).then_some(rest)
}

/// The URL, faulty perhaps, as messages show it. A password may be anywhere before an `@` and in the query,
/// and a port that is none may be a password whose `@` is missing: too much is left out rather than too
/// little.
pub(crate) fn shown(rest: &str) -> String {
    let rest = match rest.rfind('@') {
        Some(at) => format!("…{}", &rest[at..]),
        None => rest.to_owned(),
    };
    let (plain, query) = match rest.split_once('?') {
        Some((plain, _)) => (plain, "?…"),
        None => (rest.as_str(), ""),
    };
    let (authority, path) = plain.split_at(plain.find('/').unwrap_or(plain.len()));
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    match port.bytes().all(|b| b.is_ascii_digit()) || port.ends_with(']') {
        true => format!("postgres://{authority}{path}{query}"),
        false => format!("postgres://{host}:…{path}{query}"),
    }
}

/// The keywords and values in what follows the scheme, in order; the last of a keyword decides.
pub(super) fn parts(rest: &str) -> Result<Vec<(String, String)>, Refusal> {
    let mut parts = Vec::new();
    let mut add = |keyword: &str, value: &str| -> Result<(), Refusal> {
        if !value.is_empty() {
            parts.push((keyword.to_owned(), plain(keyword, value)?));
        }
        Ok(())
    };
    // As libpq: what stands before the first '@' is the user, unless a '/' comes before it.
    let rest = match rest.find(['@', '/']).filter(|at| rest[*at..].starts_with('@')) {
        Some(at) => {
            let (user, password) = rest[..at].split_once(':').unwrap_or((&rest[..at], ""));
            add("user", user)?;
            add("password", password)?;
            &rest[at + 1..]
        }
        None => rest,
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.contains(['@', '/']) || database.contains('@') {
        // Not quoted: it may be the end of a password.
        return Err(Refusal::new(
            "has an '@' after its host",
            "write an '@' as %40, and a '/' in a password as %2F",
        ));
    }
    if authority.contains(',') {
        return Err(several_hosts());
    }
    let (host, port) = split_port(authority)?;
    add("host", host)?;
    add("port", port)?;
    add("dbname", database)?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some((keyword, value)) = pair.split_once('=') else {
            return Err(Refusal::new("has a parameter without '='", "write KEYWORD=VALUE after the '?'"));
        };
        match (plain("parameter", keyword)?.as_str(), value) {
            // As the Java driver writes it.
            ("ssl", "true") => add("sslmode", "require")?,
            (keyword, value) => add(keyword, value)?,
        }
    }
    Ok(parts)
}

pub(super) fn several_hosts() -> Refusal {
    Refusal::new("names several hosts, and a run measures one server", "give one host and one port")
}

/// Splits `host:port`, an IPv6 address standing in brackets.
fn split_port(authority: &str) -> Result<(&str, &str), Refusal> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest
                .split_once(']')
                .ok_or_else(|| Refusal::new("has a '[' without its ']'", "write an IPv6 address as [::1]"))?;
            let port = port.strip_prefix(':').or(port.is_empty().then_some(""));
            (host, port)
        }
        None => {
            let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
            (host, Some(port))
        }
    };
    match port.filter(|port| port.bytes().all(|b| b.is_ascii_digit())) {
        Some(port) => Ok((host, port)),
        // Not quoted: it may be a password.
        None => Err(Refusal::new(
            "has something other than a port after its host",
            "write USER:PASSWORD@HOST:PORT, an IPv6 address in brackets such as [::1]:5432",
        )),
    }
}

/// `text` with its escapes resolved; the value itself may be secret.
fn plain(what: &str, text: &str) -> Result<String, Refusal> {
    let bytes = unescape(text).ok_or_else(|| {
        Refusal::new(format!("its {what} has a '%' without two hexadecimal digits"), "write a '%' as %25")
    })?;
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| Refusal::new(format!("its {what} is not a text in UTF-8"), "write it in UTF-8"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_are_taken_apart_as_the_documentation_of_libpq_says() {
        for (rest, expected) in [
            // The examples of "Connection URIs".
            ("", vec![]),
            ("localhost", vec![("host", "localhost")]),
            ("localhost:5433", vec![("host", "localhost"), ("port", "5433")]),
            ("localhost/mydb", vec![("host", "localhost"), ("dbname", "mydb")]),
            ("user@localhost", vec![("user", "user"), ("host", "localhost")]),
            ("user:secret@localhost", vec![("user", "user"), ("password", "secret"), ("host", "localhost")]),
            (
                "other@localhost/otherdb?connect_timeout=10&application_name=myapp",
                vec![
                    ("user", "other"),
                    ("host", "localhost"),
                    ("dbname", "otherdb"),
                    ("connect_timeout", "10"),
                    ("application_name", "myapp"),
                ],
            ),
            (
                "/mydb?host=localhost&port=5433",
                vec![("dbname", "mydb"), ("host", "localhost"), ("port", "5433")],
            ),
            ("[2001:db8::1234]/database", vec![("host", "2001:db8::1234"), ("dbname", "database")]),
            ("/dbname?host=/var/lib/postgresql", vec![("dbname", "dbname"), ("host", "/var/lib/postgresql")]),
            ("%2Fvar%2Flib%2Fpostgresql/dbname", vec![("host", "/var/lib/postgresql"), ("dbname", "dbname")]),
            (
                "user@localhost:5433/mydb?options=-c%20synchronous_commit%3Doff",
                vec![
                    ("user", "user"),
                    ("host", "localhost"),
                    ("port", "5433"),
                    ("dbname", "mydb"),
                    ("options", "-c synchronous_commit=off"),
                ],
            ),
            // Escapes in user, password and database; empty parts are not given.
            (
                "a%40b:p%3A%2F%40@h/d%2Fe",
                vec![("user", "a@b"), ("password", "p:/@"), ("host", "h"), ("dbname", "d/e")],
            ),
            (":@:5433/?user=", vec![("port", "5433")]),
            ("h?ssl=true", vec![("host", "h"), ("sslmode", "require")]),
        ] {
            let parts = parts(rest).unwrap_or_else(|refusal| panic!("{rest}: {refusal:?}"));
            let parts: Vec<_> = parts.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(parts, expected, "{rest}");
        }
    }

    #[test]
    fn faulty_urls_are_refused_without_showing_a_password() {
        for (rest, reason) in [
            ("a:secret@b:secret@h/d", "'@' after its host"),
            ("a:sec/secret@h/d", "'@' after its host"),
            ("a:secret", "something other than a port"),
            ("[::1", "without its ']'"),
            ("[::1]secret", "something other than a port"),
            ("::1/d", "something other than a port"),
            ("h1,h2/d", "several hosts"),
            ("h1:1,h2:2/d", "several hosts"),
            ("u:%zzsecret@h", "its password has a '%'"),
            ("u:%ffsecret@h", "its password is not a text"),
            ("u:%00secret@h", "its password is not a text"),
            ("h/d?secret", "without '='"),
        ] {
            let refusal = parts(rest).expect_err(rest);
            assert!(refusal.reason.contains(reason), "{rest}: {refusal:?}");
            let told = format!("{} {} {}", shown(rest), refusal.reason, refusal.remedy);
            assert!(!told.contains("secret"), "{told}");
        }
        assert_eq!(shown("u:p@h:5433/d?password=x"), "postgres://…@h:5433/d?…");
        assert_eq!(shown("h/d"), "postgres://h/d");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(rest in "[a:@/?&=%0-9\\[\\],ä\\PC]{0,24}") {
            let _ = (parts(&rest), shown(&rest));
        }

        #[test]
        fn a_password_is_never_shown(password in "[a-z%0-9:/@?]{0,6}SECRET[a-z%0-9:/@?]{0,6}") {
            let rest = format!("user:{password}@host:5432/db");
            prop_assert!(!shown(&rest).contains("SECRET"), "{}", shown(&rest));
            if let Err(refusal) = parts(&rest) {
                let told = format!("{refusal:?}");
                prop_assert!(!told.contains("SECRET"));
            }
        }
    }
}
