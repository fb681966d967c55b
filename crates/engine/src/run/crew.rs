//! The workers of a run and the one who oversees them.
//!
//! Every worker sets itself up on its own thread (a closed loop opens its connections), then all
//! meet at a gate; the run's clock starts a moment later, the same for all.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use plimsoll_core::plan::{Load, Plan, WaitStrategy};
use plimsoll_core::share::{Share, dispatcher};
use plimsoll_core::{Dispatcher, Span, Timestamp};
use plimsoll_stats::{Recorder, RecorderConfig, Snapshot};

use super::inbox::{Command, Inbox, Post, channel};
use super::{RunError, Watch, machine, wall_clock_in};
use crate::execute::Execute;
use crate::os::{Calibration, Os, monotonic_ns};
use crate::pool::{ConnectionCounts, Pool, PoolLimits, TargetSetup};
use crate::system::System;
use crate::worker::{Rules, Turn, Worker};

/// How soon after all are set up the run's clock starts: time for every thread to wake.
const START_IN_NS: u64 = 1_000_000;
/// How often the overseer looks for an interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long word to servers may take after a run.
const WORD_WITHIN: Span = Span::from_ms(500);
/// A socket key that belongs to no connection.
const BELL_KEY: u64 = u64::MAX;

type RunWorker = Worker<Os, Pool<Os>, Box<dyn Dispatcher + Send>>;

/// What every worker gets.
pub(super) struct Kit<'a> {
    pub(super) plan: &'a Plan,
    pub(super) targets: &'a [TargetSetup],
    pub(super) calibration: Calibration,
    pub(super) strategy: WaitStrategy,
    pub(super) config: RecorderConfig,
    pub(super) schedule_end: Timestamp,
}

/// Where workers meet before the start.
struct Gate {
    barrier: Barrier,
    /// The start on [`monotonic_ns`]; `None` where there is no use in starting.
    origin_ns: OnceLock<Option<u64>>,
    /// Connections that should stand before the start, and those that do.
    wanted: AtomicU64,
    established: AtomicU64,
}

/// What a worker leaves behind.
pub(super) struct End {
    number: usize,
    recorder: Recorder,
    pub(super) counts: ConnectionCounts,
    pub(super) busy_ratio: Option<f64>,
    pub(super) finished: Timestamp,
    pub(super) kernel_stamps: Option<bool>,
    /// What ended the run before its time.
    pub(super) fault: Option<io::Error>,
}

enum Message {
    /// A worker has done what comes before the start.
    SetUp,
    Recorded {
        number: usize,
        recorder: Box<Recorder>,
    },
    Ended(Box<End>),
}

/// The workers, running.
pub(super) struct Crew {
    hands: Vec<Hand>,
    gate: Arc<Gate>,
    messages: Receiver<Message>,
    config: RecorderConfig,
    log: Log,
    cumulative: Option<Recorder>,
    /// An interrupt came before the start.
    interrupted: bool,
}

struct Hand {
    post: Post,
    thread: JoinHandle<()>,
    /// An empty recorder for the next snapshot; `None` while the worker has it, or never had one.
    spare: Option<Box<Recorder>>,
    asked: bool,
}

/// What is known of a run besides what was recorded.
pub(super) struct Log {
    pub(super) ends: Vec<End>,
    pub(super) wanted: Option<u64>,
    pub(super) established: u64,
    snapshots: u64,
    window_end: Timestamp,
}

impl Log {
    pub(super) fn snapshots(&self) -> u64 {
        self.snapshots
    }

    /// When the last worker had nothing more to do.
    pub(super) fn finished(&self) -> Timestamp {
        self.ends.iter().map(|end| end.finished).max().unwrap_or(Timestamp::ZERO)
    }

    /// Where the recorders were told that the window ends; with a run cut short, the latest of the
    /// moments at which its workers stopped, or its very end.
    pub(super) fn window_end(&self) -> Timestamp {
        if self.window_end == Timestamp::MAX { self.finished() } else { self.window_end }
    }
}

