//! nginx is the judge: what its access log says is what the result must say.

use crate::common::nginx::{Nginx, Setup};
use crate::common::program::{Measured, measure};

/// The result agrees with nginx's own account to the request, the connection and the byte.
fn assert_agrees(nginx: &Nginx, run: &Measured) {
    let log = nginx.log(run.attempts());
    assert_eq!(log.len(), run.attempts());
    // An open loop may open a connection and need it no more when it is there.
    let used = log.values("connection").len() as u64;
    assert!(used <= run.connections.opened);
    assert!(run.plan.clients.is_none() || used == run.connections.opened);
    // nginx does not wait for a body before it answers and writes its line.
    if run.plan.operations[0].body_bytes == 0 {
        assert_eq!(log.sum("request_length"), run.bytes.sent);
    }
    assert_eq!(log.sum("bytes_sent"), run.bytes.received);
    assert_eq!(run.bytes.surplus, 0);
}

#[test]
fn out_01_open_and_closed_loops_agree_with_the_access_log() {
    for load in [
        "-r 300 -z 1s",
        "-r 300 -z 1s --warmup 300ms",
        "-r 200 -z 1s --arrivals even --workers 2 --connections 4",
        "--stages 100/s:500ms,100/s..300/s:500ms --arrivals gamma:cv=2",
        "-c 8 -z 500ms",
        "-c 8 -z 500ms --warmup 300ms --workers 2",
        "-c 4 -n 501",
        "-r 2000 -n 500 --warmup 100ms",
        "--rate max -n 300",
    ] {
        let nginx = Nginx::start(&Setup::default());
        let arguments: Vec<&str> = load.split(' ').collect();
        let run = measure(&nginx.url("/"), &arguments);
        assert_agrees(&nginx, &run);
        assert_eq!(run.code(), 0, "{load}");
        assert_eq!(run.counts.ok, run.counts.due, "{load}");
        assert_eq!(run.statuses["200"], run.counts.ok, "{load}");
        assert_eq!(run.plan.receive_clock, "kernel", "{load}");
        if load.contains("-n 501") {
            assert_eq!(run.counts.due, 501);
        }
        if load.contains("even") {
            assert_eq!(run.counts.due, 200);
        }
        if load.contains("--warmup") {
            assert!(run.counts_warmup.ok > 0 && run.counts_warmup.ok == run.counts_warmup.due, "{load}");
        }
        if load.contains("-c ") {
            // One connection a client, and each is used again and again.
            assert_eq!(run.connections.opened, run.plan.clients.expect("a closed loop"), "{load}");
        }
    }
}

#[test]
fn answers_that_are_no_success_are_told_by_status() {
    let nginx = Nginx::start(&Setup::default());
    for (path, status, kind) in [("/missing", "404", "status_404"), ("/busy", "503", "status_503")] {
        let run = measure(&nginx.url(path), &["-c", "2", "-n", "20"]);
        assert_eq!((run.counts.ok, run.counts.failed, run.counts.answered), (0, 20, 20));
        assert_eq!((run.errors(kind), run.statuses[status]), (20, 20));
        assert_eq!(run.connections.opened, 2, "a status does not end a connection");
        assert!(run.response_ns.is_none() && run.response_failed_ns.is_some());
        assert!(run.warning_names().contains(&"success"));
    }
    assert_eq!(nginx.log(40).len(), 40);
}

#[test]
fn bodies_are_read_to_their_last_byte() {
    let nginx = Nginx::start(&Setup::default());
    let run = measure(&nginx.url("/80000"), &["-c", "4", "-n", "200"]);
    assert_agrees(&nginx, &run);
    assert_eq!(nginx.log(200).sum("body_bytes_sent"), 200 * 80_000);
    assert_eq!((run.counts.ok, run.connections.opened), (200, 4));
}

#[test]
fn a_head_request_leaves_its_connection_fit_for_the_next() {
    let nginx = Nginx::start(&Setup::default());
    let run = measure(&nginx.url("/80000"), &["-X", "HEAD", "-c", "1", "-n", "20"]);
    assert_agrees(&nginx, &run);
    let log = nginx.log(20);
    assert_eq!((run.counts.ok, run.connections.opened), (20, 1));
    assert_eq!(log.values("request_method").into_iter().collect::<Vec<_>>(), ["HEAD"]);
    assert_eq!(log.sum("body_bytes_sent"), 0);
}

