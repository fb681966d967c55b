//! The way to the server: where connections go and how they are secured.

use std::net::IpAddr;
use std::path::Path;

use plimsoll_core::plan::{Endpoint, Family, Session, Target, Tls, Verification};

use crate::args::RunArgs;
use crate::fault::Check;
use crate::url::{Host, HostKind, Refusal, Scheme, Url, parse_port};

/// The longest path of a Unix socket: `sun_path` holds 108 bytes on Linux, the last one zero.
const SOCKET_PATH_BYTES: usize = 107;

/// Reads where connections to `url` go.
pub(crate) fn target(args: &RunArgs, url: &Url, check: &mut Check) -> Target {
    let endpoint = match &args.unix_socket {
        Some(path) => unix_socket(args, path, check),
        None => tcp(args, &url.host, url.port, check),
    };
    Target { name: url.origin(), endpoint, tls: tls(args, url, check), session: Session::Http1 }
}

/// Where connections to a host and port go.
pub(crate) fn tcp(args: &RunArgs, host: &Host, port: u16, check: &mut Check) -> Endpoint {
    let family = family(args, check);
    let (host, port) = connect_to(args, host, port, check);
    let addresses = resolve(args, &host, port, check);
    let fits = match host.kind {
        HostKind::Name => true,
        HostKind::V4 => family != Family::V6,
        HostKind::V6 { .. } => family != Family::V4,
    };
    if !fits {
        let (flag, other) = if family == Family::V4 { ("-4", "IPv6") } else { ("-6", "IPv4") };
        check.fault(
            format!("{flag} with {}", host.bracketed()),
            format!("the address is an {other} address"),
            format!("leave out {flag}, or give a name"),
        );
    }
    Endpoint::Tcp { host: host.to_resolve(), port, family, addresses }
}

fn family(args: &RunArgs, check: &mut Check) -> Family {
    match (args.ipv4, args.ipv6) {
        (false, false) => Family::Any,
        (true, false) => Family::V4,
        (false, true) => Family::V6,
        (true, true) => {
            check.fault("-4 and -6", "leave no address", "keep one of them, or neither for any address");
            Family::Any
        }
    }
}

/// A socket in the file system.
pub(crate) fn unix_socket(args: &RunArgs, path: &Path, check: &mut Check) -> Endpoint {
    let value = format!("socket {}", path.display());
    let bytes = path.as_os_str().len();
    if bytes == 0 || bytes > SOCKET_PATH_BYTES {
        check.fault(
            &value,
            format!("has {bytes} bytes; a socket's path has 1 to {SOCKET_PATH_BYTES}"),
            "give a shorter path, relative to the working directory perhaps",
        );
    }
    let unused = [
        ("--resolve", !args.resolve.is_empty()),
        ("--connect-to", !args.connect_to.is_empty()),
        ("-4", args.ipv4),
        ("-6", args.ipv6),
    ];
    for (flag, _) in unused.iter().filter(|(_, given)| *given) {
        check.fault(
            format!("{value} and {flag}"),
            "connections through a socket in the file system have no address",
            format!("leave out {flag}"),
        );
    }
    Endpoint::Unix(path.to_owned())
}

/// The host and port connections go to: the URL's unless `--connect-to` says another.
fn connect_to(args: &RunArgs, host: &Host, port: u16, check: &mut Check) -> (Host, u16) {
    let mut chosen = None;
    for text in &args.connect_to {
        let value = format!("--connect-to {text}");
        match ConnectTo::parse(text) {
            Ok(rule) if rule.applies_to(host, port) => {
                // The first that applies decides, as in curl.
                chosen.get_or_insert((rule.host.unwrap_or_else(|| host.clone()), rule.port.unwrap_or(port)));
            }
            Ok(_) => check.fault(
                value,
                format!("applies to no URL of this run, which is {}:{port}", host.bracketed()),
                "write HOST1:PORT1 as in the URL; left empty they apply to any",
            ),
            Err(refusal) => check.fault(value, refusal.reason, refusal.remedy),
        }
    }
    chosen.unwrap_or_else(|| (host.clone(), port))
}

/// `HOST1:PORT1:HOST2:PORT2`: connections for the first go to the second.
struct ConnectTo {
    /// `None` for any.
    for_host: Option<Host>,
    for_port: Option<u16>,
    /// `None` for the URL's.
    host: Option<Host>,
    port: Option<u16>,
}

impl ConnectTo {
    fn parse(text: &str) -> Result<Self, Refusal> {
        let form = || Refusal {
            reason: "has not four parts".to_owned(),
            remedy: "write HOST1:PORT1:HOST2:PORT2, an IPv6 address in brackets".to_owned(),
        };
        let (for_host, rest) = take_host(text).ok_or_else(form)?;
        let (for_port, rest) = rest.split_once(':').ok_or_else(form)?;
        let (host, port) = take_host(rest).ok_or_else(form)?;
        let host_unless_empty = |text: &str| (!text.is_empty()).then(|| Host::parse(text)).transpose();
        let port_unless_empty = |text: &str| (!text.is_empty()).then(|| parse_port(text)).transpose();
        Ok(Self {
            for_host: host_unless_empty(for_host)?,
            for_port: port_unless_empty(for_port)?,
            host: host_unless_empty(host)?,
            port: port_unless_empty(port)?,
        })
    }

