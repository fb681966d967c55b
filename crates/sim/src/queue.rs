//! A first-come, first-served queue with one or several servers, as events: the simulated service
//! whose every answer queueing theory knows.

use std::collections::VecDeque;

use plimsoll_core::random::{Sequence, Stream};
use plimsoll_core::{Span, Timestamp};

use crate::server::{Net, OK, Server};

/// The law of service times.
#[derive(Clone, Copy, Debug)]
pub enum Service {
    /// Always the same.
    Fixed(Span),
    /// Exponential with this mean, rounded to whole nanoseconds.
    Exponential(Span),
}

/// Service times in the order of arrivals; the oracle draws the same ones.
#[derive(Clone, Debug)]
pub struct ServiceTimes {
    law: Service,
    numbers: Sequence,
}

impl ServiceTimes {
    /// The stream of a law for a seed.
    pub fn new(law: Service, seed: u64) -> Self {
        Self { law, numbers: Sequence::new(Stream::new(seed, "service")) }
    }
}

impl Iterator for ServiceTimes {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        Some(match self.law {
            Service::Fixed(span) => span,
            Service::Exponential(mean) => {
                Span::from_ns((self.numbers.exponential() * mean.as_ns() as f64) as u64)
            }
        })
    }
}

/// The queue. A request's service time is drawn when it arrives, so that it belongs to the request
/// and not to the order in which servers become free.
#[derive(Debug)]
pub struct Queue {
    times: ServiceTimes,
    free: usize,
    waiting: VecDeque<(usize, Span)>,
    in_service: Vec<Option<usize>>,
}

impl Queue {
    /// A queue with `servers` servers.
    pub fn new(law: Service, servers: usize, seed: u64) -> Self {
        Self {
            times: ServiceTimes::new(law, seed),
            free: servers,
            waiting: VecDeque::new(),
            in_service: Vec::new(),
        }
    }

    fn serve(&mut self, now: Timestamp, connection: usize, span: Span, net: &mut Net) {
        self.free -= 1;
        let place = self.in_service.iter().position(Option::is_none).unwrap_or_else(|| {
            self.in_service.push(None);
            self.in_service.len() - 1
        });
        self.in_service[place] = Some(connection);
        net.wake(now + span, place as u64);
    }
}

impl Server for Queue {
    fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
        let span = self.times.next().unwrap_or(Span::ZERO);
        if self.free > 0 {
            self.serve(now, connection, span, net);
        } else {
            self.waiting.push_back((connection, span));
        }
    }

    fn wake(&mut self, now: Timestamp, place: u64, net: &mut Net) {
        if let Some(connection) = self.in_service[place as usize].take() {
            net.send(now, connection, OK);
        }
        self.free += 1;
        if let Some((connection, span)) = self.waiting.pop_front() {
            self.serve(now, connection, span, net);
        }
    }
}
