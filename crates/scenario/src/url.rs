//! The URL of a run, taken apart without being changed.
//!
//! What follows the authority goes to the server byte for byte: no escape is added or resolved, no dot
//! segment removed, no slash joined. Only the fragment is left out, since it is never sent, and an empty
//! path becomes `/`. What could not be sent as it stands (spaces, control characters) is refused.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::postgres;

/// The schemes that work, for error messages.
pub(crate) const SCHEMES: &str = "http://, https:// or postgres://";

/// Schemes of protocols that are planned and not built.
const SCHEMES_TO_COME: [&str; 7] = ["h2c", "grpc", "grpcs", "redis", "thrift", "dns", "memcached"];

/// A URL, in the parts a run needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    /// User and password, escapes resolved.
    pub(crate) user: Option<UserInfo>,
    pub(crate) host: Host,
    /// The scheme's where none was given.
    pub(crate) port: u16,
    /// The request target: path and query as given.
    pub(crate) target: String,
}

/// The protocol and whether it is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// What stands before the `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserInfo {
    pub(crate) user: Vec<u8>,
    pub(crate) password: Vec<u8>,
}

/// A name or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// Without brackets and zone; a name in its ASCII form, otherwise as given.
    pub(crate) text: String,
    pub(crate) kind: HostKind,
}

/// What kind of host it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostKind {
    Name,
    V4,
    /// The zone is the interface a link-local address belongs to. It has a meaning on this machine
    /// only, so it is used to connect and never sent.
    V6 {
        zone: Option<String>,
    },
}

/// Why a text was refused, and what to give instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

impl Refusal {
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: remedy.into() }
    }
}

impl Scheme {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub(crate) const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        if let Some(at) = text.bytes().position(|b| b <= b' ' || b == 0x7f) {
            return Err(Refusal::new(
                format!("has a space or control character at byte {at}, which no request line can hold"),
                "write it as an escape, such as %20",
            ));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(match text.ends_with(".toml") {
                true => {
                    Refusal::new("scenario files are not yet supported", format!("give a URL, {SCHEMES}"))
                }
                false => Refusal::new("has no scheme", format!("write {}", with_scheme(text))),
            });
        };
        let scheme = Scheme::parse(scheme)?;
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (user, host_and_port) = match authority.rsplit_once('@') {
            Some((user, rest)) => (Some(UserInfo::parse(user)?), rest),
            None => (None, authority),
        };
        let (host, port) = split_port(host_and_port)?;
        let host = Host::parse(host)?;
        let port = match port {
            None | Some("") => scheme.default_port(),
            Some(port) => parse_port(port)?,
        };
        let target = tail.split_once('#').map_or(tail, |(target, _fragment)| target);
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self { scheme, user, host, port, target: format!("{slash}{target}") })
    }

    /// `http://host:port`, the port only where it is not the scheme's.
    pub(crate) fn origin(&self) -> String {
        let (scheme, host) = (self.scheme.name(), self.host.bracketed());
        match self.port == self.scheme.default_port() {
            true => format!("{scheme}://{host}"),
            false => format!("{scheme}://{host}:{}", self.port),
        }
    }
}

impl Scheme {
    fn parse(text: &str) -> Result<Self, Refusal> {
        let name = text.to_ascii_lowercase();
        match name.as_str() {
            "http" => Ok(Self::Http),
            "https" => Ok(Self::Https),
            _ if SCHEMES_TO_COME.contains(&name.as_str()) => {
                Err(Refusal::new(format!("{name}:// is not yet supported"), format!("give {SCHEMES}")))
            }
            _ => Err(Refusal::new(
                format!("'{text}://' is not a scheme known here"),
                format!("give {SCHEMES}"),
            )),
        }
    }
}

impl UserInfo {
    fn parse(text: &str) -> Result<Self, Refusal> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        let refusal = || {
            Refusal::new(
                "the user or password has a '%' without two hexadecimal digits",
                "write a '%' as %25, or give -u USER:PASSWORD",
            )
        };
        let part = |text| unescape(text).ok_or_else(refusal);
        Ok(Self { user: part(user)?, password: part(password)? })
    }
}