impl Crew {
    /// Starts the threads and waits until all workers are set up.
    /// An interrupt ends that waiting, and then nothing is started.
    pub(super) fn set_up(kit: &Kit<'_>, watch: &dyn Watch) -> Result<Self, RunError> {
        let workers = kit.plan.workers;
        let gate = Arc::new(Gate {
            barrier: Barrier::new(workers as usize + 1),
            origin_ns: OnceLock::new(),
            wanted: AtomicU64::new(0),
            established: AtomicU64::new(0),
        });
        // What can fail for want of descriptors comes before the first thread, which waits at the gate.
        let mut prepared = Vec::new();
        for number in 0..workers {
            let os = Os::new(kit.strategy, kit.calibration, true).map_err(machine("watch sockets"))?;
            let (post, inbox) = channel().map_err(machine("make a channel between threads"))?;
            os.watch(inbox.ear(), BELL_KEY).map_err(machine("watch a socket"))?;
            prepared.push((number, os, post, inbox));
        }
        let (sender, messages) = mpsc::channel();
        let mut hands = Vec::new();
        for (number, os, post, inbox) in prepared {
            let share = Share { number, of: workers };
            let job = Job {
                number: number as usize,
                ahead: connections_ahead(kit, share),
                gate: Arc::clone(&gate),
                inbox,
                messages: sender.clone(),
            };
            let worker = worker(kit, share, os);
            let thread = std::thread::Builder::new()
                .name(format!("worker {number}"))
                .spawn(move || job.work(worker))
                .map_err(machine("start a thread"))?;
            hands.push(Hand { post, thread, spare: None, asked: false });
        }
        drop(sender);
        let mut interrupted = false;
        for _ in 0..workers {
            while let Err(RecvTimeoutError::Timeout) = messages.recv_timeout(LOOK_EVERY) {
                if !interrupted && watch.interrupts() > 0 {
                    interrupted = true;
                    hands.iter().for_each(|hand: &Hand| _ = hand.post.send(Command::Stop));
                }
            }
        }
        interrupted |= watch.interrupts() > 0;
        gate.barrier.wait();
        let wanted = gate.wanted.load(Ordering::Acquire);
        let established = gate.established.load(Ordering::Acquire);
        let log = Log {
            ends: Vec::new(),
            wanted: (wanted > 0).then_some(wanted),
            established,
            snapshots: 0,
            window_end: Timestamp::ZERO,
        };
        Ok(Self { hands, gate, messages, config: kit.config, log, cumulative: None, interrupted })
    }

    /// Opens the gate; returns the wall clock at the run's start.
    pub(super) fn start(&mut self) -> SystemTime {
        let useless = self.interrupted || (self.log.wanted.is_some() && self.log.established == 0);
        let origin = (!useless).then(|| monotonic_ns() + START_IN_NS);
        let _ = self.gate.origin_ns.set(origin);
        let started_at = wall_clock_in(START_IN_NS);
        self.gate.barrier.wait();
        started_at
    }

