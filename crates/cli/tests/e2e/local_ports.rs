//! Local ports that run out, in a network of its own.

use std::process::Command;

use crate::common::machine_program;
use crate::common::program::{Running, plimsoll};

/// Every answer takes three seconds, so that for as long as requests are sent no port becomes free.
/// The namespace has no name: it ends with the processes in it and leaves nothing behind.
const SCRIPT: &str = "
set -e
$IP link set lo up
echo 40000 40049 > /proc/sys/net/ipv4/ip_local_port_range
$PLIMSOLL target --listen 127.0.0.1:9100 --service fixed:3s --workers inf >/dev/null 2>$DIRECTORY/target &
target=$!
trap 'kill $target' EXIT
while ! grep -q listening $DIRECTORY/target; do sleep 0.01; done
$PLIMSOLL run http://127.0.0.1:9100/ -r 500 --arrivals even -z 1s --no-keepalive --timeout 60s --json
";

/// False where this user may not make a network of its own; then there is nothing to run out of.
fn may_make_a_network(unshare: &std::path::Path) -> bool {
    Command::new(unshare)
        .args(["--map-root-user", "--net", "true"])
        .output()
        .is_ok_and(|o| o.status.success())
}

#[test]
#[cfg(target_os = "linux")]
fn con_05_and_con_15_local_ports_that_run_out_are_told_as_our_own_fault() {
    let unshare = machine_program("unshare", "it comes with util-linux");
    let ip = machine_program("ip", "install it (Debian, Ubuntu: apt-get install iproute2)");
    if !may_make_a_network(&unshare) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(&unshare);
    command
        .args(["--map-root-user", "--net", "sh", "-c", SCRIPT])
        .env("IP", ip)
        .env("PLIMSOLL", plimsoll().get_program())
        .env("DIRECTORY", directory.path());
    let run = Running::start(&mut command).finish().measured();
    let without_port = run.errors("no_local_port");
    assert_eq!((run.counts.due, run.counts.ok + without_port), (500, 500), "{:?}", run.errors);
    assert!(run.counts.ok >= 50, "there are 50 ports: {}", run.counts.ok);
    assert!(without_port > 0, "500 connections in a second do not fit into 50 ports");
    assert_eq!((run.counts.failed_unsent, run.attempts()), (without_port, run.counts.ok));
    let warning = run.warnings.iter().find(|warning| warning.name == "no_local_port").expect("it is told");
    assert!(warning.remedy.as_ref().is_some_and(|remedy| remedy.contains("ip_local_port_range")));
}