impl Host {
    /// Reads a name, an IPv4 address, or an IPv6 address in brackets.
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        if let Some(inner) = text.strip_prefix('[') {
            return Self::parse_v6(inner.strip_suffix(']').unwrap_or(inner));
        }
        if text.is_empty() {
            return Err(Refusal::new("has no host", "write http://HOST/"));
        }
        if text.parse::<Ipv4Addr>().is_ok() {
            return Ok(Self { text: text.to_owned(), kind: HostKind::V4 });
        }
        // A name whose last label is a number would be read as an address by some resolvers (127.1)
        // and as a name by others, so it is no name.
        let last = text.trim_end_matches('.').rsplit('.').next().unwrap_or(text);
        if !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Refusal::new(
                format!("'{text}' is not an IPv4 address"),
                "write four numbers from 0 to 255, such as 127.0.0.1",
            ));
        }
        Self::parse_name(text)
    }

    fn parse_v6(text: &str) -> Result<Self, Refusal> {
        let (address, zone) = match text.split_once('%') {
            // RFC 6874 writes the zone's percent sign as %25.
            Some((address, zone)) => (address, Some(zone.strip_prefix("25").unwrap_or(zone))),
            None => (text, None),
        };
        let plain = |zone: &str| {
            !zone.is_empty() && zone.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
        };
        if address.parse::<Ipv6Addr>().is_err() || !zone.is_none_or(plain) {
            return Err(Refusal::new(
                format!("'[{text}]' is not an IPv6 address"),
                "write it as [::1], or as [fe80::1%25eth0] with a zone",
            ));
        }
        Ok(Self { text: address.to_owned(), kind: HostKind::V6 { zone: zone.map(str::to_owned) } })
    }

    fn parse_name(text: &str) -> Result<Self, Refusal> {
        let refusal = |why: &str| {
            Refusal::new(
                format!("'{text}' is not a host name: {why}"),
                "write letters, digits, '-', '_' and '.', or an address ([::1] for IPv6)",
            )
        };
        let name = match text.is_ascii() {
            true => text.to_owned(),
            false => {
                idna::domain_to_ascii(text).map_err(|_| refusal("it has no ASCII form (IDNA, UTS 46)"))?
            }
        };
        if let Some(odd) = name.chars().find(|c| !c.is_ascii_alphanumeric() && !"-_.".contains(*c)) {
            return Err(refusal(&format!("it has a '{odd}'")));
        }
        // RFC 1035, 2.3.4: 63 bytes a label, 253 in writing; one dot may end an absolute name.
        let labels = name.strip_suffix('.').unwrap_or(&name);
        if labels.len() > 253 {
            return Err(refusal("it is longer than 253 bytes"));
        }
        if labels.split('.').any(|label| label.is_empty() || label.len() > 63) {
            return Err(refusal("a part between dots is empty or longer than 63 bytes"));
        }
        Ok(Self { text: name, kind: HostKind::Name })
    }

    /// As it stands in a URL or a `Host` header: brackets around IPv6, no zone.
    pub(crate) fn bracketed(&self) -> String {
        match self.kind {
            HostKind::V6 { .. } => format!("[{}]", self.text),
            HostKind::Name | HostKind::V4 => self.text.clone(),
        }
    }

    /// As a resolver takes it: no brackets, with the zone.
    pub(crate) fn to_resolve(&self) -> String {
        match &self.kind {
            HostKind::V6 { zone: Some(zone) } => format!("{}%{zone}", self.text),
            HostKind::V6 { zone: None } | HostKind::Name | HostKind::V4 => self.text.clone(),
        }
    }
}

/// Splits `host:port`, `[v6]:port` or either without a port.
fn split_port(text: &str) -> Result<(&str, Option<&str>), Refusal> {
    let end_of_host = match text.starts_with('[') {
        true => text
            .find(']')
            .map(|at| at + 1)
            .ok_or_else(|| Refusal::new("has a '[' without its ']'", "write an IPv6 address as [::1]"))?,
        false => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(end_of_host);
    if rest.is_empty() {
        return Ok((host, None));
    }
    match rest.strip_prefix(':') {
        Some(port) if text.starts_with('[') || !port.contains(':') => Ok((host, Some(port))),
        Some(_) => Err(Refusal::new(
            format!("'{text}' has more than one ':'"),
            "write HOST:PORT; an IPv6 address stands in brackets, such as [::1]:8080",
        )),
        None => Err(Refusal::new(format!("'{rest}' follows the ']'"), "write [ADDRESS]:PORT")),
    }
}

/// Reads a port.
pub(crate) fn parse_port(text: &str) -> Result<u16, Refusal> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|port| digits && *port > 0)
        .ok_or_else(|| Refusal::new(format!("'{text}' is not a port"), "give a whole number from 1 to 65535"))
}

