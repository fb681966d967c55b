//! Getting in: ways of authentication, TLS, sockets, and what libpq's users expect around them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::certificates::{Authority, Validity};
use crate::common::postgres::{ADMIN, Postgres, Setup};
use crate::common::program::{Finished, Running, measure, plimsoll, run};

const ONE: [&str; 6] = ["--sql", "SELECT 1", "-c", "1", "-n", "3"];

/// Roles with one password each, stored in the way that their name says.
const ROLES: &str = "SET password_encryption = 'md5'; CREATE ROLE md5 LOGIN PASSWORD 'one'; \
     SET password_encryption = 'scram-sha-256'; CREATE ROLE scram LOGIN PASSWORD 'two words'; \
     CREATE ROLE clear LOGIN PASSWORD 'three'";
const HBA: &str = "host all md5 all md5\nhost all scram all scram-sha-256\nhost all clear all password\n";

/// A run of three queries against `url`, in an environment of its own.
fn run_in(environment: &[(&str, &str)], url: &str, arguments: &[&str]) -> Finished {
    let mut command = plimsoll();
    for name in ["PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGSSLMODE", "PGPASSFILE"] {
        command.env_remove(name);
    }
    command.env("HOME", "/nonexistent").envs(environment.iter().copied());
    command.args(["run", url, "--json"]).args(ONE).args(arguments);
    Running::start(&mut command).finish()
}

fn assert_lets_in(environment: &[(&str, &str)], url: &str) {
    let measured = run_in(environment, url, &[]).measured();
    assert_eq!(
        (measured.counts.ok, measured.code()),
        (3, 0),
        "{url} {environment:?}: {:?}",
        measured.error_texts
    );
}

#[test]
fn roles_get_in_by_trust_password_md5_and_scram() {
    let server = Postgres::start(&Setup { hba: HBA, sql: ROLES, ..Setup::default() });
    for who in ["admin", "md5:one", "scram:two%20words", "clear:three"] {
        assert_lets_in(&[], &server.url_of(who));
    }
}

#[test]
fn a_wrong_password_is_told_in_the_servers_words_with_a_remedy_and_is_never_shown() {
    let server = Postgres::start(&Setup { hba: HBA, sql: ROLES, ..Setup::default() });
    for (who, text) in [
        ("scram:mist4ke", "password authentication failed for user \"scram\"; give the right password"),
        ("md5:mist4ke", "password authentication failed for user \"md5\"; give the right password"),
        ("scram", "asks for a password for the role 'scram', and none was given"),
        ("nobody:mist4ke", "role \"nobody\" does not exist"),
    ] {
        let url = server.url_of(who);
        let finished = run(&[&[url.as_str()], &ONE[..]].concat());
        let said = format!("{}{}", finished.stdout, finished.stderr);
        assert_eq!(finished.code, Some(4), "{said}");
        assert!(said.contains(text), "{said}");
        assert!(!said.contains("mist4ke"), "{said}");
    }
    let unknown = format!("postgres://admin@127.0.0.1:{}/nope", server.port());
    let finished = run(&[&[unknown.as_str()], &ONE[..]].concat());
    assert_eq!(finished.code, Some(4));
    assert!(finished.stdout.contains("database \"nope\" does not exist; name a database that exists"));
}

