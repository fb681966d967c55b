//! From settings to a target: where connections go, how they are secured, how a session begins.

use std::net::IpAddr;

use plimsoll_core::plan::{
    ChannelBinding, Endpoint, Family, PostgresSession, QueryMode, Session, Target, Tls, Verification,
};

use super::settings::{DEFAULT_PORT, Place, RootsNamed, Settings, TlsMode};
use crate::args::RunArgs;
use crate::environment::Environment;
use crate::fault::Check;
use crate::url::Host;
use crate::way::{roots, server_name, tcp, unix_socket};

/// The target that `settings` describe.
pub(super) fn target(
    args: &RunArgs,
    settings: Settings,
    query_mode: QueryMode,
    environment: &Environment,
    check: &mut Check,
) -> Target {
    if args.insecure {
        check.fault(
            "-k",
            "with PostgreSQL, sslmode says what is checked",
            "leave it out, and write ?sslmode=require for TLS without a check of the certificate",
        );
    }
    let endpoint = match &settings.place {
        Place::Socket { path, .. } => unix_socket(args, path, check),
        Place::Host(host) => {
            with_address(args, tcp(args, host, settings.port, check), settings.address, check)
        }
    };
    let tls = match &settings.place {
        // libpq has no TLS there either, whatever sslmode says.
        Place::Socket { .. } => no_tls(args, "a socket in the file system", check),
        Place::Host(_) if settings.tls_mode == TlsMode::Disable => no_tls(args, "sslmode=disable", check),
        Place::Host(host) => Some(tls(args, &settings, host, environment, check)),
    };
    if settings.channel_binding == ChannelBinding::Require && tls.is_none() {
        check.fault(
            "channel_binding=require",
            "ties logging in to TLS, and there is none",
            "connect to a host with sslmode=verify-full, or give channel_binding=prefer",
        );
    }
    let tls_required = tls.is_some() && settings.tls_mode >= TlsMode::Require;
    let name = name(&settings);
    let mut session_settings = vec![
        // Statements and cells are in UTF-8, whatever the database's own encoding is.
        ("application_name".to_owned(), settings.application_name),
    ];
    session_settings.extend(settings.options.map(|options| ("options".to_owned(), options)));
    let session = PostgresSession {
        user: settings.user,
        password: settings.password,
        database: settings.database,
        settings: session_settings,
        tls_required,
        channel_binding: settings.channel_binding,
        query_mode,
    };
    Target { name, endpoint, tls, session: Session::Postgres(session) }
}

/// `postgres://host:port/database`, or with the directory of a socket; a URL without secrets.
fn name(settings: &Settings) -> String {
    let (port, database) = (settings.port, escaped(&settings.database));
    match &settings.place {
        Place::Host(host) => format!("postgres://{}:{port}/{database}", host.bracketed()),
        Place::Socket { directory, .. } if port == DEFAULT_PORT => {
            format!("postgres:///{database}?host={}", escaped(directory))
        }
        Place::Socket { directory, .. } => {
            format!("postgres:///{database}?host={}&port={port}", escaped(directory))
        }
    }
}

/// `text` as a part of a URL's path or query (RFC 3986, 2.3: unreserved characters stay, and here '/').
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The endpoint with the address that `hostaddr` gives in place of name resolution.
fn with_address(args: &RunArgs, endpoint: Endpoint, address: Option<IpAddr>, check: &mut Check) -> Endpoint {
    let (Some(address), Endpoint::Tcp { host, port, family, .. }) = (address, &endpoint) else {
        return endpoint;
    };
    let clashes = [
        ("--resolve", !args.resolve.is_empty()),
        ("--connect-to", !args.connect_to.is_empty()),
        ("-4", *family == Family::V4 && address.is_ipv6()),
        ("-6", *family == Family::V6 && address.is_ipv4()),
    ];
    for (flag, _) in clashes.iter().filter(|(_, clash)| *clash) {
        check.fault(
            format!("hostaddr={address} and {flag}"),
            "say different things of where connections go",
            "keep one of them",
        );
    }
    Endpoint::Tcp { host: host.clone(), port: *port, family: *family, addresses: vec![address] }
}

/// No TLS, and a fault for each flag that would need it.
fn no_tls(args: &RunArgs, why: &str, check: &mut Check) -> Option<Tls> {
    let unused = [("--cacert", args.ca_certificates.is_some()), ("--sni", args.sni.is_some())];
    for (flag, _) in unused.iter().filter(|(_, given)| *given) {
        check.fault(*flag, format!("concerns TLS, and {why} has none"), format!("leave out {flag}"));
    }
    None
}

fn tls(
    args: &RunArgs,
    settings: &Settings,
    host: &Host,
    environment: &Environment,
    check: &mut Check,
) -> Tls {
    let mode = settings.tls_mode;
    if mode == TlsMode::Prefer {
        let remedy = "write ?sslmode=verify-full, or verify-ca where the name does not matter";
        match (&args.ca_certificates, &settings.roots) {
            (Some(_), _) => check.fault("--cacert", "sslmode=prefer checks no certificate", remedy),
            (None, Some(RootsNamed::File { path, .. })) => check.note(format!(
                "sslrootcert={path} is not used, since sslmode=prefer checks no certificate; {remedy}"
            )),
            _ => (),
        }
    }
    let trusted = match mode {
        TlsMode::Disable | TlsMode::Prefer => None,
        _ => trusted(args, settings, environment, check),
    };
    let verification = match (mode, trusted) {
        (TlsMode::Disable | TlsMode::Prefer, _) | (TlsMode::Require, None) => Verification::DangerouslyNone,
        // As in libpq: with roots at hand, `require` is `verify-ca`.
        (TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull, Some(roots)) => roots,
        (TlsMode::VerifyCa, None) => {
            check.note(
                "sslmode=verify-ca without root certificates of your own takes what any public authority signed, \
                 for whatever name; sslmode=verify-full checks the name too",
            );
            Verification::PlatformRoots
        }
        (TlsMode::VerifyFull, None) => Verification::PlatformRoots,
    };
    Tls {
        server_name: server_name(args, host, check),
        check_name: mode == TlsMode::VerifyFull,
        verification,
        alpn: Vec::new(),
    }
}

/// The roots that are at hand: those named, or else those in the home directory.
fn trusted(
    args: &RunArgs,
    settings: &Settings,
    environment: &Environment,
    check: &mut Check,
) -> Option<Verification> {
    let by_url = matches!(&settings.roots, Some(RootsNamed::System | RootsNamed::File { by_url: true, .. }));
    if by_url && args.ca_certificates.is_some() {
        check.fault("--cacert and sslrootcert", "both name the roots to trust", "keep one of them");
    }
    match (&args.ca_certificates, &settings.roots) {
        // What was given for this run goes before the environment.
        (Some(pem), None | Some(RootsNamed::File { by_url: false, .. })) => {
            Some(roots("--cacert", pem, check))
        }
        (_, Some(RootsNamed::System)) => Some(Verification::PlatformRoots),
        (_, Some(RootsNamed::File { path, .. })) => {
            let value = format!("sslrootcert={path}");
            match args.files.iter().find(|(name, _)| name == path) {
                Some((_, pem)) => Some(roots(&value, pem, check)),
                None => {
                    check.fault(value, "cannot be read", "give a path that can be read, or system");
                    None
                }
            }
        }
        (None, None) => {
            let pem = environment.root_certificates.as_ref()?;
            Some(roots("root.crt in the home directory's .postgresql", pem, check))
        }
    }
}
