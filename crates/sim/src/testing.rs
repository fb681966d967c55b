//! What the tests share: short plans, plain servers, and the laws that every run obeys.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use plimsoll_core::plan::{Load, Plan};
use plimsoll_core::{ArrivalLaw, Failure, Outcome, Sample, Span, Timestamp};
use plimsoll_stats::Counts;

use crate::drive::{Run, Simulation};
use crate::plans::{open, plan};
use crate::server::{Acceptance, Answers, Net, OK, Server};

/// The moment `ms` milliseconds after the start.
pub fn at_ms(ms: u64) -> Timestamp {
    Timestamp::ZERO + Span::from_ms(ms)
}

/// `ms` milliseconds.
pub fn ms(ms: u64) -> Span {
    Span::from_ms(ms)
}

/// Evenly spaced arrivals.
pub fn even(rate: &str, length: Span) -> Plan {
    open(rate, ArrivalLaw::Even, length)
}

/// Evenly spaced arrivals over so many connections.
pub fn even_over(connections: u64, rate: &str, length: Span) -> Plan {
    Plan { connections, ..even(rate, length) }
}

/// `clients` clients that send so many requests in all.
pub fn closed_count(clients: u32, requests: u64) -> Plan {
    let load = Load::Closed { clients, duration: None, requests: Some(requests) };
    Plan { connections: clients.into(), ..plan(load) }
}

/// Answers every request so long after it came.
pub fn after(span: Span) -> impl Server {
    Answers(move |now, connection, net: &mut Net| net.send(now + span, connection, OK))
}

/// Reads requests and never answers.
pub fn silent() -> impl Server {
    Answers(|_, _, _: &mut Net| {})
}

/// Runs `plan` against `server` over a perfect wire and checks the laws.
pub fn simulate(plan: Plan, server: impl Server + 'static) -> Run {
    run(Simulation::new(plan, server))
}

/// Runs it and checks the laws.
///
/// # Panics
/// When one is broken.
pub fn run(simulation: Simulation) -> Run {
    let plan = simulation.plan.clone();
    let run = simulation.run();
    assert_laws(&plan, &run);
    run
}

/// Warm-up and measured part together.
pub fn all_counts(run: &Run) -> Counts {
    let mut counts = *run.recorder.warmup();
    counts.merge(&run.recorder.counts());
    counts
}

/// What holds of every run, whatever the server did.
///
/// # Panics
/// When it does not.
pub fn assert_laws(plan: &Plan, run: &Run) {
    let counts = all_counts(run);
    counts.assert_conserved();
    run.samples.iter().for_each(Sample::assert_lawful);
    let seqs: HashSet<u64> = run.samples.iter().map(|sample| sample.seq).collect();
    assert_eq!(seqs.len(), run.samples.len(), "a request ended twice");
    // Requests cut off by the drain's end are recorded, and the dispatcher is not told of them.
    assert_eq!(run.samples.len() as u64 + counts.unfinished, counts.due, "{counts:?}");
    assert!(counts.attempts >= counts.sent, "{counts:?}");
    assert!(run.world.requests() <= counts.attempts, "{} of {counts:?}", run.world.requests());
    let known = run.connections.established as usize + run.connecting;
    assert_eq!(run.world.sockets(), known, "sockets the pool has lost sight of, or knows and has not");
    assert!(run.connections.peak <= plan.connections, "{:?}", run.connections);
    assert!(run.recorder.in_flight_max() <= counts.due);
    if plan.timeout != Span::MAX && plan.retry.is_none() {
        let timed_out = run.samples.iter().filter(|sample| sample.outcome == Outcome::TimedOut);
        timed_out.for_each(|sample| assert_eq!(sample.service(), Some(plan.timeout), "{sample:?}"));
    }
}

/// Every request that left came to the server whole.
///
/// # Panics
/// When one did not.
pub fn assert_all_arrived(run: &Run) {
    assert_eq!(run.world.requests(), all_counts(run).attempts);
}

/// How the requests ended, in their order.
pub fn outcomes(run: &Run) -> Vec<Outcome> {
    run.by_seq().iter().map(|sample| sample.outcome).collect()
}

/// Why requests failed and how many did for that reason.
pub fn failures(run: &Run) -> Vec<(Failure, u64)> {
    let mut failures = run.recorder.total().failures;
    failures.sort_unstable();
    failures
}

/// How many samples satisfy `condition`.
pub fn count(run: &Run, condition: impl Fn(&Sample) -> bool) -> usize {
    run.samples.iter().filter(|sample| condition(sample)).count()
}

/// Answers the n-th request so long after it came as the n-th of `spans` says; further ones never.
pub fn answers_after(spans: &[Span]) -> impl Server + use<> {
    let mut spans = Vec::from(spans).into_iter();
    Answers(move |now, connection, net: &mut Net| {
        if let Some(span) = spans.next() {
            net.send(now + span, connection, OK);
        }
    })
}

/// What a server was told and when, for looking at after the run.
#[derive(Clone, Debug, Default)]
pub struct Log(Rc<RefCell<Vec<(Timestamp, usize)>>>);

impl Log {
    /// Notes what happened on a connection, or to an address.
    pub fn note(&self, now: Timestamp, number: usize) {
        self.0.borrow_mut().push((now, number));
    }

    /// Everything noted.
    pub fn entries(&self) -> Vec<(Timestamp, usize)> {
        self.0.borrow().clone()
    }

    /// Notes the requests that come to `server`, with their connections.
    pub fn of_requests<S: Server + 'static>(&self, server: S) -> impl Server + use<S> {
        Watched { log: self.clone(), server }
    }
}

struct Watched<S> {
    log: Log,
    server: S,
}

impl<S: Server> Server for Watched<S> {
    fn connect(&mut self, now: Timestamp, connection: usize, address: usize) -> Acceptance {
        self.server.connect(now, connection, address)
    }

    fn request(&mut self, now: Timestamp, connection: usize, request: &[u8], net: &mut Net) {
        self.log.note(now, connection);
        self.server.request(now, connection, request, net);
    }

    fn wake(&mut self, now: Timestamp, tag: u64, net: &mut Net) {
        self.server.wake(now, tag, net);
    }
}

/// Decides about each connection by its number and its address; answers at once.
pub struct Door<F>(pub F);

impl<F: FnMut(usize, usize) -> Acceptance> Server for Door<F> {
    fn connect(&mut self, _: Timestamp, connection: usize, address: usize) -> Acceptance {
        (self.0)(connection, address)
    }

    fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
        net.send(now, connection, OK);
    }
}
