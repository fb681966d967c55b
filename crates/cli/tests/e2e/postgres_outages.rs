//! Servers that are slow, full, restarting, silent, or not what they seem.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::postgres::{Postgres, Setup};
use crate::common::program::{Running, measure, run};
use crate::common::scripted::{Peer, Scripted};

/// The messages of a server, written out.
mod message {
    pub(super) fn tagged(tag: u8, body: &[u8]) -> Vec<u8> {
        [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    pub(super) fn welcome() -> Vec<u8> {
        [tagged(b'R', &[0; 4]), tagged(b'K', &[0, 0, 0, 1, 0, 0, 0, 2]), tagged(b'Z', b"I")].concat()
    }

    pub(super) fn error(severity: &str, code: &str, text: &str) -> Vec<u8> {
        tagged(b'E', format!("S{severity}\0V{severity}\0C{code}\0M{text}\0\0").as_bytes())
    }
}

/// Reads the first message of a client that asks for no TLS; `None` when it has gone.
fn startup(peer: &mut Peer) -> Option<()> {
    let length = u32::from_be_bytes(peer.take(4)?.try_into().expect("four bytes"));
    peer.take(length as usize - 4)?;
    Some(())
}

/// Reads a message: its tag and body; `None` when the client has gone.
fn message(peer: &mut Peer) -> Option<(u8, Vec<u8>)> {
    let head = peer.take(5)?;
    let length = u32::from_be_bytes(head[1..].try_into().expect("four bytes"));
    Some((head[0], peer.take(length as usize - 4)?))
}

fn url_of(server: &Scripted) -> String {
    format!("postgres://bob@{}/shop?sslmode=disable", server.address())
}

#[test]
fn a_query_that_times_out_is_cancelled_on_the_server_and_its_connection_replaced() {
    let server = Postgres::start(&Setup::default());
    let arguments = ["--sql", "SELECT pg_sleep(1000)", "-c", "2", "-z", "1s", "--timeout", "300ms"];
    let measured = measure(&server.url(), &arguments);
    let counts = &measured.counts;
    assert!(counts.timed_out >= 4 && counts.ok == 0 && counts.due == counts.timed_out, "{counts:?}");
    assert!(measured.connections.opened >= counts.timed_out, "{:?}", measured.connections);
    crate::common::eventually("every query is cancelled", || {
        server.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%sleep(1000)%' AND state = 'active' AND pid <> pg_backend_pid()") == "0"
    });
}

#[test]
fn an_open_loop_waits_out_a_restart_and_goes_on() {
    let mut server = Postgres::start(&Setup::default());
    let arguments = ["--sql", "SELECT 1", "--rate", "100", "-z", "4s", "--connections", "4", "--json"];
    let running = Running::run(&[&[server.url().as_str()], &arguments[..]].concat());
    std::thread::sleep(Duration::from_secs(1));
    server.stop(Signal::INT);
    std::thread::sleep(Duration::from_millis(500));
    server.start_again();
    let measured = running.finish().measured();
    let counts = &measured.counts;
    assert!(counts.ok > 200 && counts.unfinished == 0, "{counts:?} {:?}", measured.errors);
    assert!(counts.failed <= 40, "a few find the server gone, the others wait: {:?}", measured.errors);
    assert!(measured.response_ns.as_ref().unwrap().max >= 300_000_000, "what waited shows");
    assert!(measured.connections.opened >= 5, "{:?}", measured.connections);
}

#[test]
fn a_closed_loop_goes_on_after_a_crash() {
    let mut server = Postgres::start(&Setup::default());
    let arguments = ["--sql", "SELECT 1", "-c", "2", "-z", "4s", "--json"];
    let running = Running::run(&[&[server.url().as_str()], &arguments[..]].concat());
    std::thread::sleep(Duration::from_secs(1));
    server.stop(Signal::QUIT);
    server.start_again();
    let measured = running.finish().measured();
    let last = measured.windows.iter().rev().find(|window| window.due > 0).expect("requests");
    assert!(last.ok > 0, "it answers again at the end: {:?} {:?}", measured.errors, measured.error_texts);
    assert!(measured.counts.failed > 0);
}

#[test]
fn too_many_connections_are_told_and_the_others_are_used() {
    let lines = "max_connections = 6\nsuperuser_reserved_connections = 1";
    let sql = "CREATE ROLE bob LOGIN; CREATE TABLE t ()";
    let server = Postgres::start(&Setup { lines, sql, ..Setup::default() });
    let arguments = ["--sql", "SELECT 1", "-c", "20", "-z", "1s"];
    let measured = measure(&server.url_of("bob"), &arguments);
    assert!((1..=5).contains(&measured.connections.established), "{:?}", measured.connections);
    assert!(measured.counts.ok > 10, "clients share the connections there are: {:?}", measured.errors);
    let text = &measured.error_texts["sqlstate_53300"];
    assert!(text.contains("max_connections"), "{text}");
    let open = ["--sql", "SELECT 1", "--rate", "50", "-n", "50", "--connections", "20"];
    let measured = measure(&server.url_of("bob"), &open);
    assert_eq!(measured.counts.ok, 50, "requests wait for the connections there are: {:?}", measured.errors);
    assert_eq!(measured.connections.wanted, Some(20));
}

#[test]
fn dbr_06_lag_service_and_skipped_requests_are_told_apart() {
    let server = Postgres::start(&Setup::default());
    let sleep = ["--sql", "SELECT pg_sleep(0.05)", "--rate", "100", "--connections", "1", "-z", "2s"];
    let measured = measure(&server.url(), &sleep);
    let (blocked, service) = (measured.blocked_ns.as_ref().unwrap(), measured.service_ns.as_ref().unwrap());
    // 200 requests that take 50 ms each: the last ones wait for about 8 s less the drain of 5 s.
    assert!(blocked.max > 1_000_000_000, "{blocked:?}");
    assert!(
        service.percentiles["p50"] >= 50_000_000 && service.percentiles["p50"] < 90_000_000,
        "{service:?}"
    );
    assert!(measured.counts.ok + measured.counts.unfinished == measured.counts.due);
    let skipping = measure(&server.url(), &[&sleep[..], &["--late", "skip:100ms"]].concat());
    let counts = &skipping.counts;
    assert!(counts.dropped["late"] > 50, "{counts:?}");
    assert_eq!(counts.due, counts.ok + counts.dropped["late"] + counts.failed + counts.unfinished);
    assert!(skipping.response_ns.as_ref().unwrap().percentiles["p99"] < 400_000_000);
    assert!(measured.connect_ns.is_some(), "connecting is told apart");
}

#[test]
fn con_09_a_server_silent_inside_its_answer_does_not_outlast_the_drain() {
    let server = Scripted::start(|peer| {
        if startup(peer).is_none() {
            return;
        }
        peer.send(&message::welcome());
        while let Some((tag, _)) = message(peer) {
            match tag {
                // The statement is tried before the start, and that goes well …
                b'P' => peer.send(&message::tagged(b'1', b"")),
                // … and used later, when nothing more comes than its first message.
                b'E' => return peer.wait_for_the_end(),
                b'S' => peer.send(&message::tagged(b'Z', b"I")),
                b'B' => peer.send(&message::tagged(b'2', b"")),
                _ => {}
            }
        }
    });
    let begun = Instant::now();
    let arguments = ["--sql", "SELECT 1", "-c", "1", "-z", "500ms", "--drain", "1s", "--timeout", "60s"];
    let measured = measure(&url_of(&server), &arguments);
    assert_eq!((measured.counts.due, measured.counts.unfinished), (1, 1));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn dbr_01_a_pooler_that_shares_sessions_is_told_and_other_modes_work() {
    // What a pooler of transactions does to named statements: they exist already, or no longer.
    let server = Scripted::start(|peer| {
        if startup(peer).is_none() {
            return;
        }
        peer.send(&message::welcome());
        let mut failed = false;
        while let Some((tag, body)) = message(peer) {
            let answer = match tag {
                b'S' => {
                    failed = false;
                    message::tagged(b'Z', b"I")
                }
                b'Q' => [message::tagged(b'C', b"SELECT 1\0"), message::tagged(b'Z', b"I")].concat(),
                _ if failed => continue,
                b'P' if body[0] != 0 => {
                    failed = true;
                    message::error("ERROR", "42P05", "prepared statement \"plimsoll_0\" already exists")
                }
                b'P' => message::tagged(b'1', b""),
                b'B' if body[1] != 0 => {
                    failed = true;
                    message::error("ERROR", "26000", "prepared statement \"plimsoll_0\" does not exist")
                }
                b'B' => message::tagged(b'2', b""),
                b'E' => message::tagged(b'C', b"SELECT 1\0"),
                _ => continue,
            };
            peer.send(&answer);
        }
    });
    for (mode, ok) in [("unnamed", 10), ("simple", 10), ("prepared", 0)] {
        let arguments =
            ["--sql", "SELECT $1", "--param", "sequence", "-c", "1", "-n", "10", "--query-mode", mode];
        let measured = measure(&url_of(&server), &arguments);
        assert_eq!((measured.counts.ok, measured.counts.due), (ok, 10), "{mode}: {:?}", measured.errors);
        if ok == 0 {
            assert_eq!(measured.errors("sqlstate_26000") + measured.errors("sqlstate_42P05"), 10);
            assert!(measured.error_texts["sqlstate_26000"].contains("--query-mode unnamed"));
            assert_eq!(measured.connections.opened, 1, "the connection lives on");
        }
    }
}

#[test]
fn servers_that_are_not_ready_or_no_postgresql_say_so() {
    let starting = Scripted::start(|peer| {
        if startup(peer).is_some() {
            peer.send(&message::error("FATAL", "57P03", "the database system is starting up"));
        }
    });
    let finished = run(&[&url_of(&starting), "--sql", "SELECT 1", "-c", "2", "-n", "4"]);
    assert_eq!(finished.code, Some(4));
    assert!(
        finished.stdout.contains("the database system is starting up; wait until the server has started")
    );

    let http = Scripted::start(|peer| {
        if peer.first_bytes().is_some() {
            peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            peer.close();
        }
    });
    let url = format!("postgres://bob@{}/shop", http.address());
    let finished = run(&[&url, "--sql", "SELECT 1", "--rate", "10", "-n", "4"]);
    assert_eq!(finished.code, Some(4));
    assert!(
        finished.stdout.contains("what answers is no PostgreSQL server; check the host and port"),
        "{finished:?}"
    );
}

/// A server that lets everybody in, says nothing to queries, and counts requests to cancel.
fn silent_server() -> (Scripted, Arc<AtomicU64>) {
    let cancelled = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&cancelled);
    let server = Scripted::start(move |peer| {
        let Some(length) = peer.take(4) else { return };
        let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
        let Some(body) = peer.take(length as usize - 4) else { return };
        if body == [80_877_102u32, 1, 2].map(u32::to_be_bytes).concat() {
            count.fetch_add(1, Ordering::AcqRel);
            return;
        }
        peer.send(&message::welcome());
        peer.wait_for_the_end();
    });
    (server, cancelled)
}

#[test]
fn every_query_no_longer_wanted_is_cancelled_the_last_ones_too() {
    for arguments in [
        &["-c", "1", "-n", "1", "--timeout", "200ms"][..],
        &["-c", "8", "-n", "8", "--timeout", "200ms", "--workers", "2"],
        // Unfinished at the drain's end.
        &["-c", "3", "-z", "200ms", "--drain", "200ms", "--timeout", "60s"],
    ] {
        let (server, cancelled) = silent_server();
        let sql = ["--sql", "SELECT 1", "--query-mode", "simple"];
        let measured = measure(&url_of(&server), &[&sql[..], arguments].concat());
        let counts = &measured.counts;
        assert_eq!(counts.timed_out + counts.unfinished, counts.sent, "{counts:?}");
        crate::common::eventually("every cancel request", || {
            cancelled.load(Ordering::Acquire) == counts.sent
        });
    }
}

#[test]
fn a_server_that_ends_every_session_is_not_asked_without_pause() {
    // In one packet each: let in and thrown out at once; and let in, and thrown out with the first query.
    for at_once in [true, false] {
        let server = Scripted::start(move |peer| {
            if startup(peer).is_none() {
                return;
            }
            let gone =
                message::error("FATAL", "57P01", "terminating connection due to administrator command");
            if at_once {
                peer.send(&[message::welcome(), gone].concat());
            } else {
                peer.send(&message::welcome());
                if message(peer).is_some() {
                    peer.send(&gone);
                }
            }
        });
        for load in [&["-c", "4"][..], &["--rate", "100", "--connections", "4"]] {
            let before = server.connections();
            let arguments = ["--sql", "SELECT 1", "--query-mode", "simple", "-z", "2s", "--timeout", "1s"];
            let measured = measure(&url_of(&server), &[&arguments[..], load].concat());
            let opened = server.connections() - before;
            // With pauses from 10 ms to 1 s some ten, and without hundreds.
            assert!(opened < 60, "{at_once} {load:?}: {opened} connections");
            if !at_once {
                assert!(measured.errors("sqlstate_57P01") > 0, "{load:?}: {:?}", measured.errors);
            }
        }
    }
}

#[test]
fn pauses_before_the_start_do_not_reach_into_the_run() {
    // The second connection is refused, late and only once.
    let number = AtomicU64::new(0);
    let server = Scripted::start(move |peer| {
        if startup(peer).is_none() {
            return;
        }
        if number.fetch_add(1, Ordering::AcqRel) == 1 {
            std::thread::sleep(Duration::from_secs(2));
            return peer.send(&message::error("FATAL", "53300", "sorry, too many clients already"));
        }
        peer.send(&message::welcome());
        while message(peer).is_some() {
            std::thread::sleep(Duration::from_millis(50));
            peer.send(&[message::tagged(b'C', b"SELECT 1\0"), message::tagged(b'Z', b"I")].concat());
        }
    });
    let arguments =
        ["--sql", "SELECT 1", "--query-mode", "simple", "--rate", "30", "-z", "1s", "--connections", "2"];
    let measured = measure(&url_of(&server), &arguments);
    assert_eq!((measured.connections.established, measured.connections.peak), (1, 2));
}

#[test]
fn two_workers_and_copies_of_requests_keep_the_account() {
    let server = Postgres::start(&Setup::default());
    let arguments = [
        "--sql",
        "SELECT pg_sleep(0.03)",
        "--rate",
        "100",
        "-n",
        "60",
        "--connections",
        "8",
        "--workers",
        "2",
    ];
    let measured =
        measure(&server.url(), &[&arguments[..], &["--retry", "10ms", "--retry-copies", "2"]].concat());
    assert_eq!((measured.counts.ok, measured.plan.workers), (60, 2), "{:?}", measured.error_texts);
    assert!(measured.counts.attempts > 90, "{:?}", measured.counts);
}

#[test]
fn sslmode_prefer_goes_on_without_tls_where_it_cannot_be_had_with() {
    let identity = crate::common::certificates::Authority::new()
        .issue(&["localhost"], crate::common::certificates::Validity::Now);
    let hba = "hostssl all all all reject\n";
    let server = Postgres::start(&Setup { tls: Some(&identity), hba, ..Setup::default() });
    let measured = measure(&server.url(), &["--sql", "SELECT 1", "-c", "2", "-n", "4"]);
    assert_eq!((measured.counts.ok, measured.connections.established), (4, 2), "{:?}", measured.error_texts);
}