/// What was probably meant by a text without `://`, its user left out as everywhere.
fn with_scheme(text: &str) -> String {
    let begun = ["http", "https", "postgres", "postgresql"].iter().find_map(|scheme| {
        let rest = text.strip_prefix(scheme)?.strip_prefix(':')?;
        Some((scheme, rest))
    });
    let (scheme, rest) = begun.unwrap_or((&"http", text));
    shown(&format!("{scheme}://{}", rest.trim_start_matches('/')))
}

/// A URL, faulty perhaps, as messages show it: what stands before an `@` may hold a password.
pub(crate) fn shown(text: &str) -> String {
    if let Some(rest) = postgres::after_scheme(text) {
        return postgres::shown(rest);
    }
    // Without "://" it is not known where a path begins: too much is left out rather than too little.
    let start = text.find("://").map_or(0, |at| at + 3);
    let end = text[start..].find(['/', '?', '#']).filter(|_| start > 0).map_or(text.len(), |at| start + at);
    match text[start..end].rfind('@') {
        Some(at) => format!("{}…{}", &text[..start], &text[start + at..]),
        None => text.to_owned(),
    }
}

/// Resolves `%XX`; `None` where two hexadecimal digits are missing after a `%`.
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = rest else { return None };
        let digit = |b: &u8| char::from(*b).to_digit(16);
        bytes.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = tail;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_is_given_it_is_refused_or_its_target_is_what_was_given(text in "(http://)?[a1:@/?#%\\[\\]. ä\\PC]{0,20}") {
            let shown = shown(&text);
            prop_assert!(shown.len() <= text.len() + "…".len());
            if let Ok(url) = Url::parse(&text) {
                let given = text.split('#').next().unwrap_or_default();
                prop_assert!(given.ends_with(&url.target) || given.ends_with(&url.target[1..]));
            }
        }
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap_or_else(|refusal| panic!("{text}: {refusal:?}"))
    }

    #[test]
    fn cli_08_the_request_target_is_kept_byte_for_byte() {
        for (text, target) in [
            // No path, no query; an empty path before a query.
            ("http://h", "/"),
            ("http://h?x=1", "/?x=1"),
            ("http://h#frag", "/"),
            ("http://h/", "/"),
            // A trailing question mark is part of the target.
            ("http://h/a?", "/a?"),
            ("http://h?", "/?"),
            // Escapes, doubled slashes, dot segments, brackets and bars; only the fragment goes.
            (
                "http://h/a%2Fb//c/../d?x=%26&y=a+b&z=[1]|{2}&e=#frag",
                "/a%2Fb//c/../d?x=%26&y=a+b&z=[1]|{2}&e=",
            ),
            ("http://h/a#b?c#d", "/a"),
            ("http://h//", "//"),
            ("http://h/.", "/."),
            ("http://h/a:b@c", "/a:b@c"),
            ("http://h/?u=http://x:1/@", "/?u=http://x:1/@"),
            ("http://h/\\..\\a", "/\\..\\a"),
            ("http://h/%zz", "/%zz"),
            ("http://h/ä?ö", "/ä?ö"),
            ("http://h/${id}?x=${id}", "/${id}?x=${id}"),
        ] {
            assert_eq!(url(text).target, target, "{text}");
        }
    }

    #[test]
    fn cli_07_host_and_port_are_read_in_every_form() {
        for (text, host, port) in [
            ("http://h/", "h", 80),
            ("http://h:/", "h", 80),
            ("http://h:80/", "h", 80),
            ("http://h:8080", "h", 8080),
            ("https://h", "h", 443),
            ("HTTPS://H.Test:444?x", "H.Test", 444),
            ("http://127.0.0.1:1?x", "127.0.0.1", 1),
            ("http://[::1]:8080/", "::1", 8080),
            ("http://[::1]", "::1", 80),
            // RFC 6874's escaped percent sign, and the bare one that people type.
            ("http://[fe80::1%25lo]:80/", "fe80::1%lo", 80),
            ("http://[fe80::1%lo]/", "fe80::1%lo", 80),
            // IDNA; an ASCII name keeps its letter case.
            ("http://bücher.example/", "xn--bcher-kva.example", 80),
            ("http://a_b-c.test./", "a_b-c.test.", 80),
            // The last @ ends the user; a password may hold one.
            ("http://user:p@ss@h:81/", "h", 81),
        ] {
            let url = url(text);
            assert_eq!((url.host.to_resolve().as_str(), url.port), (host, port), "{text}");
        }
        assert_eq!(url("http://[fe80::1%25lo]:80/").origin(), "http://[fe80::1]");
        assert_eq!(url("https://h:80/x").origin(), "https://h:80");
    }

    #[test]
    fn user_and_password_have_their_escapes_resolved() {
        for (text, user, password) in [
            ("http://u:p@h/", "u", "p"),
            ("http://u@h/", "u", ""),
            ("http://a%40b:c%3Ad%25@h/", "a@b", "c:d%"),
            ("http://u:a:b@h/", "u", "a:b"),
        ] {
            let info = url(text).user.expect(text);
            assert_eq!((info.user, info.password), (user.into(), password.into()), "{text}");
        }
        assert_eq!(url("http://h/@").user, None);
        for (text, shown) in [
            ("http://u:p@h:0/x@y", "http://…@h:0/x@y"),
            ("ftp://u:p@h", "ftp://…@h"),
            ("http://h/a@b", "http://h/a@b"),
            ("u:p@h", "…@h"),
            ("http:/u:p@h/", "…@h/"),
        ] {
            assert_eq!(super::shown(text), shown);
        }
    }

    #[test]
    fn what_is_not_a_url_is_refused_with_the_reason_and_the_remedy() {
        for (text, reason, remedy) in [
            ("localhost:8080/x", "no scheme", "http://localhost:8080/x"),
            ("", "no scheme", "http://"),
            ("//h/x", "no scheme", "http://h/x"),
            ("http:/h/x", "no scheme", "write http://h/x"),
            ("https:h/x", "no scheme", "write https://h/x"),
            ("u:p@h/x", "no scheme", "write http://…@h/x"),
            ("load.toml", "not yet", "http://"),
            ("redis://h/0", "redis:// is not yet", "http://, https:// or postgres://"),
            ("postgres:h/db", "no scheme", "write postgres://h/db"),
            ("GRPC://h", "grpc:// is not yet", "http://, https:// or postgres://"),
            ("ftp://h/", "'ftp://' is not a scheme", "http://, https:// or postgres://"),
            ("http://", "no host", "http://HOST/"),
            ("http:///x", "no host", "http://HOST/"),
            ("http://:80/", "no host", "http://HOST/"),
            ("http://h/a b", "byte 10", "%20"),
            ("http://h/\r\nX: y", "control character", "%20"),
            ("http://h:0/", "'0' is not a port", "65535"),
            ("http://h:65536/", "'65536' is not a port", "65535"),
            ("http://h:+80/", "'+80' is not a port", "65535"),
            ("http://h:8o/", "'8o' is not a port", "65535"),
            ("http://::1/", "more than one ':'", "[::1]:8080"),
            ("http://[::1/", "without its ']'", "[::1]"),
            ("http://[::1]8080/", "'8080' follows", "[ADDRESS]:PORT"),
            ("http://[::g]/", "not an IPv6 address", "[::1]"),
            ("http://[127.0.0.1]/", "not an IPv6 address", "[::1]"),
            ("http://[fe80::1%25]/", "not an IPv6 address", "[fe80::1%25eth0]"),
            // Short and out-of-range addresses mean different things to different resolvers.
            ("http://127.1/", "not an IPv4 address", "127.0.0.1"),
            ("http://256.0.0.1/", "not an IPv4 address", "127.0.0.1"),
            ("http://2130706433/", "not an IPv4 address", "127.0.0.1"),
            ("http://h\\x/", "it has a '\\'", "letters, digits"),
            ("http://${id}.test/", "it has a '$'", "letters, digits"),
            ("http://a..b/", "between dots is empty", "letters, digits"),
            ("http://u:%zz@h/", "hexadecimal", "%25"),
        ] {
            let refusal = Url::parse(text).expect_err(text);
            assert!(refusal.reason.contains(reason), "{text}: {refusal:?}");
            assert!(refusal.remedy.contains(remedy), "{text}: {refusal:?}");
        }
        let long_label = format!("http://{}.test/", "a".repeat(64));
        assert!(Url::parse(&long_label).is_err());
    }
}
