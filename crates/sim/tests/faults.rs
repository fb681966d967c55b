//! Faults at every point of an exchange: whatever byte a server stops at, and however it stops, the
//! request it hit ends once, with the right kind, and the next ones find a sound connection.

use plimsoll_core::plan::Plan;
use plimsoll_core::{Failure, Outcome, Span, Timestamp};
use plimsoll_sim::server::{Answers, OK};
use plimsoll_sim::testing::{
    after, assert_all_arrived, at_ms, closed_count, even, even_over, ms, outcomes, run, simulate,
};
use plimsoll_sim::{Acceptance, Net, Run, Server, Simulation, Wire};

const REQUEST_BYTES: usize = b"GET / HTTP/1.1\r\nHost: sim\r\n\r\n".len();
const CHUNKED: &[u8] =
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=\"y\"\r\nok\r\n0\r\nTrailer: t\r\n\r\n";
const UNTIL_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nhello";
const MICROSECOND: Span = Span::from_us(1);
const CLOSED_BEFORE: Outcome = Outcome::Failed(Failure::ClosedBeforeResponse);
const CLOSED_IN: Outcome = Outcome::Failed(Failure::ClosedInResponse);
const RESET: Outcome = Outcome::Failed(Failure::Reset);

/// How a server leaves a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    Close,
    Reset,
}

impl Leave {
    const BOTH: [Self; 2] = [Self::Close, Self::Reset];

    fn perform(self, at: Timestamp, connection: usize, net: &mut Net) {
        match self {
            Self::Close => net.close(at, connection),
            Self::Reset => net.reset(at, connection),
        }
    }
}

/// Stops on its first connection after some bytes of the answer and leaves so long after them; on
/// others it answers properly.
#[derive(Clone, Copy)]
struct Stops {
    answer: &'static [u8],
    after_bytes: usize,
    leave: Leave,
    gap: Span,
}

impl Server for Stops {
    fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
        if connection > 0 {
            return net.send(now, connection, OK);
        }
        net.send(now, connection, &self.answer[..self.after_bytes]);
        self.leave.perform(now + self.gap, connection, net);
    }
}

/// Three requests one after the other, by one client or on one connection by a schedule.
fn plans() -> [Plan; 2] {
    [closed_count(1, 3), even_over(1, "10/s", ms(300))]
}

/// Runs all deliveries of one fault; the first request ends as told, the other two well.
fn stops_with(server: Stops, first: Outcome) {
    // Behind a whole answer a client that goes on at once meets the fault with its next request.
    let at_once = first != Outcome::Ok || server.gap.is_zero() || server.answer == UNTIL_CLOSE;
    for plan in plans().into_iter().skip(usize::from(!at_once)) {
        for (read_bytes, stamps) in [(usize::MAX, true), (usize::MAX, false), (1, true)] {
            let wire = Wire { read_bytes, stamps, delay: MICROSECOND, ..Wire::default() };
            let run = run(Simulation::new(plan.clone(), server).over(wire));
            let what = format!("{:?} after {} bytes, gap {}", server.leave, server.after_bytes, server.gap);
            assert_eq!(outcomes(&run), [first, Outcome::Ok, Outcome::Ok], "{what}");
            assert_eq!(run.world.connections(), 2, "{what}");
            assert_all_arrived(&run);
        }
    }
}

/// How the first request ends when the server closes after so many bytes.
fn after_close(answer: &[u8], bytes: usize) -> Outcome {
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    match bytes {
        0 => CLOSED_BEFORE,
        _ if bytes == answer.len() || answer == UNTIL_CLOSE && bytes >= head => Outcome::Ok,
        _ => CLOSED_IN,
    }
}

