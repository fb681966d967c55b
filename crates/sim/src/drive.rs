//! Drives one or several workers through a whole run in one world.

use std::cell::RefCell;
use std::rc::Rc;

use plimsoll_core::dispatch::{Action, Dispatcher};
use plimsoll_core::plan::{Load, Plan, Request};
use plimsoll_core::share::{FIRST_WINDOW_LENGTH, Share, Times, dispatcher};
use plimsoll_core::{Sample, Timestamp};
use plimsoll_engine::execute::Execute;
use plimsoll_engine::pool::{ConnectionCounts, Pool, PoolLimits, TargetSetup};
use plimsoll_engine::session::SessionSetup;
use plimsoll_engine::system::System;
use plimsoll_engine::worker::{Rules, Wake, Worker};
use plimsoll_stats::{Recorder, RecorderConfig};

use crate::server::Server;
use crate::wire::Wire;
use crate::world::{SimSystem, World};

/// So many turns of one worker are more than any run here needs.
const TURNS_AT_MOST: u64 = 50_000_000;

/// A run to be simulated.
pub struct Simulation {
    /// What is run.
    pub plan: Plan,
    /// Against what.
    pub server: Box<dyn Server>,
    /// Over what.
    pub wire: Wire,
    /// The number of addresses the server's name has.
    pub addresses: usize,
    /// When the user interrupts it: the first time to stop, the second time to leave at once.
    pub interrupts: Vec<Timestamp>,
    /// When whoever watches it has enough: the schedule ends, and the drain follows as planned.
    pub enough: Option<Timestamp>,
}

/// A run that was simulated.
pub struct Run {
    /// Every request that ended before the drain did, in the order of their ends.
    pub samples: Vec<Sample>,
    /// What the workers recorded, put together.
    pub recorder: Recorder,
    /// When the last worker had finished.
    pub finished: Timestamp,
    /// The world as it was left.
    pub world: World,
    /// Connections of all workers at their ends.
    pub connections: ConnectionCounts,
    /// Connections that were being opened then.
    pub connecting: usize,
    /// Connections that stood before the start.
    pub opened_ahead: u64,
    /// The busiest worker's share of its time inside the rate window that was work: readings of the clock.
    pub busy_ratio: Option<f64>,
}

type SimWorker = Worker<SimSystem, Pool<SimSystem>, Tap>;

impl Simulation {
    /// `plan` against `server` over a perfect wire, one address.
    pub fn new(plan: Plan, server: impl Server + 'static) -> Self {
        Self {
            plan,
            server: Box::new(server),
            wire: Wire::default(),
            addresses: 1,
            interrupts: Vec::new(),
            enough: None,
        }
    }

    /// Over this wire.
    #[must_use]
    pub fn over(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// A server with so many addresses.
    #[must_use]
    pub fn with_addresses(mut self, addresses: usize) -> Self {
        self.addresses = addresses;
        self
    }

    /// Whoever watches it has enough at `at`.
    #[must_use]
    pub fn enough_at(mut self, at: Timestamp) -> Self {
        self.enough = Some(at);
        self
    }

    /// The user interrupts it at `at`.
    #[must_use]
    pub fn interrupt_at(mut self, at: Timestamp) -> Self {
        self.interrupts.push(at);
        self
    }

    /// Runs the plan's number of workers to their ends, each closed loop's connections opened
    /// before the start as the engine does.
    ///
    /// # Panics
    /// When the account is not conserved, or the run does not come to an end.
    pub fn run(self) -> Run {
        let world = World::new(self.server, self.wire, self.addresses);
        let times = Times::of(&self.plan);
        let config = RecorderConfig {
            operations: self.plan.operations.len(),
            start: times.start,
            window_end: times.end,
            window_length: FIRST_WINDOW_LENGTH,
        };
        let samples = Rc::new(RefCell::new(Vec::new()));
        let mut workers: Vec<Option<SimWorker>> = (0..self.plan.workers)
            .map(|number| Some(worker(&self.plan, number, &world, config, times.end, &samples)))
            .collect();
        let ahead = workers.iter_mut().flatten().enumerate();
        let opened_ahead = ahead.map(|(number, worker)| open_ahead(&self.plan, number, worker)).sum();
        world.start();
        let mut run = Run {
            samples: Vec::new(),
            recorder: Recorder::new(config),
            finished: Timestamp::ZERO,
            world: world.clone(),
            connections: ConnectionCounts::default(),
            connecting: 0,
            opened_ahead,
            busy_ratio: None,
        };
        let mut interrupts = self.interrupts.iter().copied().enumerate().peekable();
        let mut enough = self.enough;
        let mut wakes: Vec<Option<Wake>> = vec![None; workers.len()];
        let mut stirred = vec![true; workers.len()];
        let mut turns = 0;
        while workers.iter().any(Option::is_some) {
            for (number, place) in workers.iter_mut().enumerate() {
                if !std::mem::take(&mut stirred[number]) {
                    continue;
                }
                let Some(worker) = place else { continue };
                turns += 1;
                assert!(turns < TURNS_AT_MOST, "this run does not come to an end");
                wakes[number] = worker.begin_turn();
                if wakes[number].is_none() {
                    world.leave(number);
                    run.add(place.take());
                }
            }
            let Some(mut until) = wakes.iter().flatten().map(|wake| wake.due.min(wake.timer)).min() else {
                break;
            };
            until = until.min(interrupts.peek().map_or(Timestamp::MAX, |(_, at)| *at));
            until = until.min(enough.unwrap_or(Timestamp::MAX));
            world.advance(until);
            let interrupt = interrupts.next_if(|(_, at)| *at <= world.now());
            let ends = enough.take_if(|at| *at <= world.now()).is_some();
            for (number, worker) in workers.iter_mut().enumerate() {
                let Some(worker) = worker else { continue };
                let woken = wakes[number].is_some_and(|wake| wake.due.min(wake.timer) <= world.now());
                if woken || ends || interrupt.is_some() || world.has_ready(number) {
                    worker.end_turn();
                    stirred[number] = true;
                }
                if ends {
                    worker.end_schedule();
                }
                match interrupt {
                    None => {}
                    Some((0, _)) => worker.stop(),
                    Some(_) => worker.abort(),
                }
            }
        }
        run.recorder.counts().assert_conserved();
        run.recorder.warmup().assert_conserved();
        (run.samples, run.finished) = (samples.take(), world.now());
        world.settle();
        run
    }
}

impl Run {
    fn add(&mut self, worker: Option<SimWorker>) {
        let Some(mut worker) = worker else { return };
        let counts = worker.executor().counts();
        self.connections.opened += counts.opened;
        self.connections.peak += counts.peak;
        self.connections.established += counts.established;
        self.connections.by_address.extend(counts.by_address);
        self.connecting += worker.executor().connecting();
        self.busy_ratio = [self.busy_ratio, worker.busy_ratio()].into_iter().flatten().reduce(f64::max);
        self.recorder.merge(&worker.into_recorder());
    }

