//! PostgreSQL targets: where the URL, the environment and the flags lead. Known answers are those of
//! libpq's documentation, sections "Connection Strings", "Environment Variables", "The Password File" and
//! "SSL Support".

use std::path::{Path, PathBuf};

use plimsoll_core::Plan;
use plimsoll_core::plan::{
    ChannelBinding, Endpoint, Family, PostgresSession, QueryMode, Session, Target, Tls, Verification,
};
use plimsoll_core::time::Span;
use plimsoll_scenario::{Environment, Lowered, Machine, RunArgs, SqlText, lower};

const MACHINE: Machine = Machine { cpus: 8, descriptor_limit: 1_064 };
const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----\n";

fn args(target: &str) -> RunArgs {
    let sql = vec![SqlText { text: "SELECT 1".to_owned(), weight: None }];
    RunArgs { target: target.to_owned(), rate: some("100"), sql, ..RunArgs::default() }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// An environment with the user `os` and these variables.
fn with(variables: &[(&str, &str)]) -> Environment {
    let variables = variables.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    Environment { variables, user: some("os"), ..Environment::default() }
}

fn lowered(args: &RunArgs, environment: &Environment) -> Lowered {
    lower(args, &MACHINE, environment).unwrap_or_else(|faults| panic!("{args:?}: {faults}"))
}

fn target(url: &str, environment: &Environment) -> Target {
    lowered(&args(url), environment).plan.targets.remove(0)
}

fn session(plan: &Plan) -> &PostgresSession {
    match &plan.targets[0].session {
        Session::Postgres(session) => session,
        other => panic!("{other:?}"),
    }
}

/// The faults, which must be exactly `count`.
fn faults(args: &RunArgs, environment: &Environment, count: usize) -> String {
    let faults = lower(args, &MACHINE, environment).expect_err("faulty");
    assert_eq!(faults.0.len(), count, "{faults}");
    faults.to_string()
}

fn tcp(host: &str, port: u16) -> Endpoint {
    Endpoint::Tcp { host: host.to_owned(), port, family: Family::Any, addresses: Vec::new() }
}

#[test]
fn a_bare_url_is_the_local_server_and_the_user_of_this_system() {
    let run = lowered(&args("postgres://"), &with(&[]));
    let plan = &run.plan;
    assert_eq!(plan.targets[0].endpoint, tcp("localhost", 5432));
    assert_eq!(plan.targets[0].name, "postgres://localhost:5432/os");
    let session = session(plan);
    assert_eq!((session.user.as_str(), session.database.as_str()), ("os", "os"));
    assert_eq!((&session.password, session.tls_required), (&None, false));
    assert_eq!((session.channel_binding, session.query_mode), (ChannelBinding::Prefer, QueryMode::Prepared));
    let settings = [("application_name", "plimsoll")];
    assert_eq!(session.settings, settings.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!((plan.connections, plan.connect_timeout), (10, Span::from_secs(5)));
    assert!(run.notes.is_empty());

    // A few descriptors allow fewer connections; a closed loop has one a client; a flag decides.
    let few = Machine { descriptor_limit: 68, ..MACHINE };
    assert_eq!(lower(&args("postgres://"), &few, &with(&[])).unwrap().plan.connections, 4);
    let closed = RunArgs { rate: None, clients: some("40"), ..args("postgres://") };
    assert_eq!(lowered(&closed, &with(&[])).plan.connections, 40);
    let asked = RunArgs { connections: some("1"), ..args("postgres://") };
    assert_eq!(lowered(&asked, &with(&[])).plan.connections, 1);
}

#[test]
fn the_url_goes_before_the_environment_and_that_before_the_defaults() {
    let all = with(&[
        ("PGHOST", "env.test"),
        ("PGPORT", "1"),
        ("PGDATABASE", "env_db"),
        ("PGUSER", "env_user"),
        ("PGPASSWORD", "env_secret"),
        ("PGAPPNAME", "env_app"),
        ("PGOPTIONS", "-c geqo=off"),
        ("PGCONNECT_TIMEOUT", "7"),
        ("PGCHANNELBINDING", "disable"),
        ("PGSSLMODE", "disable"),
        ("PGCLIENTENCODING", "LATIN1"),
    ]);
    let plan = lowered(&args("postgresql://"), &all).plan;
    assert_eq!(plan.targets[0].endpoint, tcp("env.test", 1));
    assert!(plan.targets[0].tls.is_none());
    assert_eq!(plan.connect_timeout, Span::from_secs(7));
    let from_environment = session(&plan);
    assert_eq!((from_environment.user.as_str(), from_environment.database.as_str()), ("env_user", "env_db"));
    assert_eq!(from_environment.password.as_deref(), Some(b"env_secret".as_slice()));
    assert_eq!(from_environment.channel_binding, ChannelBinding::Disable);
    let setting = |session: &PostgresSession, name: &str| {
        session.settings.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
    };
    assert_eq!(setting(from_environment, "options"), some("-c geqo=off"));
    assert_eq!(setting(from_environment, "application_name"), some("env_app"));

    let url = "postgres://u:p%40@[::1]:5433/d?application_name=app&options=-c%20a%3Db&connect_timeout=0\
               &channel_binding=require&sslmode=require";
    let plan = lowered(&args(url), &all).plan;
    assert_eq!(plan.targets[0].endpoint, tcp("::1", 5433));
    assert_eq!(plan.targets[0].name, "postgres://[::1]:5433/d");
    // Without a limit as far as there is none; the flag would decide.
    assert_eq!(plan.connect_timeout, Span::from_secs(365 * 86_400));
    let from_url = session(&plan);
    assert_eq!((from_url.user.as_str(), from_url.database.as_str()), ("u", "d"));
    assert_eq!(from_url.password.as_deref(), Some(b"p@".as_slice()));
    assert_eq!((from_url.channel_binding, from_url.tls_required), (ChannelBinding::Require, true));
    assert_eq!(setting(from_url, "options"), some("-c a=b"));
    assert_eq!(setting(from_url, "application_name"), some("app"));
    let flag = RunArgs { connect_timeout: some("2s"), ..args(url) };
    assert_eq!(lowered(&flag, &all).plan.connect_timeout, Span::from_secs(2));

    // The database is the user's name unless given, whoever says that name.
    assert_eq!(session(&lowered(&args("postgres://u@h"), &with(&[])).plan).database, "u");
    let fallback = "postgres://h?fallback_application_name=f";
    assert_eq!(setting(session(&lowered(&args(fallback), &with(&[])).plan), "application_name"), some("f"));
    assert_eq!(setting(session(&lowered(&args(fallback), &all).plan), "application_name"), some("env_app"));
}

#[test]
fn a_directory_as_host_is_a_socket() {
    let unix = |path: &str| Endpoint::Unix(PathBuf::from(path));
    for (url, path, name) in [
        ("postgres:///d?host=/run/pg", "/run/pg/.s.PGSQL.5432", "postgres:///d?host=/run/pg"),
        ("postgres://u@%2Frun%2Fpg:5433/d", "/run/pg/.s.PGSQL.5433", "postgres:///d?host=/run/pg&port=5433"),
        ("postgres://h/d?host=/run/p%20g/", "/run/p g/.s.PGSQL.5432", "postgres:///d?host=/run/p%20g"),
    ] {
        let target = target(url, &with(&[]));
        assert_eq!((target.endpoint, target.name.as_str()), (unix(path), name));
        // Never TLS, whatever the mode.
        assert!(target.tls.is_none());
    }
    let required = target("postgres:///d?host=/run/pg&sslmode=verify-full", &with(&[]));
    assert!(required.tls.is_none());
    assert_eq!(
        target("postgres://", &with(&[("PGHOST", "/run/pg")])).endpoint,
        unix("/run/pg/.s.PGSQL.5432")
    );

    // No host: a socket that is there, Debian's directory first.
    let sockets =
        |paths: &[&str]| Environment { sockets: paths.iter().map(PathBuf::from).collect(), ..with(&[]) };
    let both = sockets(&["/tmp/.s.PGSQL.5432", "/var/run/postgresql/.s.PGSQL.5432"]);
    assert_eq!(target("postgres://", &both).endpoint, unix("/var/run/postgresql/.s.PGSQL.5432"));
    let one = sockets(&["/tmp/.s.PGSQL.5433"]);
    assert_eq!(target("postgres://:5433", &one).endpoint, unix("/tmp/.s.PGSQL.5433"));
    assert_eq!(target("postgres://", &one).endpoint, tcp("localhost", 5432));
    assert_eq!(target("postgres://h:5433", &one).endpoint, tcp("h", 5433));

    // --unix-socket names a socket or its directory.
    let flag = |path: &str| RunArgs { unix_socket: Some(path.into()), ..args("postgres://h:5433/d") };
    let endpoint = |args: &RunArgs| lowered(args, &with(&[])).plan.targets[0].endpoint.clone();
    assert_eq!(endpoint(&flag("run/.s.PGSQL.1")), unix("run/.s.PGSQL.1"));
    assert_eq!(endpoint(&flag("run")), unix("run/.s.PGSQL.5433"));
    let text = faults(&RunArgs { ipv4: true, sni: some("a"), ..flag("run") }, &with(&[]), 2);
    assert!(text.contains("leave out -4") && text.contains("leave out --sni"), "{text}");
    let long = format!("postgres:///d?host=/{}", "a".repeat(107));
    assert!(faults(&args(&long), &with(&[]), 1).contains("1 to 107"));
}

#[test]
fn addresses_can_stand_in_for_names() {
    let address = |args: &RunArgs, environment: &Environment| match lowered(args, environment).plan.targets[0]
        .endpoint
        .clone()
    {
        Endpoint::Tcp { host, port, addresses, .. } => (host, port, addresses),
        Endpoint::Unix(path) => panic!("{path:?}"),
    };
    let local: std::net::IpAddr = "127.0.0.1".parse().unwrap();
    let hostaddr = args("postgres://h.test/d?hostaddr=127.0.0.1");
    assert_eq!(address(&hostaddr, &with(&[])), ("h.test".to_owned(), 5432, vec![local]));
    let alone = with(&[("PGHOSTADDR", "127.0.0.1")]);
    assert_eq!(address(&args("postgres:///d"), &alone), ("127.0.0.1".to_owned(), 5432, vec![local]));
    let resolve =
        RunArgs { resolve: vec!["h.test:5432:127.0.0.1".to_owned()], ..args("postgres://h.test/d") };
    assert_eq!(address(&resolve, &with(&[])), ("h.test".to_owned(), 5432, vec![local]));
    let elsewhere =
        RunArgs { connect_to: vec!["h.test::other.test:1".to_owned()], ..args("postgres://h.test/d") };
    assert_eq!(address(&elsewhere, &with(&[])), ("other.test".to_owned(), 1, vec![]));
    // The name for TLS stays.
    let plan = lowered(&elsewhere, &with(&[])).plan;
    assert_eq!(plan.targets[0].tls.as_ref().expect("TLS").server_name, "h.test");
    let both = RunArgs { resolve: resolve.resolve, ..hostaddr.clone() };
    assert!(faults(&both, &with(&[]), 1).contains("hostaddr=127.0.0.1 and --resolve"));
    assert!(faults(&RunArgs { ipv6: true, ..hostaddr }, &with(&[]), 1).contains("and -6"));
}

#[test]
fn the_password_file_is_asked_where_nothing_else_says_a_password() {
    let file = "# host:port:database:user:password\n\
                localhost:*:d:u:of_localhost\n\
                /run/pg:5432:*:*:of_socket\n\
                127.0.0.1:*:*:*:of_address\n\
                H.test:5432:d:u:of_h\n";
    let environment = |variables| Environment { password_file: some(file), ..with(variables) };
    let password = |url: &str, environment: &Environment| {
        let password = session(&lowered(&args(url), environment).plan).password.clone();
        password.map(|password| String::from_utf8(password).unwrap())
    };
    let file = environment(&[]);
    for (url, expected) in [
        ("postgres://u@localhost/d", Some("of_localhost")),
        // The usual socket directories count as localhost, others by their path.
        ("postgres://u@/d?host=/tmp", Some("of_localhost")),
        ("postgres://u@/d?host=/var/run/postgresql", Some("of_localhost")),
        ("postgres://u@/d?host=/run/pg", Some("of_socket")),
        ("postgres://u@H.test/d", Some("of_h")),
        ("postgres://u@H.test:5433/d", None),
        // The name where there is one, and the address only without.
        ("postgres://u@H.test/d?hostaddr=127.0.0.1", Some("of_h")),
        ("postgres:///d?hostaddr=127.0.0.1", Some("of_address")),
        ("postgres://u:url@localhost/d", Some("url")),
        ("postgres://u@localhost/d?password=query", Some("query")),
        ("postgres://other@localhost/d", None),
    ] {
        assert_eq!(password(url, &file).as_deref(), expected, "{url}");
    }
    let variable = environment(&[("PGPASSWORD", "variable")]);
    assert_eq!(password("postgres://u@localhost/d", &variable).as_deref(), Some("variable"));

    let path = |url: &str, variables: &[(&str, &str)], home: Option<&str>| {
        args(url).password_file(&with(variables), home.map(Path::new))
    };
    let variables = [("PGPASSFILE", "/env")];
    assert_eq!(path("postgres://h?passfile=/url", &variables, Some("/home/u")), Some("/url".into()));
    assert_eq!(path("postgres://h", &variables, Some("/home/u")), Some("/env".into()));
    assert_eq!(path("postgres://h", &[], Some("/home/u")), Some("/home/u/.pgpass".into()));
    assert_eq!(path("postgres://h", &[], None), None);
    assert_eq!(path("http://h", &variables, Some("/home/u")), None);
}

#[test]
fn tls_modes_check_what_libpq_checks() {
    #[derive(Debug, PartialEq)]
    enum Against {
        Nothing,
        Machine,
        Given,
    }
    use Against::{Given, Machine, Nothing};
    let read = |tls: Option<Tls>| {
        tls.map(|tls| {
            assert_eq!((tls.server_name.as_str(), tls.alpn.len()), ("h.test", 0));
            let against = match tls.verification {
                Verification::DangerouslyNone => Nothing,
                Verification::PlatformRoots => Machine,
                Verification::Roots(pem) => {
                    assert_eq!(pem, PEM);
                    Given
                }
            };
            (against, tls.check_name)
        })
    };
    // (mode, what it is without roots of one's own, what it is with them, and whether TLS is required)
    for (mode, without, with_roots, required) in [
        ("", Some((Nothing, false)), Some((Nothing, false)), false),
        ("?sslmode=disable", None, None, false),
        ("?sslmode=prefer", Some((Nothing, false)), Some((Nothing, false)), false),
        ("?sslmode=require", Some((Nothing, false)), Some((Given, false)), true),
        ("?sslmode=verify-ca", Some((Machine, false)), Some((Given, false)), true),
        ("?sslmode=verify-full", Some((Machine, true)), Some((Given, true)), true),
        ("?sslrootcert=system", Some((Machine, true)), Some((Machine, true)), true),
    ] {
        let url = format!("postgres://h.test/d{mode}");
        let plan = lowered(&args(&url), &with(&[])).plan;
        assert_eq!(session(&plan).tls_required, required, "{mode}");
        assert_eq!(read(plan.targets[0].tls.clone()), without, "{mode}");
        let home = Environment { root_certificates: Some(PEM.to_vec()), ..with(&[]) };
        assert_eq!(read(target(&url, &home).tls), with_roots, "{mode}");
    }

    // sslrootcert goes before --cacert of the environment's, and --cacert before the home directory.
    let other = || Some(b"-----BEGIN CERTIFICATE-----other".to_vec());
    let home = Environment { root_certificates: other(), ..with(&[]) };
    let full = "postgres://h.test/d?sslmode=verify-full";
    let file = RunArgs {
        files: vec![("my root".to_owned(), PEM.to_vec())],
        ..args(&format!("{full}&sslrootcert=my%20root"))
    };
    assert_eq!(file.files_named(&home), ["my root"]);
    let tls = |args: &RunArgs, environment: &Environment| {
        read(lowered(args, environment).plan.targets[0].tls.clone())
    };
    assert_eq!(tls(&file, &home), Some((Given, true)));
    let cacert = RunArgs { ca_certificates: Some(PEM.to_vec()), ..args(full) };
    assert_eq!(tls(&cacert, &home), Some((Given, true)));
    let variable = Environment { root_certificates: other(), ..with(&[("PGSSLROOTCERT", "env root")]) };
    assert_eq!(tls(&cacert, &variable), Some((Given, true)));
    assert_eq!(args(full).files_named(&variable), ["env root"]);
    assert_eq!(args("postgres://h").files_named(&variable), [""; 0]);
    assert!(faults(&args(full), &variable, 1).contains("sslrootcert=env root: cannot be read"));
    let both = RunArgs { ca_certificates: Some(PEM.to_vec()), ..file.clone() };
    assert!(faults(&both, &home, 1).contains("--cacert and sslrootcert"));
    let key = RunArgs { files: vec![("my root".to_owned(), b"key".to_vec())], ..file };
    assert!(faults(&key, &home, 1).contains("no PEM certificate"));

    let sni = RunArgs { sni: some("h.test"), ..args("postgres://127.0.0.1/d?sslmode=verify-full") };
    assert_eq!(tls(&sni, &with(&[])), Some((Machine, true)));
    let note = |url: &str| lowered(&args(url), &with(&[])).notes.join("\n");
    assert!(note("postgres://h?sslmode=verify-ca").contains("checks the name too"));
    assert!(note("postgres://h?sslrootcert=f").contains("checks no certificate"));
}

#[test]
fn settings_that_cannot_be_are_refused_with_the_remedy() {
    for (url, reason, remedy) in [
        ("postgres://h?sslmode=allow", "sslmode=allow", "disable, prefer, require, verify-ca, verify-full"),
        ("postgres://h?sslmode=on", "not a TLS mode", "verify-full"),
        ("postgres://h?sslrootcert=system&sslmode=require", "too weak", "verify-full"),
        ("postgres://h?sslnegotiation=direct", "not supported", "postgres"),
        ("postgres://h?channel_binding=on", "channel binding", "disable, prefer or require"),
        ("postgres://h?channel_binding=require&sslmode=disable", "there is none", "verify-full"),
        ("postgres:///?channel_binding=require&host=/tmp", "there is none", "verify-full"),
        ("postgres://h?connect_timeout=1s", "whole seconds", "10"),
        ("postgres://h:0", "not a port", "1 to 65535"),
        ("postgres://h?port=x", "not a port", "1 to 65535"),
        ("postgres://h?hostaddr=h", "not an address", "host=NAME"),
        ("postgres://a,b/d", "several hosts", "one host"),
        ("postgres:///d?host=a,b", "several hosts", "one host"),
        ("postgres:///d?host=a&port=1,2", "several hosts", "one host"),
        ("postgres://a..b/d", "not a host name", "letters, digits"),
        ("postgres://h?service=x", "service files", "URL"),
        ("postgres://h?client_encoding=UTF8", "client_encoding", "application_name"),
        ("postgres://h?passwrd=secret", "passwrd=…", "passfile"),
    ] {
        let text = faults(&args(url), &with(&[]), 1);
        assert!(text.contains(reason) && text.contains(remedy), "{url}: {text}");
        assert!(!text.contains("secret"), "{text}");
    }
    assert!(faults(&args("postgres://h"), &with(&[("PGSERVICE", "x")]), 1).contains("PGSERVICE"));
    assert!(faults(&args("postgres://h"), &with(&[("PGPORT", "x")]), 1).contains("PGPORT=x: "));
    assert!(faults(&args("postgres://h"), &Environment::default(), 1).contains("USER@HOST"));
}

#[test]
fn flags_of_tls_that_make_no_sense_are_refused() {
    let pem = || Some(PEM.to_vec());
    for (args, reason) in [
        (RunArgs { insecure: true, ..args("postgres://h") }, "-k: with PostgreSQL, sslmode"),
        (RunArgs { ca_certificates: pem(), ..args("postgres://h") }, "sslmode=prefer checks no certificate"),
        (RunArgs { ca_certificates: pem(), ..args("postgres://h?sslmode=disable") }, "leave out --cacert"),
        (RunArgs { sni: some("a"), ..args("postgres://h?sslmode=disable") }, "leave out --sni"),
        (RunArgs { sni: some("1.2.3.4"), ..args("postgres://h") }, "--sni 1.2.3.4"),
        (RunArgs { ipv6: true, ..args("postgres://127.0.0.1") }, "-6 with 127.0.0.1"),
    ] {
        let text = faults(&args, &with(&[]), 1);
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn no_password_is_ever_shown() {
    let file = Environment { password_file: some("*:*:*:*:sesame"), ..with(&[]) };
    let variable = with(&[("PGPASSWORD", "sesame")]);
    for (url, environment) in [
        ("postgres://u:sesame@h/d", &with(&[])),
        ("postgres://u@h/d?password=sesame", &with(&[])),
        ("postgres://u@h/d", &variable),
        ("postgres://u@h/d", &file),
    ] {
        let args = args(url);
        let run = lowered(&args, environment);
        assert_eq!(session(&run.plan).password.as_deref(), Some(b"sesame".as_slice()));
        assert_eq!(run.plan.operations[0].facts.url, "postgres://h:5432/d");
        // The plan holds it, and even its Debug form does not show it.
        assert!(!format!("{run:?} {args:?} {environment:?}").contains("sesame"));
    }
    for url in [
        "postgres://u:sesame@h:x/d",
        "postgres://u:sesame@h/d?sslmode=x",
        "postgres://u:%sesame@h/d",
        "postgres://u:se@sesame@h/d",
        "postgres://u:se/sesame@h/d",
        "postgres://u:sesame",
        "postgres://h?sesame",
        "postgres://u:sesame@h?pasword=sesame",
    ] {
        let text = faults(&args(url), &with(&[]), 1);
        assert!(!text.contains("sesame"), "{text}");
    }
}