#[test]
fn a_close_after_every_byte_of_an_answer_ends_its_request_alone() {
    for answer in [OK, CHUNKED, UNTIL_CLOSE] {
        for after_bytes in 0..=answer.len() {
            for gap in [Span::ZERO, MICROSECOND] {
                let server = Stops { answer, after_bytes, leave: Leave::Close, gap };
                stops_with(server, after_close(answer, after_bytes));
            }
        }
    }
}

#[test]
fn a_reset_after_every_byte_of_an_answer_ends_its_request_alone() {
    for answer in [OK, CHUNKED, UNTIL_CLOSE] {
        for after_bytes in 0..=answer.len() {
            // A reset that is there before the bytes are read takes them away; one that comes
            // behind a whole answer only takes the connection. Without a length no answer is
            // whole before its proper end.
            let whole = after_bytes == answer.len() && answer != UNTIL_CLOSE;
            let after_gap = if whole { Outcome::Ok } else { RESET };
            stops_with(Stops { answer, after_bytes, leave: Leave::Reset, gap: Span::ZERO }, RESET);
            stops_with(Stops { answer, after_bytes, leave: Leave::Reset, gap: MICROSECOND }, after_gap);
        }
    }
}

/// Answers in two parts.
struct Splits {
    answer: &'static [u8],
    at: usize,
}

impl Server for Splits {
    fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
        let (one, two) = self.answer.split_at(self.at);
        net.send(now + MICROSECOND, connection, one);
        net.send(now + ms(1), connection, two);
        if self.answer == UNTIL_CLOSE {
            net.close(now + ms(1), connection);
        }
    }
}

#[test]
fn an_answer_cut_at_any_byte_is_the_same_answer() {
    for answer in [OK, CHUNKED, UNTIL_CLOSE] {
        for at in 1..answer.len() {
            let run = simulate(closed_count(1, 2), Splits { answer, at });
            for sample in &run.samples {
                assert_eq!((sample.outcome, sample.service()), (Outcome::Ok, Some(ms(1))), "cut at {at}");
                assert_eq!(sample.first_byte_after(), Some(MICROSECOND), "cut at {at}");
            }
            assert_eq!(run.samples.len(), 2);
        }
    }
}

#[test]
fn an_answer_byte_by_byte_lasts_to_its_last_byte() {
    for answer in [OK, CHUNKED] {
        for read_bytes in 1..=answer.len() {
            let wire = Wire { read_bytes, read_pause: MICROSECOND, ..Wire::default() };
            let server = Stops { answer, after_bytes: answer.len(), leave: Leave::Close, gap: ms(1) };
            let run = run(Simulation::new(closed_count(1, 2), server).over(wire));
            let pieces = answer.len().div_ceil(read_bytes) as u64;
            let first = run.by_seq()[0];
            assert_eq!(first.service(), Some(Span::from_us(pieces - 1)), "{read_bytes} bytes a time");
            assert_eq!(first.first_byte_after(), Some(Span::ZERO), "{read_bytes} bytes a time");
            assert_eq!(first.outcome, Outcome::Ok);
        }
    }
}

#[test]
fn a_request_written_in_pieces_arrives_whole() {
    for write_bytes in 1..=REQUEST_BYTES {
        let wire = Wire { write_bytes, write_pause: MICROSECOND, ..Wire::default() };
        let simulation = Simulation::new(closed_count(2, 10), after(ms(1))).over(wire);
        let run = run(simulation);
        let pieces = REQUEST_BYTES.div_ceil(write_bytes) as u64;
        let first = run.by_seq()[0];
        assert_eq!(first.service(), Some(ms(1) + Span::from_us(pieces - 1)), "{write_bytes} bytes a time");
        assert_eq!(run.recorder.counts().ok, 10);
        assert_eq!(run.recorder.bytes_sent(), 10 * REQUEST_BYTES as u64);
        assert_all_arrived(&run);
    }
}

/// Does something on its first connection once so many bytes of the first request have come.
struct Inside {
    after_bytes: usize,
    act: fn(Timestamp, usize, &mut Net),
}

