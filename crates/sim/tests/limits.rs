//! Connections: whose wait is whose, one line of waiters, the pace of connecting, several addresses.

use std::cell::Cell;
use std::rc::Rc;

use plimsoll_core::plan::Plan;
use plimsoll_core::{Failure, Outcome, Span, Timestamp};
use plimsoll_sim::server::OK;
use plimsoll_sim::testing::{
    Door, after, assert_all_arrived, at_ms, count, even, even_over, failures, ms, outcomes, run, simulate,
};
use plimsoll_sim::{Acceptance, Net, Server, Simulation, Wire};

#[test]
fn waiting_at_the_limit_is_blocked_and_never_schedule_lag() {
    let run = simulate(even_over(1, "100/s", ms(100)), after(ms(15)));
    for sample in run.by_seq() {
        assert_eq!(sample.schedule_lag(), Span::ZERO);
        assert_eq!(sample.blocked(), ms(5 * sample.seq), "{sample:?}");
        assert_eq!(sample.waited_for_connection, sample.seq > 0, "{sample:?}");
    }
    assert_eq!(run.recorder.counts().waited_for_connection, 9);
    assert_all_arrived(&run);
}

#[test]
fn waiting_for_ones_own_connect_is_blocked_and_not_a_wait_at_the_limit() {
    let wire = Wire { delay: ms(10), ..Wire::default() };
    let run = run(Simulation::new(even("100/s", ms(50)), after(ms(1))).over(wire));
    let blocked: Vec<Span> = run.by_seq().iter().map(|sample| sample.blocked()).collect();
    // A connect takes 20 ms, an exchange 21 ms. The first connection is free again at 41 ms and takes
    // the request due at 30 ms, whose own connect then serves the last one, at 50 ms.
    assert_eq!(blocked, [ms(20), ms(20), ms(20), ms(11), ms(10)]);
    assert_eq!(run.recorder.counts().waited_for_connection, 0);
}

/// Counts connects under way.
struct Doorkeeper {
    under_way: usize,
    most: Rc<Cell<usize>>,
}

impl Server for Doorkeeper {
    fn connect(&mut self, _: Timestamp, _: usize, _: usize) -> Acceptance {
        self.under_way += 1;
        self.most.set(self.most.get().max(self.under_way));
        Acceptance::Accept
    }

    fn accepted(&mut self, _: Timestamp, _: usize, _: &mut Net) {
        self.under_way -= 1;
    }

    fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
        net.send(now + ms(100), connection, OK);
    }
}

#[test]
fn at_most_256_connects_are_under_way_a_worker() {
    for workers in [1, 2] {
        let most = Rc::new(Cell::new(0));
        let plan = Plan { workers, ..even("1000000/s", ms(1)) };
        let wire = Wire { delay: ms(10), ..Wire::default() };
        let server = Doorkeeper { under_way: 0, most: Rc::clone(&most) };
        let run = run(Simulation::new(plan, server).over(wire));
        assert_eq!(most.get(), 256 * workers as usize);
        assert_eq!(run.recorder.counts().ok, 1000);
        // The wait for the pace of connecting is a wait, but not at the plan's limit.
        assert_eq!(run.recorder.counts().waited_for_connection, 0);
        assert_eq!(count(&run, |sample| sample.schedule_lag() > Span::ZERO), 0);
        let rounds = |n: u64| ms(20 * n);
        let last = run.samples.iter().map(|sample| sample.sent.unwrap()).max().unwrap();
        assert!(last <= Timestamp::ZERO + rounds(1000 / (256 * u64::from(workers)) + 1) + ms(1), "{last:?}");
    }
}

#[test]
fn the_first_connection_to_become_free_serves_the_head_of_the_line() {
    // Connections but the first stay unanswered. Requests at 0, 10, 20 and 30 ms take 50 ms each.
    let door = |connection, _| if connection == 0 { Acceptance::Accept } else { Acceptance::Ignore };
    struct Slow<F>(Door<F>);
    impl<F: FnMut(usize, usize) -> Acceptance> Server for Slow<F> {
        fn connect(&mut self, now: Timestamp, connection: usize, address: usize) -> Acceptance {
            self.0.connect(now, connection, address)
        }
        fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
            net.send(now + ms(50), connection, OK);
        }
    }
    let plan = Plan { connect_timeout: ms(130), ..even("100/s", ms(40)) };
    let run = simulate(plan, Slow(Door(door)));
    // The connects begun at 10, 20 and 30 ms fail at 140, 150 and 160 ms. By then the one sound
    // connection has served the requests of 10 and 20 ms, at 50 and 100 ms, and none of them falls
    // with a connect while another is left for it; the last one is served at 150 ms.
    let sent: Vec<Option<Timestamp>> = run.by_seq().iter().map(|sample| sample.sent).collect();
    assert_eq!(sent, [0, 50, 100, 150].map(|at| Some(at_ms(at))));
    assert_eq!(outcomes(&run), [Outcome::Ok; 4]);
}

