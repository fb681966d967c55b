//! The request of a run: method, headers and body become the bytes to send.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use plimsoll_core::plan::{HttpRequest, Operation, Request, RequestFacts, StatusRange};
use plimsoll_core::template::Template;
use plimsoll_core::value::Variable;
use plimsoll_proto::http1::request::{Body, Header, RequestHead, RequestSpec, host_value};

use crate::args::RunArgs;
use crate::fault::{Check, Fault};
use crate::url::{Url, UserInfo};
use crate::variables::{check_cells, check_use, fixed_length};

/// What stands for a secret value in reports.
const SECRET: &str = "(secret)";

/// Reads the request. Without a URL everything else is still checked, and the answer is `None`.
pub(crate) fn operation(
    args: &RunArgs,
    url: Option<&Url>,
    variables: &[Variable],
    check: &mut Check,
) -> Option<Operation> {
    let lines = header_lines(args, url, check);
    let headers: Vec<Header> = lines
        .iter()
        .filter_map(|line| Header::parse(line).map_err(|error| check.faults.push(error.into())).ok())
        .collect();
    let body = args.body.as_ref().map(|body| Template::parse(body, variables));
    let host = url.map(|url| host_value(&url.host.text, url.port, url.scheme.default_port()));
    let spec = RequestSpec {
        method: args.method.as_deref(),
        target: url.map_or("/", |url| &url.target),
        host: host.as_deref().unwrap_or("none"),
        headers: &headers,
        body: match (&body, &args.body) {
            (Some(template), Some(bytes)) if template.fixed().is_some() => Body::Fixed(bytes.len() as u64),
            (Some(_), _) => Body::Varying,
            (None, _) => Body::None,
        },
    };
    let head = match RequestHead::build(&spec) {
        Ok(head) => head,
        Err(_) => {
            check.faults.extend(faults(&spec));
            return None;
        }
    };
    let before_length = Template::parse(&head.before_length, variables);
    let request = match &head.after_length {
        Some(between) => Template::with_length_of(before_length, between, body.unwrap_or_default()),
        None => before_length,
    };
    let url = url?;
    check_use(variables, &request, &[&head.before_length, args.body.as_deref().unwrap_or_default()], check);
    check_cells(variables, &url.target, &head.before_length, check);
    let method = spec.method.unwrap_or(if args.body.is_some() { "POST" } else { "GET" });
    let path = url.target.split('?').next().unwrap_or_default();
    Some(Operation {
        name: format!("{method} {path}"),
        target: 0,
        weight: 1,
        request: Request::Http1(HttpRequest {
            bytes: request,
            head_only: head.head_only,
            close: head.close,
            success: StatusRange::HTTP,
        }),
        facts: RequestFacts {
            url: format!("{}{}", url.origin(), url.target),
            protocol: "http/1.1".to_owned(),
            method: method.to_owned(),
            sql: Vec::new(),
            headers: lines.iter().filter_map(|line| shown(line)).collect(),
            body_bytes: fixed_length(args.body.as_deref().unwrap_or_default(), variables),
        },
    })
}

/// The user's header lines, and those that other flags stand for.
fn header_lines(args: &RunArgs, url: Option<&Url>, check: &mut Check) -> Vec<String> {
    let mut lines = args.headers.clone();
    let given = |name: &str| {
        args.headers
            .iter()
            .any(|line| line.split([':', ';']).next().is_some_and(|n| n.eq_ignore_ascii_case(name)))
    };
    if let Some(UserInfo { user, password }) = user(args, url, check) {
        if given("Authorization") {
            check.fault(
                "user and password with -H Authorization",
                "a request has one Authorization",
                "keep one of them",
            );
        }
        let pair = [user.as_slice(), b":", password.as_slice()].concat();
        lines.push(format!("Authorization: Basic {}", BASE64.encode(pair)));
    }
    if args.no_keepalive {
        if given("Connection") {
            check.fault(
                "--no-keepalive with -H Connection",
                "--no-keepalive sends Connection: close by itself",
                "keep one of them",
            );
        }
        lines.push("Connection: close".to_owned());
    }
    lines
}

fn user(args: &RunArgs, url: Option<&Url>, check: &mut Check) -> Option<UserInfo> {
    let in_url = url.and_then(|url| url.user.clone());
    let Some(text) = &args.user else { return in_url };
    // The password is not shown: faults end up in logs.
    if in_url.is_some() {
        check.fault("-u", "the URL has a user as well", "keep one of them");
    }
    let Some((user, password)) = text.split_once(':') else {
        check.fault(
            format!("-u {text}"),
            "has no password",
            format!("write {text}:PASSWORD, or {text}: for an empty one"),
        );
        return None;
    };
    Some(UserInfo { user: user.into(), password: password.into() })
}

/// All that is wrong with a request that cannot be built: its parts are tried by themselves, since
/// building stops at the first fault.
fn faults(spec: &RequestSpec<'_>) -> Vec<Fault> {
    let alone = RequestSpec { method: None, target: "/", headers: &[], ..*spec };
    let parts = [
        RequestSpec { method: spec.method, ..alone },
        RequestSpec { target: spec.target, ..alone },
        RequestSpec { headers: spec.headers, ..alone },
    ];
    let mut errors: Vec<_> = parts.iter().filter_map(|part| RequestHead::build(part).err()).collect();
    if errors.is_empty() {
        errors.extend(RequestHead::build(spec).err());
    }
    errors.into_iter().map(Fault::from).collect()
}

/// Name and value as reports show them; `None` for a header that is left out.
fn shown(line: &str) -> Option<(String, String)> {
    let (name, value) = match line.split_once(':') {
        Some((_, value)) if value.trim().is_empty() => return None,
        Some((name, value)) => (name, value.trim()),
        None => (line.trim_end_matches(';'), ""),
    };
    let value = if is_secret(name) { SECRET } else { value };
    Some((name.to_owned(), value.to_owned()))
}

/// True for headers that carry what lets someone in.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["authorization", "proxy-authorization", "cookie"].contains(&name.as_str())
        || ["token", "secret", "key", "password"].iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_headers_are_known_by_their_names() {
        for (name, secret) in [
            ("Authorization", true),
            ("proxy-authorization", true),
            ("COOKIE", true),
            ("X-Api-Key", true),
            ("x-csrf-token", true),
            ("Client-Secret", true),
            ("Accept", false),
            ("Connection", false),
            ("X-Request-Id", false),
        ] {
            assert_eq!(is_secret(name), secret, "{name}");
        }
    }
}