#[test]
fn urls_variables_password_files_and_sockets_work_as_with_libpq() {
    let server = Postgres::start(&Setup { hba: HBA, sql: ROLES, ..Setup::default() });
    let port = server.port().to_string();
    let directory = server.socket_directory().to_str().unwrap();
    let escaped = directory.replace('/', "%2F");
    for url in [
        format!("postgresql://{ADMIN}@localhost:{port}/{ADMIN}"),
        format!("postgres://127.0.0.1/{ADMIN}?user={ADMIN}&port={port}"),
        format!("postgres:///{ADMIN}?host={directory}&port={port}&user={ADMIN}"),
        format!("postgres://{ADMIN}@{escaped}:{port}/{ADMIN}"),
    ] {
        assert_lets_in(&[], &url);
    }
    let variables = [("PGHOST", directory), ("PGPORT", &port), ("PGUSER", ADMIN), ("PGDATABASE", ADMIN)];
    assert_lets_in(&variables, "postgres://");
    assert_lets_in(&[("PGPASSWORD", "two words")], &server.url_of("scram"));
    let file = server.socket_directory().join("passwords");
    fs::write(&file, format!("127.0.0.1:{port}:*:md5:one\n*:*:*:scram:two words\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let passfile = [("PGPASSFILE", file.to_str().unwrap())];
    assert_lets_in(&passfile, &server.url_of("scram"));
    assert_lets_in(&passfile, &server.url_of("md5"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let finished = run_in(&passfile, &server.url_of("scram"), &[]);
    assert!(finished.stderr.contains("can be read by others"), "{finished:?}");
    assert_eq!(finished.code, Some(4));
}

#[test]
fn sslmode_means_what_it_means_to_libpq() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost"], Validity::Now);
    let server = Postgres::start(&Setup { tls: Some(&identity), ..Setup::default() });
    let root = server.socket_directory().join("root.pem");
    fs::write(&root, authority.certificate()).unwrap();
    let other = server.socket_directory().join("other.pem");
    fs::write(&other, Authority::new().certificate()).unwrap();
    let (root, other) = (root.to_str().unwrap(), other.to_str().unwrap());
    let encrypted = "SELECT 1 / (ssl::int) FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let plain = "SELECT 1 / (NOT ssl)::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    for (host, mode, roots, expected) in [
        ("localhost", "disable", None, Ok(plain)),
        ("localhost", "prefer", None, Ok(encrypted)),
        ("localhost", "require", None, Ok(encrypted)),
        ("localhost", "require", Some(other), Err("tls_certificate_")),
        ("127.0.0.1", "verify-ca", Some(root), Ok(encrypted)),
        ("127.0.0.1", "verify-ca", Some(other), Err("tls_certificate_")),
        ("localhost", "verify-full", Some(root), Ok(encrypted)),
        ("127.0.0.1", "verify-full", Some(root), Err("tls_certificate_wrong_name")),
    ] {
        let roots = roots.map_or(String::new(), |file| format!("&sslrootcert={file}"));
        let url = format!("postgres://{ADMIN}@{host}:{}/{ADMIN}?sslmode={mode}{roots}", server.port());
        let sql = expected.unwrap_or("SELECT 1");
        // The server listens on 127.0.0.1 only, whatever localhost has besides.
        let measured = measure(&url, &["--sql", sql, "-c", "1", "-n", "2", "-4"]);
        match expected {
            Ok(_) => assert_eq!(measured.counts.ok, 2, "{url}: {:?}", measured.error_texts),
            Err(kind) => {
                assert!(
                    measured.error_texts.keys().any(|name| name.starts_with(kind))
                        && measured.counts.due == 0,
                    "{url}: {:?}",
                    measured.error_texts
                )
            }
        }
    }
}

#[test]
fn scram_is_tied_to_tls_and_a_login_that_cannot_be_is_refused_where_it_must() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost"], Validity::Now);
    let setup = Setup { tls: Some(&identity), hba: HBA, sql: ROLES, ..Setup::default() };
    let server = Postgres::start(&setup);
    let url = |who: &str, rest: &str| format!("{}?{rest}", server.url_of(who));
    // The server refuses a login that is tied to another certificate than its own.
    assert_lets_in(&[], &url("scram:two%20words", "channel_binding=require&sslmode=require"));
    assert_lets_in(&[], &url("scram:two%20words", "channel_binding=disable&sslmode=require"));
    let finished =
        run(&[&[url("scram", "channel_binding=require&sslmode=disable").as_str()], &ONE[..]].concat());
    assert_eq!(finished.code, Some(2), "{finished:?}");
    for (who, rest) in [
        ("md5:one", "channel_binding=require&sslmode=require"),
        ("admin", "channel_binding=require&sslmode=require"),
    ] {
        let finished = run(&[&[url(who, rest).as_str()], &ONE[..]].concat());
        assert_eq!(finished.code, Some(4), "{finished:?}");
        assert!(finished.stdout.contains("cannot be tied to TLS"), "{finished:?}");
    }
}

#[test]
fn a_server_without_tls_and_one_with_nothing_else_say_what_to_do() {
    let plain = Postgres::start(&Setup::default());
    let finished = run(&[&[format!("{}?sslmode=require", plain.url()).as_str()], &ONE[..]].concat());
    assert_eq!(finished.code, Some(4));
    assert!(finished.stdout.contains("takes no TLS; use sslmode=prefer"), "{finished:?}");
    assert_lets_in(&[], &format!("{}?sslmode=prefer", plain.url()));

    let identity = Authority::new().issue(&["localhost"], Validity::Now);
    let hba = "hostnossl all all all reject\n";
    let secured = Postgres::start(&Setup { tls: Some(&identity), hba, ..Setup::default() });
    let finished = run(&[&[format!("{}?sslmode=disable", secured.url()).as_str()], &ONE[..]].concat());
    assert_eq!(finished.code, Some(4));
    assert!(
        finished.stdout.contains("no encryption; a server that lets in over TLS only needs sslmode=require"),
        "{finished:?}"
    );
    assert_lets_in(&[], &secured.url());
}
