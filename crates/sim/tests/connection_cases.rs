//! Hard cases from the bug reports of load-testing tools, each named after its number: connections,
//! and what the server's own count says.

use plimsoll_core::Timestamp;
use plimsoll_core::plan::{Load, Plan, Request};
use plimsoll_sim::plans::closed;
use plimsoll_sim::server::{Answers, OK};
use plimsoll_sim::testing::{
    Door, after, all_counts, assert_all_arrived, at_ms, closed_count, even_over, ms, run, simulate,
};
use plimsoll_sim::{Acceptance, Net, Server, Simulation, Wire};

/// Every request says `Connection: close`.
fn closing(mut plan: Plan) -> Plan {
    let Request::Http1(request) = &mut plan.operations[0].request else { unreachable!("HTTP is simulated") };
    request.close = true;
    plan
}

#[test]
fn con_01_the_end_waits_for_no_idle_or_absent_connection() {
    let server = Answers(|now, connection, net: &mut Net| {
        net.send(now + ms(30), connection, OK);
        net.close(now + ms(30), connection);
    });
    let run = simulate(closing(Plan { workers: 8, ..closed(8, ms(1_000)) }), server);
    assert_eq!(run.finished, at_ms(1_020), "the last answer's moment");
    assert_eq!((run.recorder.counts().ok, run.world.sockets()), (8 * 34, 0));
}

/// Closes each connection with its fifth answer, and does not say so before.
#[derive(Default)]
struct ClosesAfterFive {
    answered: Vec<u32>,
}

impl Server for ClosesAfterFive {
    fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
        self.answered.resize(self.answered.len().max(connection + 1), 0);
        self.answered[connection] += 1;
        net.send(now + ms(10), connection, OK);
        if self.answered[connection] == 5 {
            net.close(now + ms(10), connection);
        }
    }
}

#[test]
fn con_02_a_run_over_closing_connections_ends_with_its_exact_count() {
    for requests in [25, 26] {
        let run = simulate(closed_count(5, requests), ClosesAfterFive::default());
        assert_eq!((run.recorder.counts().ok, run.world.requests()), (requests, requests));
        assert_eq!(run.finished, at_ms(10 * requests.div_ceil(5)));

        let mut plan = even_over(5, "100/s", ms(10_000));
        if let Load::Open { requests: count, .. } = &mut plan.load {
            *count = Some(requests);
        }
        let run = simulate(plan, ClosesAfterFive::default());
        assert_eq!((run.recorder.counts().ok, run.world.requests()), (requests, requests));
        assert_eq!(run.finished, at_ms(10 * requests), "the last one is due 10 ms before");
    }
}

#[test]
fn con_04_connections_wanted_and_connections_established_are_told_apart() {
    let door = |connection, _| if connection < 10 { Acceptance::Accept } else { Acceptance::Ignore };
    let wire = Wire { delay: ms(1), ..Wire::default() };
    let run = run(Simulation::new(closed(50, ms(100)), Door(door)).over(wire));
    assert_eq!((run.opened_ahead, run.connections.peak, run.connections.opened), (10, 10, 10));
}

#[test]
fn con_12_a_request_that_says_close_ends_reuse_whatever_the_server_does() {
    let run = simulate(closing(closed_count(3, 30)), after(ms(1)));
    assert_eq!((run.recorder.counts().ok, run.world.connections(), run.world.sockets()), (30, 30, 0));
    assert_all_arrived(&run);
}

#[test]
fn con_13_bodies_are_read_to_their_ends_and_connections_reused() {
    const BODY_BYTES: usize = 10_000_000;
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n").into_bytes();
    answer.resize(answer.len() + BODY_BYTES, b'x');
    let answer_bytes = answer.len() as u64;
    let server =
        Answers(move |now, connection, net: &mut Net| net.send(now + ms(1), connection, answer.clone()));
    let run = simulate(closed_count(5, 20), server);
    assert_eq!((run.world.connections(), run.connections.established), (5, 5));
    assert_eq!((run.recorder.counts().ok, run.recorder.bytes_received()), (20, 20 * answer_bytes));
}

#[test]
fn out_01_the_servers_own_count_is_the_count_of_attempts() {
    for drain in [ms(5_000), ms(50)] {
        let run = simulate(Plan { drain, ..closed(50, ms(1_000)) }, after(ms(190)));
        let counts = all_counts(&run);
        assert_eq!(counts.sent, counts.ok + counts.failed + counts.timed_out + counts.unfinished);
        assert_eq!(run.recorder.total().statuses, [(200, counts.answered)]);
        assert_eq!((counts.sent, run.world.requests()), (300, 300));
        // Sent at 950 ms, the last ones are answered at 1140 ms, or cut off.
        assert_eq!(counts.unfinished, if drain < ms(140) { 50 } else { 0 });
    }
}