impl Server for Inside {
    fn part(&mut self, now: Timestamp, connection: usize, bytes: usize, net: &mut Net) {
        if connection == 0 && bytes == self.after_bytes {
            (self.act)(now, connection, net);
        }
    }

    fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
        if connection > 0 {
            net.send(now, connection, OK);
        }
    }
}

/// Runs three requests, the first of which the server meets half-way.
fn inside_request(after_bytes: usize, act: fn(Timestamp, usize, &mut Net)) -> Vec<(Run, String)> {
    let wire = Wire { write_bytes: 1, write_pause: MICROSECOND, delay: MICROSECOND, ..Wire::default() };
    plans()
        .into_iter()
        .map(|plan| {
            let simulation = Simulation::new(plan, Inside { after_bytes, act }).over(wire.clone());
            (run(simulation), format!("after {after_bytes} bytes of the request"))
        })
        .collect()
}

#[test]
fn a_server_that_leaves_inside_a_request_fails_it_alone() {
    let close: fn(Timestamp, usize, &mut Net) = |now, connection, net| net.close(now, connection);
    let reset: fn(Timestamp, usize, &mut Net) = |now, connection, net| net.reset(now, connection);
    for after_bytes in 1..REQUEST_BYTES {
        for (act, first) in [(close, CLOSED_BEFORE), (reset, RESET)] {
            for (run, what) in inside_request(after_bytes, act) {
                assert_eq!(outcomes(&run), [first, Outcome::Ok, Outcome::Ok], "{what}");
                assert_eq!((run.recorder.counts().attempts, run.world.requests()), (3, 2), "{what}");
                assert_eq!(run.world.connections(), 2, "{what}");
            }
        }
    }
}

#[test]
fn a_connection_with_half_a_request_on_it_serves_no_other() {
    // The answer is whole, and the rest of its request still waits to be written: the next one
    // would not leave when its `sent` says.
    for after_bytes in 1..REQUEST_BYTES {
        for (run, what) in inside_request(after_bytes, |now, connection, net| net.send(now, connection, OK)) {
            assert_eq!(outcomes(&run), [Outcome::Ok; 3], "{what}");
            // With the bytes under way the last ones have been written when the answer comes.
            let last_written = after_bytes + 2 >= REQUEST_BYTES;
            assert_eq!(run.world.connections(), if last_written { 1 } else { 2 }, "{what}");
        }
    }
}

/// Leaves each connection so long after its answer.
struct LeavesIdle {
    leave: Leave,
    idle: Span,
}

impl Server for LeavesIdle {
    fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
        net.send(now, connection, OK);
        self.leave.perform(now + self.idle, connection, net);
    }
}

#[test]
fn a_connection_that_ends_while_idle_costs_no_request() {
    for leave in Leave::BOTH {
        let run = simulate(even_over(1, "10/s", ms(500)), LeavesIdle { leave, idle: ms(50) });
        assert_eq!(outcomes(&run), [Outcome::Ok; 5], "{leave:?}");
        assert_eq!((run.world.connections(), run.world.open_connections()), (5, 0), "{leave:?}");
        assert_all_arrived(&run);
    }
}

#[test]
fn a_request_that_crosses_the_servers_close_fails_and_is_not_sent_again() {
    // One way takes 1 ms. The first request leaves at 2 ms on a new connection and comes at 3 ms. The
    // server leaves at 100.5 ms, when the second one, sent at 100 ms, is under way.
    let idle = Span::from_us(97_500);
    for (leave, failure) in [(Leave::Close, Failure::ClosedBeforeResponse), (Leave::Reset, Failure::Reset)] {
        let wire = Wire { delay: ms(1), ..Wire::default() };
        let run = run(Simulation::new(even_over(1, "10/s", ms(400)), LeavesIdle { leave, idle }).over(wire));
        let sent: Vec<bool> = run.by_seq().iter().map(|sample| sample.sent.is_some()).collect();
        assert_eq!(sent, [true; 4], "{leave:?}");
        let failed = Outcome::Failed(failure);
        assert_eq!(outcomes(&run), [Outcome::Ok, failed, Outcome::Ok, failed], "{leave:?}");
        assert_eq!(run.by_seq()[1].service(), Some(Span::from_us(1_500)), "{leave:?}");
        assert_eq!(run.recorder.counts().attempts, 4);
        assert_eq!(run.world.requests(), run.recorder.counts().ok);
    }
}