    /// Watches until every worker has ended.
    pub(super) fn oversee(&mut self, watch: &mut dyn Watch) {
        let started_ns = self.gate.origin_ns.get().copied().flatten().unwrap_or_else(monotonic_ns);
        let every = watch.snapshot_every();
        let mut next_snapshot = every;
        let mut told = 0;
        let mut ended = false;
        watch.on_start();
        while self.log.ends.len() < self.hands.len() {
            let elapsed = Duration::from_nanos(monotonic_ns().saturating_sub(started_ns));
            let until_snapshot = next_snapshot.map_or(LOOK_EVERY, |at| at.saturating_sub(elapsed));
            match self.messages.recv_timeout(LOOK_EVERY.min(until_snapshot)) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let interrupts = watch.interrupts();
            while told < interrupts.min(2) {
                told += 1;
                for hand in &self.hands {
                    let _ = hand.post.send(if told == 1 { Command::Stop } else { Command::Abort });
                }
            }
            if !ended && watch.is_enough() {
                ended = true;
                self.hands.iter().for_each(|hand| _ = hand.post.send(Command::End));
            }
            if let Some(at) = next_snapshot.filter(|at| *at <= elapsed) {
                next_snapshot = every.map(|every| at.max(elapsed) + every);
                self.ask_for_snapshots();
                self.await_snapshots();
                self.log.snapshots += 1;
                if let Some(recorder) = self.cumulative.take() {
                    let snapshot = Snapshot::new(self.log.snapshots, recorder);
                    watch.on_snapshot(Span::from_ns(elapsed.as_nanos() as u64), &snapshot);
                    self.cumulative = Some(snapshot.recorder);
                }
            }
        }
    }