#[test]
fn method_headers_user_and_a_body_from_a_file_reach_the_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let body = directory.path().join("body.bin");
    std::fs::write(&body, vec![7; 12_345]).expect("a file");
    let nginx = Nginx::start(&Setup { lines: "client_max_body_size 1m;", ..Setup::default() });
    let data = format!("@{}", body.display());
    let run = measure(
        &nginx.url("/path?x=%26&y=a+b"),
        &["-c", "1", "-n", "3", "-d", &data, "-H", "X-Test: seen", "-u", "me:hunter2x", "-H", "Host: a.test"],
    );
    assert_agrees(&nginx, &run);
    let log = nginx.log(3);
    for (field, value) in [
        ("request_method", "POST"),
        ("request_uri", "/path?x=%26&y=a+b"),
        ("http_x_test", "seen"),
        ("remote_user", "me"),
        ("http_host", "a.test"),
        ("content_length", "12345"),
        ("status", "200"),
    ] {
        assert_eq!(log.all(field), [value; 3], "{field}");
    }
    assert_eq!(run.plan.operations[0].body_bytes, 12_345);
    assert!(!run.finished.stdout.contains("hunter2x") && !run.finished.stdout.contains("bWU6aHVudGVyMng"));
}

#[test]
fn variables_make_the_same_requests_for_any_number_of_workers() {
    let uris = |workers: &str, law: &str| {
        let nginx = Nginx::start(&Setup::default());
        let variable = format!("id={law}");
        let arguments = ["-r", "2000", "-n", "200", "--seed", "7", "--workers", workers, "--var", &variable];
        let run = measure(&nginx.url("/item/${id}"), &arguments);
        assert_agrees(&nginx, &run);
        let log = nginx.log(200);
        let mut uris: Vec<String> = log.all("request_uri").into_iter().map(str::to_owned).collect();
        uris.sort();
        uris
    };
    let uniform = uris("1", "uniform:0..1000000");
    assert_eq!(uniform, uris("2", "uniform:0..1000000"));
    let different: std::collections::BTreeSet<_> = uniform.iter().collect();
    assert!(different.len() > 190, "200 of a million are nearly all different: {}", different.len());
    let mut counted: Vec<String> = (0..200).map(|n| format!("/item/{n}")).collect();
    counted.sort();
    assert_eq!(uris("1", "sequence"), counted);
    assert_eq!(uris("2", "sequence"), counted);
}

#[test]
fn without_keep_alive_every_request_has_a_connection_of_its_own() {
    let nginx = Nginx::start(&Setup::default());
    for load in [["-r", "200"], ["-c", "3"]] {
        let run = measure(&nginx.url("/"), &[&load[..], &["-n", "50", "--no-keepalive"]].concat());
        assert_eq!((run.counts.ok, run.connections.opened), (50, 50));
        assert_eq!(run.connect_ns.as_ref().expect("connections").count, 50);
    }
    let log = nginx.log(100);
    assert_eq!(log.values("connection").len(), 100);
    assert_eq!(log.values("connection_requests").into_iter().collect::<Vec<_>>(), ["1"]);
}

#[test]
fn a_socket_in_the_file_system_is_reached_and_its_stamps_are_said_to_be_our_own() {
    let nginx = Nginx::start(&Setup::default());
    let socket = nginx.unix_socket();
    let path = socket.to_str().expect("UTF-8");
    let run = measure("http://a.test/", &["-c", "2", "-n", "20", "--unix-socket", path]);
    assert_agrees(&nginx, &run);
    assert_eq!((run.counts.ok, run.connections.opened), (20, 2));
    assert_eq!(run.addresses.keys().collect::<Vec<_>>(), [path]);
    assert_eq!(run.plan.receive_clock, "user");
    assert_eq!(nginx.log(20).all("http_host"), ["a.test"; 20]);
}

#[test]
fn ipv6_is_reached_with_brackets_in_the_host() {
    let nginx = Nginx::start(&Setup { also: Some("[::1]"), ..Setup::default() });
    let host = format!("[::1]:{}", nginx.port());
    let run = measure(&format!("http://{host}/"), &["-c", "2", "-n", "20"]);
    assert_agrees(&nginx, &run);
    let log = nginx.log(20);
    assert_eq!((log.all("remote_addr"), log.all("http_host")), (vec!["::1"; 20], vec![&host[..]; 20]));
    assert_eq!(run.addresses.keys().collect::<Vec<_>>(), [&host]);
}

/// The two clients are told apart by their own names, and nginx sees the same request from both.
#[test]
fn cli_08_the_target_is_sent_as_curl_sends_it() {
    let curl = crate::common::machine_program(
        "curl",
        "scripts/test installs it (Debian, Ubuntu: apt-get install curl)",
    );
    let nginx = Nginx::start(&Setup::default());
    let url = nginx.url("/a%2Fb//c/../d?x=%26&y=a+b&z=[1]|{2}&e=#fragment");
    let status = std::process::Command::new(curl)
        .args(["--silent", "--fail", "--globoff", "--path-as-is", "--output", "/dev/null", &url])
        .status()
        .expect("curl is a program");
    assert!(status.success());
    measure(&url, &["-c", "1", "-n", "1"]);
    let log = nginx.log(2);
    let uris = log.all("request_uri");
    assert_eq!(uris, ["/a%2Fb//c/../d?x=%26&y=a+b&z=[1]|{2}&e="; 2]);
}