#[test]
fn a_connect_that_fails_takes_the_head_only_when_no_other_is_left_for_it() {
    // Two requests wait for two connects. The first connect is refused: somebody must fall, and it
    // is the one that waited longest. The second connect serves the other.
    let door = |connection, _| if connection == 0 { Acceptance::Refuse } else { Acceptance::Accept };
    let wire = Wire { delay: ms(10), ..Wire::default() };
    let run = run(Simulation::new(even("100/s", ms(20)), Door(door)).over(wire));
    assert_eq!(outcomes(&run), [Outcome::Failed(Failure::ConnectRefused), Outcome::Ok]);
    assert_eq!((run.by_seq()[0].end, run.by_seq()[1].sent), (at_ms(20), Some(at_ms(30))));
}

#[test]
fn the_idle_connection_used_last_is_taken_first() {
    let log = plimsoll_sim::testing::Log::default();
    // Two requests at once need two connections; all later ones come when both are idle.
    let mut plan = even("100/s", ms(60));
    plan.connections = 2;
    let run = simulate(
        plan,
        log.of_requests(plimsoll_sim::testing::answers_after(&[ms(15), ms(9), ms(1), ms(1), ms(1), ms(1)])),
    );
    let connections: Vec<usize> = log.entries().iter().map(|(_, connection)| *connection).collect();
    // At 15 ms the first one becomes idle, at 19 ms the second, which serves all that follows.
    assert_eq!(connections, [0, 1, 1, 1, 1, 1]);
    assert_eq!(run.recorder.counts().ok, 6);
}

/// Ten requests to a server with two addresses.
fn two_addresses(door: fn(usize, usize) -> Acceptance) -> plimsoll_sim::Run {
    let plan = Plan { connect_timeout: ms(100), ..even("2/s", ms(5000)) };
    let wire = Wire { delay: ms(1), ..Wire::default() };
    run(Simulation::new(plan, Door(door)).over(wire).with_addresses(2))
}

#[test]
fn the_next_address_is_tried_when_the_first_refuses() {
    let run = two_addresses(|_, address| if address == 0 { Acceptance::Refuse } else { Acceptance::Accept });
    assert_eq!(run.recorder.counts().ok, 10);
    assert_eq!(run.by_seq()[0].blocked(), ms(4), "a refusal and a connect");
    assert_eq!(run.by_seq()[1].blocked(), Span::ZERO);
    assert_eq!(run.connections.by_address, [(run.world.addresses()[1].clone(), 1)]);
}

#[test]
fn the_next_address_is_tried_when_the_first_is_a_black_hole() {
    let run = two_addresses(|_, address| if address == 0 { Acceptance::Ignore } else { Acceptance::Accept });
    assert_eq!(run.recorder.counts().ok, 10);
    assert_eq!(run.by_seq()[0].blocked(), ms(102), "the whole connect timeout, and a connect");
    assert_eq!((run.world.connections(), run.world.sockets()), (2, 1));
}

#[test]
fn the_first_address_alone_is_used_where_it_answers() {
    let run = two_addresses(|_, _| Acceptance::Accept);
    assert_eq!(run.by_seq()[0].blocked(), ms(2));
    assert_eq!(run.connections.by_address, [(run.world.addresses()[0].clone(), 1)]);
}

#[test]
fn a_request_fails_when_every_address_has_failed_it_once() {
    let run = two_addresses(|_, _| Acceptance::Refuse);
    assert_eq!(failures(&run), [(Failure::ConnectRefused, 10)]);
    assert_eq!(run.world.connections(), 20);
    assert_eq!(run.recorder.counts().failed_unsent, 10);
}

#[test]
fn an_address_that_fails_later_gives_way_to_the_other() {
    // The first address takes one connection and closes it; then it refuses.
    struct Moves;
    impl Server for Moves {
        fn connect(&mut self, _: Timestamp, connection: usize, address: usize) -> Acceptance {
            if address == 1 || connection == 0 { Acceptance::Accept } else { Acceptance::Refuse }
        }
        fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
            net.send(now, connection, OK);
            if connection == 0 {
                net.close(now + ms(10), connection);
            }
        }
    }
    let run = run(Simulation::new(even("10/s", ms(500)), Moves).with_addresses(2));
    assert_eq!(outcomes(&run), [Outcome::Ok; 5]);
    assert_eq!(run.connections.by_address.len(), 2);
    assert_eq!(run.world.connections(), 3);
}