#[test]
fn a_connection_whose_end_is_seen_with_its_answer_serves_no_other() {
    // Request 0 is sent at 2 ms. Request 1 is due at 10 ms and waits for a connection of its own until
    // 12 ms. At 11.5 ms the answer comes together with the server's close.
    let server = Answers(|now, connection, net: &mut Net| {
        let at = now + Span::from_us(7_500);
        net.send(at, connection, OK);
        net.close(at, connection);
    });
    let wire = Wire { delay: ms(1), ..Wire::default() };
    let run = run(Simulation::new(even("100/s", ms(20)), server).over(wire));
    assert_eq!(outcomes(&run), [Outcome::Ok; 2]);
    assert_eq!(run.by_seq()[1].sent, Some(at_ms(12)));
}

/// Treats its first connection in one way and takes the others.
struct AtTheDoor {
    acceptance: Acceptance,
    leave: Option<(Leave, Span)>,
}

impl Server for AtTheDoor {
    fn connect(&mut self, _: Timestamp, connection: usize, _: usize) -> Acceptance {
        if connection == 0 { self.acceptance } else { Acceptance::Accept }
    }

    fn accepted(&mut self, now: Timestamp, connection: usize, net: &mut Net) {
        if let (0, Some((leave, after))) = (connection, self.leave) {
            leave.perform(now + after, connection, net);
        }
    }

    fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
        net.send(now, connection, OK);
    }
}

#[test]
fn what_goes_wrong_while_connecting_costs_the_request_that_waited() {
    let timeout = ms(40);
    let cases = [
        (Acceptance::Refuse, None, Failure::ConnectRefused, Span::ZERO),
        (Acceptance::Ignore, None, Failure::ConnectTimeout, timeout),
    ];
    for (acceptance, leave, failure, after) in cases {
        let mut plan = even_over(1, "10/s", ms(300));
        plan.connect_timeout = timeout;
        let run = simulate(plan, AtTheDoor { acceptance, leave });
        assert_eq!(outcomes(&run), [Outcome::Failed(failure), Outcome::Ok, Outcome::Ok]);
        let first = run.by_seq()[0];
        assert_eq!((first.sent, first.blocked()), (None, after));
        assert_eq!((run.recorder.counts().failed_unsent, run.recorder.counts().attempts), (1, 2));
        assert_all_arrived(&run);
    }
}

#[test]
fn a_server_that_takes_a_connection_and_leaves_at_once_fails_the_request_on_it() {
    for leave in Leave::BOTH {
        for gap in [Span::ZERO, Span::from_ns(1), MICROSECOND] {
            let server = AtTheDoor { acceptance: Acceptance::Accept, leave: Some((leave, gap)) };
            // The client's bytes are still under way when the server leaves.
            let wire = Wire { delay: ms(1), ..Wire::default() };
            let run = run(Simulation::new(even_over(1, "10/s", ms(300)), server).over(wire));
            let first = outcomes(&run)[0];
            let kinds = if leave == Leave::Reset { [RESET, CLOSED_BEFORE] } else { [CLOSED_BEFORE; 2] };
            assert!(kinds.contains(&first), "{leave:?} after {gap}: {first:?}");
            assert_eq!(outcomes(&run)[1..], [Outcome::Ok; 2], "{leave:?} after {gap}");
            assert_eq!(run.world.requests(), 2);
        }
    }
}
