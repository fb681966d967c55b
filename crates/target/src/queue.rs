//! The queue: first come, first served, by a number of workers, exact to the nanosecond.
//!
//! A machine without a clock: the caller says when a request arrives and asks what is done by a
//! moment. What comes out depends on the arrivals and service times alone, never on when or how
//! often the caller asks, so a target that is late with an answer is not late with the next one.
//! The target drives it by the real clock, a simulation by virtual time.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use plimsoll_core::{Span, Timestamp};

use crate::stall::Stall;

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is being served or waits for its turn.
    Queued,
    /// All workers are busy and the waiting room is full.
    Rejected,
}

/// A request that has been served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// What the caller gave on arrival.
    pub job: T,
    /// When it arrived.
    pub arrived: Timestamp,
    /// When its service began; ≥ `arrived`.
    pub started: Timestamp,
    /// When its service was done; ≥ `started`.
    pub done: Timestamp,
}

impl<T> Departure<T> {
    /// Time in the system, waiting and service.
    pub fn sojourn(&self) -> Span {
        self.done.since(self.arrived)
    }
}

/// A first-come-first-served queue before a number of workers, with optional stalls.
///
/// Call `arrive` with moments that never go back; `next_event` says when the next departure is due
/// and `complete` hands out, in order of their moments, the departures due by a moment.
#[derive(Debug)]
pub struct Queue<T> {
    workers: usize,
    room: usize,
    stall: Option<Stall>,
    waiting: VecDeque<Waiting<T>>,
    /// At most `workers` entries.
    serving: BinaryHeap<Reverse<Serving<T>>>,
    /// Departures worked out and not yet handed out, in order.
    done: VecDeque<Departure<T>>,
    /// Services begun so far: breaks ties between departures of one moment.
    begun: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    job: T,
    arrived: Timestamp,
    service: Span,
}

#[derive(Debug)]
struct Serving<T> {
    order: u64,
    departure: Departure<T>,
}

impl<T> Queue<T> {
    /// A queue with `workers` ≥ 1 workers and room for `room` waiting requests beside those in
    /// service.
    ///
    /// # Panics
    /// When there is no worker.
    pub fn new(workers: usize, room: usize, stall: Option<Stall>) -> Self {
        assert!(workers > 0, "a queue without a worker serves nobody");
        Self {
            workers,
            room,
            stall,
            waiting: VecDeque::new(),
            serving: BinaryHeap::new(),
            done: VecDeque::new(),
            begun: 0,
        }
    }

    /// Takes in `job`, which arrives at `now` and needs `service` of work. What arrives in a stall
    /// is taken in when the stall ends: nothing is read before. A worker that becomes free at the
    /// moment of an arrival is free for it.
    pub fn arrive(&mut self, now: Timestamp, job: T, service: Span) -> Admission {
        let taken_in = self.stall.and_then(|stall| stall.thaw(now)).unwrap_or(now);
        self.settle(taken_in);
        if self.serving.len() < self.workers {
            self.begin(job, now, taken_in, service);
        } else if self.waiting.len() < self.room {
            self.waiting.push_back(Waiting { job, arrived: now, service });
        } else {
            return Admission::Rejected;
        }
        Admission::Queued
    }

    /// The moment of the next departure, `None` in an empty system.
    pub fn next_event(&self) -> Option<Timestamp> {
        let done = self.done.front().map(|departure| departure.done);
        done.or_else(|| self.serving.peek().map(|Reverse(serving)| serving.departure.done))
    }

    /// The next departure due by `now`.
    pub fn complete(&mut self, now: Timestamp) -> Option<Departure<T>> {
        if self.done.is_empty() {
            self.depart(now);
        }
        match self.done.front() {
            Some(departure) if departure.done <= now => self.done.pop_front(),
            _ => None,
        }
    }

    /// Requests in the system: waiting, in service, or done and not handed out.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.serving.len() + self.done.len()
    }

    /// True when nothing waits, is in service or is to be handed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Works out all that happens up to and at `now`.
    fn settle(&mut self, now: Timestamp) {
        while self.depart(now) {}
    }

    /// Ends the service that ends first, if it ends by `now`, and begins the next at that moment.
    fn depart(&mut self, now: Timestamp) -> bool {
        match self.serving.peek() {
            Some(Reverse(serving)) if serving.departure.done <= now => {}
            _ => return false,
        }
        let Some(Reverse(Serving { departure, .. })) = self.serving.pop() else { return false };
        if let Some(Waiting { job, arrived, service }) = self.waiting.pop_front() {
            self.begin(job, arrived, departure.done, service);
        }
        self.done.push_back(departure);
        true
    }

    fn begin(&mut self, job: T, arrived: Timestamp, started: Timestamp, service: Span) {
        let done = match self.stall {
            Some(stall) => stall.finish(started, service),
            None => started.saturating_add(service),
        };
        let order = self.begun;
        self.begun += 1;
        self.serving.push(Reverse(Serving { order, departure: Departure { job, arrived, started, done } }));
    }
}

impl<T> Ord for Serving<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.departure.done, self.order).cmp(&(other.departure.done, other.order))
    }
}