    fn applies_to(&self, host: &Host, port: u16) -> bool {
        self.for_host.as_ref().is_none_or(|for_host| same_host(for_host, host))
            && self.for_port.is_none_or(|for_port| for_port == port)
    }
}

/// The addresses that `--resolve` gives the host and port that are connected to.
fn resolve(args: &RunArgs, host: &Host, port: u16, check: &mut Check) -> Vec<IpAddr> {
    let mut all = Vec::new();
    for text in &args.resolve {
        let value = format!("--resolve {text}");
        match parse_resolve(text) {
            Ok((for_host, for_port, addresses)) => {
                if for_port == port && for_host.is_none_or(|for_host| same_host(&for_host, host)) {
                    all.extend(addresses);
                } else {
                    check.fault(
                        value,
                        format!(
                            "concerns no connection of this run, which goes to {}:{port}",
                            host.bracketed()
                        ),
                        "write the host and port that are connected to, or * for any host",
                    );
                }
            }
            Err(refusal) => check.fault(value, refusal.reason, refusal.remedy),
        }
    }
    all
}

/// `HOST:PORT:ADDRESS[,ADDRESS]…`; no host for `*`.
fn parse_resolve(text: &str) -> Result<(Option<Host>, u16, Vec<IpAddr>), Refusal> {
    let form = || Refusal {
        reason: "has not three parts".to_owned(),
        remedy: "write HOST:PORT:ADDRESS, several addresses parted by commas".to_owned(),
    };
    let (host, rest) = take_host(text).ok_or_else(form)?;
    let (port, addresses) = rest.split_once(':').ok_or_else(form)?;
    let host = if host == "*" { None } else { Some(Host::parse(host)?) };
    let address = |text: &str| {
        let plain = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        plain.parse().map_err(|_| Refusal {
            reason: format!("'{text}' is not an address"),
            remedy: "give an IPv4 or IPv6 address".to_owned(),
        })
    };
    let addresses = addresses.split(',').map(address).collect::<Result<_, _>>()?;
    Ok((host, parse_port(port)?, addresses))
}

/// Splits off a host that a colon follows; a host in brackets keeps them.
fn take_host(text: &str) -> Option<(&str, &str)> {
    let end = if text.starts_with('[') { text.find(']')? + 1 } else { text.find(':')? };
    let (host, rest) = text.split_at(end);
    Some((host, rest.strip_prefix(':')?))
}

fn same_host(a: &Host, b: &Host) -> bool {
    a.to_resolve().eq_ignore_ascii_case(&b.to_resolve())
}

fn tls(args: &RunArgs, url: &Url, check: &mut Check) -> Option<Tls> {
    if url.scheme == Scheme::Http {
        let unused = [
            ("-k", args.insecure),
            ("--cacert", args.ca_certificates.is_some()),
            ("--sni", args.sni.is_some()),
        ];
        for (flag, _) in unused.iter().filter(|(_, given)| *given) {
            check.fault(
                *flag,
                "concerns TLS, and an http:// URL has none",
                format!("give an https:// URL, or leave out {flag}"),
            );
        }
        return None;
    }
    let verification = match (args.insecure, &args.ca_certificates) {
        (false, None) => Verification::PlatformRoots,
        (true, None) => Verification::DangerouslyNone,
        (insecure, Some(pem)) => {
            if insecure {
                check.fault("-k and --cacert", "-k would leave the roots unused", "keep one of them");
            }
            roots("--cacert", pem, check)
        }
    };
    let server_name = server_name(args, &url.host, check);
    Some(Tls { server_name, check_name: true, verification, alpn: vec![b"http/1.1".to_vec()] })
}

/// The roots in a file that `value` names.
pub(crate) fn roots(value: &str, pem: &[u8], check: &mut Check) -> Verification {
    let mark = b"-----BEGIN CERTIFICATE-----";
    if !pem.windows(mark.len()).any(|window| window == mark) {
        check.fault(value, "the file holds no PEM certificate", "give a file with BEGIN CERTIFICATE");
    }
    Verification::Roots(pem.to_owned())
}

/// The name that TLS is to use for the server: what `--sni` says, or else the host.
pub(crate) fn server_name(args: &RunArgs, host: &Host, check: &mut Check) -> String {
    match &args.sni {
        Some(name) => sni(name, check),
        // The dot that ends an absolute name is no part of the name in a certificate.
        None => host.text.trim_end_matches('.').to_owned(),
    }
}

fn sni(text: &str, check: &mut Check) -> String {
    match Host::parse(text) {
        Ok(Host { text, kind: HostKind::Name }) => return text.trim_end_matches('.').to_owned(),
        Ok(_) => check.fault(
            format!("--sni {text}"),
            "is an address, and TLS names servers by host name only",
            "give a host name",
        ),
        Err(refusal) => check.fault(format!("--sni {text}"), refusal.reason, "give a host name"),
    }
    text.to_owned()
}