    /// Waits for the threads and puts together all that was recorded.
    pub(super) fn finish(mut self) -> (Recorder, Log) {
        for hand in self.hands.drain(..) {
            if let Err(panic) = hand.thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        while let Ok(message) = self.messages.try_recv() {
            self.take(message);
        }
        let recorder = self.cumulative.take().unwrap_or_else(|| Recorder::new(self.config));
        (recorder, self.log)
    }

    fn ask_for_snapshots(&mut self) {
        for (number, hand) in self.hands.iter_mut().enumerate() {
            if hand.asked {
                continue;
            }
            let mut spare = hand.spare.take().unwrap_or_else(|| Box::new(Recorder::new(self.config)));
            spare.set_worker(number);
            hand.asked = hand.post.send(Command::Snapshot(spare)).is_ok();
        }
    }

    /// Takes what comes for a moment; a worker that is busy longer hands its part over later.
    fn await_snapshots(&mut self) {
        while self.hands.iter().any(|hand| hand.asked) {
            match self.messages.recv_timeout(LOOK_EVERY) {
                Ok(message) => self.take(message),
                Err(_) => break,
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::SetUp => {}
            Message::Recorded { number, mut recorder } => {
                self.merge(&recorder);
                recorder.clear();
                self.hands[number].spare = Some(recorder);
                self.hands[number].asked = false;
            }
            Message::Ended(end) => {
                self.merge(&end.recorder);
                if let Some(hand) = self.hands.get_mut(end.number) {
                    hand.asked = false;
                }
                self.log.window_end = self.log.window_end.max(end.recorder.config().window_end);
                self.log.ends.push(*end);
            }
        }
    }

    fn merge(&mut self, recorder: &Recorder) {
        self.cumulative.get_or_insert_with(|| Recorder::new(self.config)).merge(recorder);
    }
}

fn worker(kit: &Kit<'_>, share: Share, os: Os) -> RunWorker {
    let plan = kit.plan;
    let pool_limits = PoolLimits {
        connections: usize::try_from(share.part(plan.connections)).unwrap_or(usize::MAX),
        connect_timeout: plan.connect_timeout,
        timeout: plan.timeout,
    };
    let mut recorder = Recorder::new(kit.config);
    recorder.set_worker(share.number as usize);
    let max_in_flight = plan.max_in_flight.map_or(u64::MAX, |most| share.part(most));
    let rules = Rules::new(plan, kit.schedule_end, max_in_flight);
    let pool = Pool::new(plan, kit.targets, pool_limits);
    Worker::new(os, pool, dispatcher(plan, share), recorder, rules)
}

/// How many connections a worker opens before the start: one a client of a closed loop, and where
/// opening one is dear all there will be.
fn connections_ahead(kit: &Kit<'_>, share: Share) -> u64 {
    let plan = kit.plan;
    match plan.load {
        Load::Open { .. } if kit.targets[0].session.opens_ahead() => share.part(plan.connections),
        Load::Open { .. } => 0,
        Load::Closed { clients, .. } => share.part(clients.into()).min(share.part(plan.connections)),
    }
}

/// A worker's thread.
struct Job {
    number: usize,
    ahead: u64,
    gate: Arc<Gate>,
    inbox: Inbox,
    messages: Sender<Message>,
}

impl Job {
    fn work(self, mut worker: RunWorker) {
        let mut fault = self.open_ahead(&mut worker).err();
        self.gate.wanted.fetch_add(self.ahead, Ordering::AcqRel);
        self.gate.established.fetch_add(worker.executor().counts().established, Ordering::AcqRel);
        let _ = self.messages.send(Message::SetUp);
        self.gate.barrier.wait();
        self.gate.barrier.wait();
        match self.gate.origin_ns.get().copied().flatten() {
            None => worker.report(),
            Some(origin_ns) => {
                while monotonic_ns() < origin_ns {
                    std::hint::spin_loop();
                }
                worker.system().set_origin(origin_ns);
                worker.executor().begin();
                if fault.is_none() {
                    fault = self.run(&mut worker).err();
                }
            }
        }
        self.send_end(worker, fault);
    }

    /// Lets word to servers that requests are no longer wanted go out, for a moment. The run is over.
    fn let_word_out(worker: &mut RunWorker) -> io::Result<()> {
        let (pool, system) = worker.executor_and_system();
        let end = system.now().saturating_add(WORD_WITHIN);
        while pool.is_telling() && system.now() < end {
            system.wait(Timestamp::MAX, end.min(pool.next_timer()))?;
            while let Some(ready) = system.next_ready() {
                pool.on_ready(system, ready);
            }
            let now = system.now();
            pool.on_timer(system, now);
        }
        Ok(())
    }

    fn run(&self, worker: &mut RunWorker) -> io::Result<()> {
        loop {
            match worker.turn() {
                Ok(Turn::Going) => {}
                Ok(Turn::Finished) => return Ok(()),
                Err(error) => {
                    worker.abort();
                    worker.cut_off();
                    return Err(error);
                }
            }
            while let Some(command) = self.inbox.next() {
                match command {
                    Command::Snapshot(spare) => {
                        let recorder = Box::new(worker.swap_recorder(*spare));
                        let _ = self.messages.send(Message::Recorded { number: self.number, recorder });
                    }
                    Command::End => worker.end_schedule(),
                    Command::Stop => worker.stop(),
                    Command::Abort => worker.abort(),
                }
            }
        }
    }

    /// Opens the connections that should stand before the start; those that fail are told by the
    /// difference. Any command ends it: before the start there is only the one to stop.
    fn open_ahead(&self, worker: &mut RunWorker) -> io::Result<()> {
        let mut left = self.ahead;
        loop {
            let (pool, system) = worker.executor_and_system();
            let now = system.now();
            pool.on_timer(system, now);
            while left > 0 && pool.open_ahead(system, now) {
                left -= 1;
            }
            if left == 0 && pool.connecting() == 0 || self.inbox.next().is_some() {
                return Ok(());
            }
            let timer = pool.next_timer();
            system.wait(Timestamp::MAX, timer)?;
            while let Some(ready) = system.next_ready() {
                while pool.on_ready(system, ready) {}
            }
        }
    }

    fn send_end(&self, mut worker: RunWorker, fault: Option<io::Error>) {
        let busy_ratio = worker.busy_ratio();
        let finished = match self.gate.origin_ns.get().copied().flatten() {
            Some(_) => worker.system().now(),
            None => Timestamp::ZERO,
        };
        // All is measured; what fails here is of no consequence to it.
        let _ = Self::let_word_out(&mut worker);
        let end = End {
            number: self.number,
            counts: worker.executor().counts(),
            busy_ratio,
            finished,
            kernel_stamps: worker.system().has_stamps(),
            fault,
            recorder: worker.into_recorder(),
        };
        let _ = self.messages.send(Message::Ended(Box::new(end)));
    }
}
