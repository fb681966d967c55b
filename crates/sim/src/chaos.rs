//! A server that does everything a server may do wrong, and plans to send against it: both functions
//! of a seed.

use plimsoll_core::plan::{LatePolicy, Load, Plan, Retry};
use plimsoll_core::random::{Sequence, Stream};
use plimsoll_core::{ArrivalLaw, Span, Timestamp};

use crate::drive::Simulation;
use crate::plans::{open, plan};
use crate::server::{Acceptance, Net, OK, Server};
use crate::wire::Wire;

/// Random choices.
#[derive(Debug)]
pub struct Dice(Sequence);

impl Dice {
    /// The dice of a seed for one purpose.
    pub fn new(seed: u64, purpose: &str) -> Self {
        Self(Sequence::new(Stream::new(seed, purpose)))
    }

    /// A whole number in `least..=most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        (least + (self.0.unit() * (most - least + 1) as f64) as u64).min(most)
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.0.unit() < probability
    }

    /// A span in microseconds.
    pub fn span_us(&mut self, least: u64, most: u64) -> Span {
        Span::from_us(self.between(least, most))
    }
}

/// What [`simulation`] made, besides the simulation itself.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The server sends bytes nobody asked for, which may pass for an answer.
    pub unasked_bytes: bool,
    /// How much later than asked the machine wakes, all in all.
    pub late: Span,
    /// When it is interrupted first.
    pub interrupt: Option<Timestamp>,
}

/// The simulation of a seed.
pub fn simulation(seed: u64) -> (Simulation, Facts) {
    let mut dice = Dice::new(seed, "storm");
    let plan = random_plan(&mut dice, seed);
    let wire = random_wire(&mut dice);
    let late = wire.late_wakes.iter().fold(Span::ZERO, |sum, (_, late)| sum + *late);
    let unasked_bytes = dice.chance(0.5);
    let server =
        Chaos { badness: dice.between(0, 10) as f64 / 10.0, unasked_bytes, dice: Dice::new(seed, "server") };
    let addresses = dice.between(1, 3) as usize;
    let interrupt = dice.chance(0.2).then(|| Timestamp::ZERO + dice.span_us(0, 400_000));
    let mut simulation = Simulation::new(plan, server).over(wire).with_addresses(addresses);
    if let Some(at) = interrupt {
        simulation = simulation.interrupt_at(at);
        if dice.chance(0.5) {
            simulation = simulation.interrupt_at(at + dice.span_us(0, 100_000));
        }
    }
    (simulation, Facts { unasked_bytes, late, interrupt })
}

fn random_plan(dice: &mut Dice, seed: u64) -> Plan {
    let length = dice.span_us(20_000, 400_000);
    let count = dice.chance(0.3).then(|| dice.between(1, 100));
    let mut p = if dice.chance(0.6) {
        let arrivals = if dice.chance(0.5) { ArrivalLaw::Even } else { ArrivalLaw::Poisson };
        let mut p = open(&format!("{}/s", dice.between(5, 2_000)), arrivals, length);
        if let Load::Open { requests, .. } = &mut p.load {
            *requests = count;
        }
        p.late = if dice.chance(0.3) { LatePolicy::Skip(dice.span_us(0, 50_000)) } else { LatePolicy::Send };
        p.max_in_flight = dice.chance(0.3).then(|| dice.between(3, 30));
        p
    } else {
        let clients = dice.between(3, 12) as u32;
        let duration = (count.is_none() || dice.chance(0.5)).then_some(length);
        plan(Load::Closed { clients, duration, requests: count })
    };
    p.workers = dice.between(1, 3) as u32;
    p.connections = dice.between(3, 25);
    p.seed = seed;
    // Without a timeout a run that only a count ends might last for ever.
    let endless = matches!(p.load, Load::Closed { duration: None, .. });
    p.timeout = if !endless && dice.chance(0.2) { Span::MAX } else { dice.span_us(2_000, 80_000) };
    p.connect_timeout = dice.span_us(2_000, 60_000);
    p.drain = dice.span_us(0, 100_000);
    p.retry = dice
        .chance(0.4)
        .then(|| Retry { after: dice.span_us(500, 30_000), copies: dice.between(2, 4) as u32 });
    if dice.chance(0.3) {
        p.warmup = dice.span_us(1_000, 100_000);
    }
    p
}

