//! Cases of connection handling, end to end.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use plimsoll_target::TargetConfig;
use rustix::process::Signal;

use crate::common::program::{Running, measure, plimsoll};
use crate::common::scripted::{BlackHole, OK, Scripted};
use crate::common::{eventually, machine_program};
use crate::{target, url};

#[test]
fn con_01_a_run_without_idle_connections_ends() {
    let server = target(TargetConfig::default());
    let arguments = ["-c", "8", "--workers", "8", "-z", "1s", "-H", "Connection: close"];
    let run = measure(&url(&server), &arguments);
    assert_eq!((run.code(), run.counts.ok), (0, run.counts.due));
    let truth = server.truth().expect("it runs");
    assert_eq!(truth.arrivals, run.attempts());
    assert_eq!(run.connections.opened, truth.connections_accepted);
    assert!(run.connections.opened >= run.attempts());
}

#[test]
fn con_02_connections_that_serve_few_requests_lose_none_of_them() {
    let polite = || {
        Scripted::start(|peer| {
            while peer.request().is_some() {
                if peer.read.is_multiple_of(5) {
                    peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
                    return;
                }
                peer.send(OK);
            }
        })
    };
    for load in [["-c", "5"], ["-r", "200"]] {
        for requests in ["25", "26"] {
            let server = polite();
            let run =
                measure(&server.url("/"), &[&load[..], &["-n", requests, "--connections", "5"]].concat());
            let wanted: u64 = requests.parse().expect("a number");
            assert_eq!((run.counts.due, run.counts.ok), (wanted, wanted), "{load:?}");
            assert_eq!(server.request_count(), wanted, "{load:?}");
        }
    }
    // Without a word beforehand: a request may meet the end of its connection, and then it fails at
    // once. None is lost or waited for.
    let rude = Scripted::start(|peer| {
        for _ in 0..5 {
            if peer.request().is_none() {
                return;
            }
            peer.send(OK);
        }
    });
    for load in [["-c", "5"], ["-r", "200"]] {
        let run = measure(&rude.url("/"), &[&load[..], &["-n", "26", "--timeout", "0"]].concat());
        let lost = run.errors("closed_before_response") + run.errors("reset");
        assert_eq!((run.counts.due, run.counts.ok + lost), (26, 26), "{:?}", run.errors);
    }
}

#[test]
fn con_03_more_clients_than_descriptors_are_refused_with_limit_and_need() {
    let prlimit = machine_program("prlimit", "it comes with util-linux");
    let server = target(TargetConfig::default());
    let url = url(&server);
    let limited = |limit: &str, arguments: &[&str]| {
        let mut command = Command::new(&prlimit);
        command.arg(format!("--nofile={limit}:{limit}")).arg(plimsoll().get_program());
        Running::start(command.args(["run", &url]).args(arguments)).finish()
    };
    let refused = limited("128", &["-c", "100", "-z", "1s"]);
    assert_eq!(refused.code, Some(2));
    for part in ["100", "128", "ulimit -n 164"] {
        assert!(refused.stderr.contains(part), "{part} in {}", refused.stderr);
    }
    let nothing_left = limited("64", &["-c", "100", "-z", "1s"]);
    assert!(nothing_left.code == Some(2) && nothing_left.stderr.contains("64"), "{}", nothing_left.stderr);
    // What was not asked for by number is reduced.
    let reduced = limited("100", &["-r", "50", "-n", "20", "--json"]).measured();
    assert_eq!((reduced.counts.ok, reduced.plan.connections_max), (20, 36));
    assert_eq!(server.truth().expect("it runs").arrivals, 20, "nothing was sent by those refused");
}

#[test]
fn con_04_connections_that_do_not_come_about_are_told() {
    let hole = BlackHole::with_room(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 10);
    let address = format!("http://{}/", hole.address());
    let arguments = ["-c", "50", "-z", "300ms", "--connect-timeout", "500ms", "--drain", "100ms"];
    let run = measure(&address, &arguments);
    let connections = &run.connections;
    assert_eq!(connections.wanted, Some(50));
    assert!((10..50).contains(&connections.established), "{connections:?}");
    let text = crate::common::program::run(&[&[&address[..]], &arguments[..]].concat()).stdout;
    assert!(text.contains("wanted 50 · established"), "{text}");
}

/// Connections to `port` in the state with this number, from the side that opened them.
#[cfg(target_os = "linux")]
fn sockets_towards(port: u16, state: u8) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    let towards = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let remote = fields[2].rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
        remote == Some(port) && u8::from_str_radix(fields[3], 16) == Ok(state)
    };
    table.lines().skip(1).filter(|line| towards(line)).count()
}

#[cfg(target_os = "linux")]
const ESTABLISHED: u8 = 1;
#[cfg(target_os = "linux")]
const CLOSE_WAIT: u8 = 8;