    /// The samples in the order of their places in the run.
    pub fn by_seq(&self) -> Vec<Sample> {
        let mut samples = self.samples.clone();
        samples.sort_by_key(|sample| sample.seq);
        samples
    }
}

/// Opens a closed loop's connections before the start, as the engine does; answers how many stand.
fn open_ahead(plan: &Plan, number: usize, worker: &mut SimWorker) -> u64 {
    let Load::Closed { clients, .. } = plan.load else { return 0 };
    let share = Share { number: number as u32, of: plan.workers };
    let mut left = share.part(clients.into()).min(share.part(plan.connections));
    let (pool, system) = worker.executor_and_system();
    loop {
        let now = system.now();
        pool.on_timer(system, now);
        while left > 0 && pool.open_ahead(system, now) {
            left -= 1;
        }
        if left == 0 && pool.connecting() == 0 {
            return pool.counts().established;
        }
        let timer = pool.next_timer();
        system.wait(Timestamp::MAX, timer).expect("a simulated machine can always wait");
        while let Some(ready) = system.next_ready() {
            pool.on_ready(system, ready);
        }
    }
}

fn worker(
    plan: &Plan,
    number: u32,
    world: &World,
    config: RecorderConfig,
    schedule_end: Timestamp,
    samples: &Rc<RefCell<Vec<Sample>>>,
) -> SimWorker {
    assert!(plan.operations.iter().all(|o| matches!(o.request, Request::Http1(_))));
    let share = Share { number, of: plan.workers };
    let limits = PoolLimits {
        connections: share.part(plan.connections) as usize,
        connect_timeout: plan.connect_timeout,
        timeout: plan.timeout,
    };
    let targets = [TargetSetup { addresses: world.addresses(), tls: None, session: SessionSetup::Http1 }];
    let mut recorder = Recorder::new(config);
    recorder.set_worker(number as usize);
    let most = plan.max_in_flight.map_or(u64::MAX, |most| share.part(most));
    let rules = Rules::new(plan, schedule_end, most);
    let tap = Tap { inner: dispatcher(plan, share), samples: Rc::clone(samples) };
    Worker::new(world.machine(), Pool::new(plan, &targets, limits), tap, recorder, rules)
}

/// A dispatcher that keeps every sample it is told of.
struct Tap {
    inner: Box<dyn Dispatcher + Send>,
    samples: Rc<RefCell<Vec<Sample>>>,
}

impl Dispatcher for Tap {
    fn poll(&mut self, now: Timestamp) -> Action {
        self.inner.poll(now)
    }

    fn on_end(&mut self, sample: &Sample) {
        self.samples.borrow_mut().push(*sample);
        self.inner.on_end(sample);
    }

    fn stop(&mut self, at: Timestamp) {
        self.inner.stop(at);
    }
}