impl<T> PartialOrd for Serving<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Serving<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Serving<T> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ns: u64) -> Timestamp {
        Timestamp::from_ns(ns)
    }

    /// Arrival moments from gaps, each with its service time.
    fn arrivals(steps: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let moments = steps.iter().scan(0, |now, (gap, _)| {
            *now += gap;
            Some(*now)
        });
        moments.zip(steps).map(|(moment, (_, service))| (moment, *service)).collect()
    }

    /// Runs the machine, asking for departures before an arrival only where `ask` says so.
    /// Returns (started, done) by arrival, `None` for the rejected.
    fn run(queue: &mut Queue<usize>, arrivals: &[(u64, u64)], ask: &[bool]) -> Vec<Option<(u64, u64)>> {
        let mut result = vec![None; arrivals.len()];
        let mut last = 0;
        let mut take = |queue: &mut Queue<usize>, now| {
            while let Some(departure) = queue.complete(now) {
                assert!(departure.done <= now && departure.done.as_ns() >= last);
                last = departure.done.as_ns();
                result[departure.job] = Some((departure.started.as_ns(), last));
            }
            assert!(queue.next_event().is_none_or(|next| next > now));
        };
        for (index, (moment, service)) in arrivals.iter().enumerate() {
            if ask[index % ask.len()] {
                take(queue, at(*moment));
            }
            queue.arrive(at(*moment), index, Span::from_ns(*service));
        }
        take(queue, Timestamp::MAX);
        assert!(queue.is_empty());
        result
    }

    /// Walks from stall to stall: the slow oracle of `Stall::finish`.
    fn walk(stall: Option<(u64, u64)>, start: u64, mut work: u64) -> u64 {
        let Some((every, length)) = stall else { return start + work };
        let mut now = start;
        loop {
            let end = (now / every + 1) * every;
            let left = (end - length).saturating_sub(now);
            if work < left {
                return now + work;
            }
            work -= left;
            now = end;
        }
    }

    /// Kiefer and Wolfowitz (On the theory of queues with many servers, 1955) as a list of the
    /// moments at which workers become free, with a full waiting room counted out by brute force.
    fn oracle(
        arrivals: &[(u64, u64)],
        workers: usize,
        room: usize,
        stall: Option<(u64, u64)>,
    ) -> Vec<Option<(u64, u64)>> {
        let mut free = vec![0u64; workers];
        let mut result: Vec<Option<(u64, u64)>> = Vec::new();
        for (moment, service) in arrivals {
            let taken_in = walk(stall, *moment, 0);
            let first = (0..workers).min_by_key(|index| free[*index]).expect("a worker");
            let started = free[first].max(taken_in);
            let waiting = result.iter().flatten().filter(|(started, _)| *started > taken_in).count();
            if started > taken_in && waiting >= room {
                result.push(None);
                continue;
            }
            free[first] = walk(stall, started, *service);
            result.push(Some((started, free[first])));
        }
        result
    }

    fn steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
        // Small numbers, so that ties of every kind come up often.
        prop::collection::vec((0u64..12, 0u64..30), 1..60)
    }

    proptest! {
        #[test]
        fn one_worker_follows_lindleys_recursion(steps in steps(), ask in prop::collection::vec(any::<bool>(), 1..5)) {
            let arrivals = arrivals(&steps);
            let mut queue = Queue::new(1, usize::MAX, None);
            // Lindley (The theory of queues with a single server, 1952): the wait of the next is
            // max(0, wait + service − gap).
            let mut wait = 0u64;
            let mut expected = Vec::new();
            for (index, (moment, service)) in arrivals.iter().enumerate() {
                expected.push(Some((moment + wait, moment + wait + service)));
                if let Some((next, _)) = arrivals.get(index + 1) {
                    wait = (wait + service).saturating_sub(next - moment);
                }
            }
            prop_assert_eq!(run(&mut queue, &arrivals, &ask), expected);
        }

        #[test]
        fn several_workers_with_stalls_and_a_bound_follow_kiefer_and_wolfowitz(
            steps in steps(),
            ask in prop::collection::vec(any::<bool>(), 1..5),
            workers in 1usize..5,
            room in prop_oneof![Just(usize::MAX), 0usize..4],
            stall in prop::option::of((2u64..40).prop_flat_map(|every| (Just(every), 1..every))),
        ) {
            let arrivals = arrivals(&steps);
            let law = stall.and_then(|(every, length)| Stall::new(Span::from_ns(every), Span::from_ns(length)));
            let mut queue = Queue::new(workers, room, law);
            prop_assert_eq!(run(&mut queue, &arrivals, &ask), oracle(&arrivals, workers, room, stall));
        }
    }

    #[test]
    fn departures_of_one_moment_keep_the_order_of_arrival() {
        let mut queue = Queue::new(10, 0, None);
        for job in 0..10 {
            assert_eq!(queue.arrive(at(5), job, Span::from_ns(7)), Admission::Queued);
        }
        assert_eq!(queue.arrive(at(5), 10, Span::ZERO), Admission::Rejected);
        assert_eq!(queue.next_event(), Some(at(12)));
        assert_eq!(queue.complete(at(11)), None);
        let order: Vec<i32> = std::iter::from_fn(|| queue.complete(at(12))).map(|d| d.job).collect();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
    }
}