fn random_wire(dice: &mut Dice) -> Wire {
    let mut wire = Wire { stamps: dice.chance(0.7), delay: dice.span_us(0, 3_000), ..Wire::default() };
    if dice.chance(0.3) {
        (wire.write_bytes, wire.write_pause) = (dice.between(1, 40) as usize, dice.span_us(0, 50));
    }
    if dice.chance(0.3) {
        (wire.read_bytes, wire.read_pause) = (dice.between(1, 50) as usize, dice.span_us(0, 50));
    }
    if dice.chance(0.3) {
        wire.reading = Span::from_ns(dice.between(1, 200));
    }
    while dice.chance(0.3) {
        wire.late_wakes.push((Timestamp::ZERO + dice.span_us(0, 400_000), dice.span_us(1, 20_000)));
    }
    wire
}

/// Most of its answers are well made and soon there while `badness` is 0, few when it is 1.
struct Chaos {
    badness: f64,
    unasked_bytes: bool,
    dice: Dice,
}

impl Chaos {
    fn bad(&mut self) -> bool {
        self.dice.chance(self.badness * 0.5)
    }

    /// Never at once: an answer that takes no time would let a closed loop stand still in time.
    fn soon(&mut self, now: Timestamp) -> Timestamp {
        let most = if self.bad() { 90_000 } else { 3_000 };
        now + self.dice.span_us(10, most)
    }

    fn leave(&mut self, at: Timestamp, connection: usize, net: &mut Net) {
        let at = at + self.dice.span_us(0, 3);
        if self.dice.chance(0.5) { net.close(at, connection) } else { net.reset(at, connection) }
    }

    fn answer(&mut self) -> Vec<u8> {
        const CHUNKED: &[u8] =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n";
        match self.dice.between(0, 4) {
            0 => CHUNKED.to_vec(),
            1 => b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec(),
            2 => b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_vec(),
            _ => OK.to_vec(),
        }
    }
}

impl Server for Chaos {
    fn connect(&mut self, _: Timestamp, _: usize, _: usize) -> Acceptance {
        if !self.bad() {
            return Acceptance::Accept;
        }
        match self.dice.between(0, 3) {
            0 => Acceptance::Refuse,
            1 => Acceptance::Ignore,
            _ => Acceptance::Later(self.dice.span_us(0, 80_000)),
        }
    }

    fn accepted(&mut self, now: Timestamp, connection: usize, net: &mut Net) {
        if self.bad() && self.dice.chance(0.3) {
            let at = now + self.dice.span_us(0, 20_000);
            if self.unasked_bytes && self.dice.chance(0.5) {
                net.send(at, connection, b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n");
            }
            self.leave(at, connection, net);
        }
    }

    fn part(&mut self, now: Timestamp, connection: usize, _: usize, net: &mut Net) {
        if self.dice.chance(self.badness * 0.02) {
            self.leave(now, connection, net);
        }
    }

    fn request(&mut self, now: Timestamp, connection: usize, _: &[u8], net: &mut Net) {
        let at = self.soon(now);
        let mut answer = self.answer();
        if !self.bad() {
            return net.send(at, connection, answer);
        }
        match self.dice.between(0, 8) {
            0 => {}
            1 => self.leave(at, connection, net),
            2 | 3 => {
                answer.truncate(self.dice.between(0, answer.len() as u64) as usize);
                net.send(at, connection, answer);
                self.leave(at, connection, net);
            }
            4 => {
                net.send(at, connection, (0..60).map(|_| self.dice.between(0, 255) as u8).collect::<Vec<_>>())
            }
            5 => {
                let floods = self.dice.between(1, 150) as usize;
                net.send(at, connection, b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n".repeat(floods));
                net.send(at, connection, answer);
            }
            6 => {
                net.send(at, connection, b"HTTP/1.1 200 OK\r\n\r\nuntil the end");
                self.leave(at, connection, net);
            }
            7 if self.unasked_bytes => net.send(at, connection, [answer, OK.to_vec()].concat()),
            _ => {
                net.send(at, connection, answer);
                let at = at + self.dice.span_us(0, 5_000);
                self.leave(at, connection, net);
            }
        }
    }
}