#[test]
#[cfg(target_os = "linux")]
fn con_05_a_connection_that_the_server_closes_while_idle_is_closed_and_missed_by_nobody() {
    let server = Scripted::start(|peer| {
        if peer.request().is_some() {
            peer.send(OK);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let port = server.address().port();
    // The second request is due after 20 s: much later than the close must have been noticed.
    let arguments = ["-r", "1/20s", "--arrivals", "even", "-n", "2", "--json"];
    let running = Running::run(&[&[&server.url("/")[..]], &arguments[..]].concat());
    eventually("the first request", || server.ended() == 1);
    eventually("the client closes too", || {
        sockets_towards(port, CLOSE_WAIT) == 0 && sockets_towards(port, ESTABLISHED) == 0
    });
    assert_eq!(server.connections(), 1, "it was noticed before the next request");
    running.signal(Signal::INT);
    let run = running.finish().measured();
    assert_eq!((run.counts.ok, run.counts.failed), (1, 0));
}

#[test]
fn con_05_a_server_that_closes_idle_connections_causes_no_failure() {
    let server = Scripted::start(|peer| {
        if peer.request().is_some() {
            peer.send(OK);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let run = measure(&server.url("/"), &["-r", "2", "--arrivals", "even", "-n", "4"]);
    assert_eq!((run.counts.ok, run.connections.opened), (4, 4));
}

/// A listener on 127.0.0.1 and the same port of 127.0.0.2, which is not bound.
fn two_addresses() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    (listener, SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), port)))
}

fn resolve(port: u16) -> String {
    format!("two.test:{port}:127.0.0.2,127.0.0.1")
}

#[test]
fn con_07_an_address_that_refuses_is_passed_over() {
    let (listener, _) = two_addresses();
    let server = Scripted::on(listener, None, |peer| {
        while peer.request().is_some() {
            peer.send(OK);
        }
    });
    let port = server.address().port();
    for load in [["-c", "3"], ["-r", "100"]] {
        let url = format!("http://two.test:{port}/");
        let run = measure(&url, &[&load[..], &["-n", "12", "--resolve", &resolve(port)]].concat());
        assert_eq!((run.code(), run.counts.ok), (0, 12), "{load:?}");
        let used: Vec<&String> =
            run.addresses.iter().filter(|(_, n)| **n > 0).map(|(name, _)| name).collect();
        assert_eq!(used, [&format!("127.0.0.1:{port}")], "{load:?}");
    }
}

#[test]
fn con_07_an_address_that_does_not_answer_costs_its_time_and_is_passed_over() {
    let (listener, other) = two_addresses();
    let hole = BlackHole::full_at(other);
    let server = Scripted::on(listener, None, |peer| {
        while peer.request().is_some() {
            peer.send(OK);
        }
    });
    let port = hole.address().port();
    let url = format!("http://two.test:{port}/");
    let arguments = ["-r", "20", "-n", "8", "--connect-timeout", "300ms", "--resolve", &resolve(port)];
    let run = measure(&url, &arguments);
    assert_eq!((run.code(), run.counts.ok), (0, 8));
    assert_eq!(server.request_count(), 8);
    assert!(run.blocked_ns.as_ref().unwrap().max >= 300_000_000, "the wait is told as blocked");
}

#[test]
fn con_07_of_two_good_addresses_the_first_is_used() {
    let (listener, other) = two_addresses();
    let answer = |peer: &mut crate::common::scripted::Peer| {
        while peer.request().is_some() {
            peer.send(OK);
        }
    };
    let second = Scripted::on(listener, None, answer);
    let first = Scripted::on(TcpListener::bind(other).expect("the same port"), None, answer);
    let port = other.port();
    let run =
        measure(&format!("http://two.test:{port}/"), &["-c", "3", "-n", "12", "--resolve", &resolve(port)]);
    assert_eq!((run.counts.ok, first.request_count(), second.request_count()), (12, 12, 0));
}

#[test]
fn con_12_a_request_that_says_close_ends_its_connection_whatever_the_server_does() {
    let server = Scripted::answering(OK);
    let run = measure(&server.url("/"), &["-c", "3", "-n", "30", "-H", "Connection: close"]);
    assert_eq!((run.counts.ok, run.connections.opened), (30, 30));
    assert!(server.connections() >= 30);
    // The server keeps its side open until the client has gone.
    eventually("no connection is left", || server.ended() == server.connections());
}

#[test]
fn con_13_long_bodies_are_read_to_their_end_on_the_same_connections() {
    const BODY: usize = 10_000_000;
    let server = target(TargetConfig { body_bytes: BODY, ..TargetConfig::default() });
    let run = measure(&url(&server), &["-c", "5", "-n", "20", "--timeout", "60s"]);
    assert_eq!((run.counts.ok, run.connections.opened), (20, 5));
    assert_eq!(server.truth().expect("it runs").connections_accepted, 5);
    let heads = run.bytes.received - 20 * BODY as u64;
    assert!(heads.is_multiple_of(20) && heads < 20 * 500, "every answer is as long as the other: {heads}");
}
