//! The worker: one loop that takes due requests to an executor and their ends to a recorder.
//!
//! ```text
//! turn:
//!     send all that is due              (each send reads the clock; a bounded number a turn)
//!     fire timers                       (timeouts, late requests, the drain's end)
//!     wait until the next due time or timer, or a socket is ready
//!     for each ready socket: read, decode, record; then send what has become due meanwhile
//! ```
//!
//! It holds the one account: each request that the dispatcher hands out is either live or has been
//! recorded with exactly one end.

use std::collections::VecDeque;
use std::io;

use plimsoll_core::dispatch::{Action, Dispatcher, Send};
use plimsoll_core::plan::{LatePolicy, Load, Plan, Request, Retry, StatusRange};
use plimsoll_core::{DropReason, Failure, Outcome, Sample, Span, Timestamp};
use plimsoll_proto::Answer;
use plimsoll_stats::Recorder;

use crate::busy::Busy;
use crate::execute::{Attempt, AttemptEnd, AttemptResult, Execute, Progress, Room};
use crate::growth::Growth;
use crate::list::SlotList;
use crate::slots::{Id, Slots};
use crate::system::{Ready, System};

/// The most sends in a turn before the sockets are looked at again. A burst takes longer than the
/// answers to its first requests, which should not lie unread for all of it.
const SENDS_A_TURN: usize = 64;

/// How long a worker that always finds sockets to be read puts off opening a connection, for each one
/// it has open: about ten times what an answer costs. A connection that streams without end holds the
/// next request up only for a moment.
const PATIENCE: Span = Span::from_us(100);

/// How soon a connection that was not worth opening is thought of again, unless an answer frees one.
const ASK_AGAIN: Span = Span::from_ms(1);

/// After an interrupt answers are waited for no longer than this.
const DRAIN_AFTER_INTERRUPT: Span = Span::from_secs(1);

/// Whether a worker has more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has.
    Going,
    /// Every request has its end, or the drain is over.
    Finished,
}

/// What a worker waits for besides its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The next request's due time; [`Timestamp::MAX`] for none.
    pub due: Timestamp,
    /// The next timer; [`Timestamp::MAX`] for none.
    pub timer: Timestamp,
}

/// The rules by which a worker decides.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Copies of unanswered requests.
    pub retry: Option<Retry>,
    /// What happens to a request that is late.
    pub late: LatePolicy,
    /// The most requests under way; one due beyond it is dropped.
    pub max_in_flight: u64,
    /// How long answers are waited for after the schedule's end.
    pub drain: Span,
    /// The end of the schedule; [`Timestamp::MAX`] where only a request count ends it.
    pub schedule_end: Timestamp,
    /// Requests are due by a schedule. A closed loop's clients have a connection each, whatever it costs.
    pub open_loop: bool,
    /// By operation, the HTTP statuses that are a success.
    pub success: Vec<StatusRange>,
}

impl Rules {
    /// The rules of a plan for a worker whose schedule ends at `schedule_end` and whose share of
    /// the requests in flight is `max_in_flight`.
    pub fn new(plan: &Plan, schedule_end: Timestamp, max_in_flight: u64) -> Self {
        Self {
            retry: plan.retry,
            late: plan.late,
            max_in_flight,
            drain: plan.drain,
            schedule_end,
            open_loop: matches!(plan.load, Load::Open { .. }),
            success: plan.operations.iter().map(|operation| success(&operation.request)).collect(),
        }
    }
}

fn success(request: &Request) -> StatusRange {
    match request {
        Request::Http1(request) => request.success,
        Request::Postgres(_) => StatusRange::HTTP,
    }
}

/// A request that was handed out and has no end yet.
#[derive(Debug)]
struct Live {
    send: Send,
    ready: Timestamp,
    waited_for_connection: bool,
    sent: Option<Timestamp>,
    /// Copies handed to the executor, the first one included.
    copies: u32,
    /// When the next copy is due, where one is.
    next_copy: Timestamp,
}

/// A limit at which the worker stands: requests are due, and there is no connection for them.
#[derive(Clone, Copy, Debug)]
struct Limit {
    met: Timestamp,
    /// When it was last seen to be in force.
    seen: Timestamp,
    /// It is the plan's limit of connections, not the pace of connecting.
    of_connections: bool,
}

/// One worker.
#[derive(Debug)]
pub struct Worker<S: System, X: Execute<S>, D: Dispatcher> {
    system: S,
    executor: X,
    dispatcher: D,
    recorder: Recorder,
    rules: Rules,
    live: Slots<Live>,
    /// Live requests whose next copy has a due time, the earliest first.
    copies: SlotList,
    /// Live requests that were not sent yet and are dropped when they cannot be in time.
    unsent: SlotList,
    /// Handed out by the dispatcher, and no room for it.
    head: Option<Send>,
    limit: Option<Limit>,
    /// The last wait found no socket ready.
    quiet: bool,
    /// When the head was first put off, no connection being idle.
    put_off_since: Option<Timestamp>,
    growth: Growth,
    busy: Busy,
    /// When the last wait came back or, later, the first request left of those in flight; where answers have
    /// no stamps.
    unseen_since: Option<Timestamp>,
    /// When opening a connection that was not worth it is thought of again.
    ask_again: Timestamp,
    in_flight: u64,
    /// The dispatcher will hand out nothing more.
    over: bool,
    /// The schedule was ended before its time.
    stopped: bool,
    drain_end: Timestamp,
    /// Sockets that had more to read than one turn should take.
    again: VecDeque<Ready>,
}

impl<S: System, X: Execute<S>, D: Dispatcher> Worker<S, X, D> {
    /// A worker at the start of its run.
    pub fn new(system: S, executor: X, dispatcher: D, recorder: Recorder, rules: Rules) -> Self {
        let drain_end = rules.schedule_end.saturating_add(rules.drain);
        Self {
            system,
            executor,
            dispatcher,
            recorder,
            rules,
            live: Slots::default(),
            copies: SlotList::default(),
            unsent: SlotList::default(),
            head: None,
            limit: None,
            quiet: true,
            put_off_since: None,
            growth: Growth::default(),
            busy: Busy::default(),
            unseen_since: None,
            ask_again: Timestamp::MAX,
            in_flight: 0,
            over: false,
            stopped: false,
            drain_end,
            again: VecDeque::new(),
        }
    }

    /// The machine it runs on.
    pub fn system(&mut self) -> &mut S {
        &mut self.system
    }

    /// What carries its attempts.
    pub fn executor(&mut self) -> &mut X {
        &mut self.executor
    }

    /// Both at once.
    pub fn executor_and_system(&mut self) -> (&mut X, &mut S) {
        (&mut self.executor, &mut self.system)
    }

    /// What it has recorded.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// All that it has recorded, its work being over.
    pub fn into_recorder(self) -> Recorder {
        self.recorder
    }

    /// The share of the rate window that was work, spinning apart, 0..=1; of a window that has not ended,
    /// up to now. `None` where it did not begin.
    pub fn busy_ratio(&mut self) -> Option<f64> {
        self.end_of_busy();
        self.busy.ratio()
    }

    /// Has the executor hand over what it has to record; every turn does so.
    pub fn report(&mut self) {
        self.executor.report(&mut self.recorder);
    }

    /// Takes out what was recorded and goes on with `spare`, which is empty.
    pub fn swap_recorder(&mut self, mut spare: Recorder) -> Recorder {
        spare.set_window_end(self.recorder.config().window_end);
        std::mem::replace(&mut self.recorder, spare)
    }

    /// The schedule ends now, if it has not ended before; the drain follows as planned.
    pub fn end_schedule(&mut self) {
        self.end_now(self.rules.drain);
    }

    /// Nothing more becomes due from now on; answers are waited for a little while.
    pub fn stop(&mut self) {
        self.end_now(self.rules.drain.min(DRAIN_AFTER_INTERRUPT));
    }

    fn end_now(&mut self, drain: Span) {
        self.stopped = true;
        let now = self.system.now();
        self.dispatcher.stop(now);
        self.end_of_busy();
        self.recorder.set_window_end(self.recorder.config().window_end.min(now));
        self.drain_end = self.drain_end.min(now.saturating_add(drain));
    }

    /// Nothing is waited for any more.
    pub fn abort(&mut self) {
        self.stop();
        self.drain_end = self.drain_end.min(self.system.now());
    }

    /// One turn of the loop, its wait included.
    ///
    /// # Errors
    /// When the machine cannot wait, which ends the run.
    pub fn turn(&mut self) -> io::Result<Turn> {
        let Some(wake) = self.begin_turn() else { return Ok(Turn::Finished) };
        self.system.wait(wake.due, wake.timer)?;
        self.end_turn();
        Ok(Turn::Going)
    }

    /// The part of a turn before its wait: sends what is due and fires timers. Answers what the
    /// wait is for, or `None` when there is nothing left to do.
    ///
    /// Whoever drives several workers in one simulated world calls the two parts himself.
    pub fn begin_turn(&mut self) -> Option<Wake> {
        let now = self.system.now();
        if self.next_busy() <= now {
            self.busy.read(now, self.system.usage());
        }
        // Timeouts fire before the drain ends, and nothing is sent after it.
        let fired = self.fire_timers(now);
        if now >= self.drain_end {
            self.report();
            self.cut_off();
            return None;
        }
        let mut due = self.dispatch();
        let now = self.system.now();
        if !fired && self.fire_timers(now) {
            due = due.min(self.dispatch());
        }
        self.report();
        if self.over && self.head.is_none() && self.live.len() == 0 {
            return None;
        }
        if !self.again.is_empty() {
            due = now;
        }
        self.record_poll_gap();
        Some(Wake { due, timer: self.next_timer(now) })
    }

    /// The part of a turn after its wait: takes up every socket that is ready.
    pub fn end_turn(&mut self) {
        if self.system.has_stamps() == Some(false) {
            self.unseen_since = Some(self.system.now());
        }
        self.quiet = self.again.is_empty();
        for _ in 0..self.again.len() {
            let Some(ready) = self.again.pop_front() else { break };
            self.take_ready(ready);
        }
        while let Some(ready) = self.system.next_ready() {
            self.quiet = false;
            self.take_ready(ready);
        }
    }

    /// From the last look at the sockets to the next one, where an answer that comes meanwhile seems to come
    /// only then. What the wait sleeps is no part of it: an answer ends that.
    fn record_poll_gap(&mut self) {
        if let Some(since) = self.unseen_since.take()
            && self.in_flight > 0
        {
            let now = self.system.now();
            self.recorder.on_poll_gap(now.since(since), now);
        }
    }

    fn take_ready(&mut self, ready: Ready) {
        if self.executor.on_ready(&mut self.system, ready)
            && !self.again.iter().any(|queued| queued.key == ready.key)
        {
            self.again.push_back(Ready { writable: false, ..ready });
        }
        self.take_progress();
        self.dispatch();
    }

    /// Sends what is due, as far as there is room, and returns when the next request will be:
    /// [`Timestamp::MAX`] where only an end can bring it, the present where a burst was cut short.
    fn dispatch(&mut self) -> Timestamp {
        for _ in 0..SENDS_A_TURN {
            let now = self.system.now();
            if self.send_copy(now) {
                continue;
            }
            let send = match self.head.take() {
                Some(send) => {
                    // Until now nothing had changed.
                    if let Some(limit) = &mut self.limit {
                        limit.seen = now;
                    }
                    send
                }
                None => match self.dispatcher.poll(now) {
                    Action::Send(send) => send,
                    Action::Wait(until) => {
                        self.limit = None;
                        return until;
                    }
                    Action::Done => {
                        self.schedule_is_over(now);
                        return Timestamp::MAX;
                    }
                },
            };
            assert!(send.due <= now, "a request is never sent before it is due");
            // What became due after the limit was last seen did not find the worker standing there.
            if self.limit.is_some_and(|limit| send.due > limit.seen) {
                self.limit = None;
            }
            if let Some(reason) = self.reason_to_drop(&send, now) {
                self.record_dropped(send, now, reason);
                continue;
            }
            match self.executor.room(send.operation) {
                Room::Free => self.put_off_since = None,
                Room::MayOpen { .. } if !self.rules.open_loop => {}
                Room::MayOpen { open } if !self.growth.allows(open, now.since(send.due), now) => {
                    self.head = Some(send);
                    self.stand_at_limit(now, false);
                    self.ask_again = now.saturating_add(ASK_AGAIN);
                    return Timestamp::MAX;
                }
                Room::MayOpen { open } if !self.should_open(open, now) => {
                    self.head = Some(send);
                    return now;
                }
                Room::MayOpen { .. } => {}
                full @ (Room::AtConnectionLimit | Room::Connecting) => {
                    self.head = Some(send);
                    self.stand_at_limit(now, full == Room::AtConnectionLimit);
                    return Timestamp::MAX;
                }
            }
            self.submit(send, now);
            self.take_progress();
        }
        self.system.now()
    }

    /// The worker cannot take a request up, through no lateness of its own.
    fn stand_at_limit(&mut self, now: Timestamp, of_connections: bool) {
        let limit = self.limit.get_or_insert(Limit { met: now, seen: now, of_connections });
        limit.seen = now;
        limit.of_connections |= of_connections;
    }

    /// Whether a request for which no connection is idle should have one opened now.
    ///
    /// First the sockets are looked at, anew for each: an answer that lies there frees a connection. A
    /// worker that always finds one opens a connection only for a request that found none idle for
    /// [`PATIENCE`] with each that is open.
    fn should_open(&mut self, open: usize, now: Timestamp) -> bool {
        if !self.quiet {
            let since = *self.put_off_since.get_or_insert(now);
            if now.since_or_zero(since) < PATIENCE.saturating_mul(open as u64) {
                return false;
            }
        }
        self.quiet = false;
        self.put_off_since = None;
        true
    }

    fn submit(&mut self, send: Send, now: Timestamp) {
        let request = self.live.insert(self.take_up(send, now));
        let attempt = Attempt { request, operation: send.operation, key: send.key };
        if let LatePolicy::Skip(_) = self.rules.late {
            self.unsent.push_back(request.slot);
        }
        self.executor.submit(&mut self.system, attempt, now);
    }

    /// Takes a request up: now, or while the worker stands at a limit at the later of its due time and
    /// the moment the limit was met.
    fn take_up(&self, send: Send, now: Timestamp) -> Live {
        let ready = self.limit.map_or(now, |limit| send.due.max(limit.met));
        let waited_for_connection = self.limit.is_some_and(|limit| limit.of_connections) && ready < now;
        Live { send, ready, waited_for_connection, sent: None, copies: 1, next_copy: Timestamp::MAX }
    }

    fn reason_to_drop(&self, send: &Send, now: Timestamp) -> Option<DropReason> {
        if let LatePolicy::Skip(within) = self.rules.late
            && now.since(send.due) > within
        {
            return Some(DropReason::Late);
        }
        (self.live.len() as u64 >= self.rules.max_in_flight).then_some(DropReason::MaxInFlight)
    }

    fn schedule_is_over(&mut self, now: Timestamp) {
        if !self.over {
            self.over = true;
            if self.rules.schedule_end == Timestamp::MAX {
                self.drain_end = self.drain_end.min(now.saturating_add(self.rules.drain));
            }
        }
    }

    // ---- timers ------------------------------------------------------------------------------

    fn next_timer(&self, now: Timestamp) -> Timestamp {
        let of = |list: &SlotList| list.front().and_then(|slot| self.live.at(slot));
        // A copy that is due and finds no room waits for an end, not for a moment. One that has become
        // due since the last look at the copies does not wait.
        let copy = of(&self.copies)
            .filter(|live| live.next_copy > now || self.executor.room(live.send.operation).takes_one())
            .map(|live| live.next_copy);
        let late = match self.rules.late {
            LatePolicy::Send => None,
            LatePolicy::Skip(within) => {
                // The head was handed out after all those in line.
                let oldest = of(&self.unsent).map(|live| live.send.due).or(self.head.map(|send| send.due));
                oldest.map(|due| due.saturating_add(within).saturating_add(Span::from_ns(1)))
            }
        };
        let timers = [copy, late].into_iter().flatten().min().unwrap_or(Timestamp::MAX);
        let ask_again = if self.ask_again > now { self.ask_again } else { Timestamp::MAX };
        timers.min(self.executor.next_timer()).min(self.drain_end).min(ask_again).min(self.next_busy())
    }

    /// When the processor time is to be read: where the rate window begins, and where it ends.
    #[inline]
    fn next_busy(&self) -> Timestamp {
        let config = self.recorder.config();
        self.busy.next(config.start, config.window_end)
    }

    /// The rate window ends now, if it has begun and not ended.
    fn end_of_busy(&mut self) {
        if self.busy.has_begun() {
            self.busy.read(self.system.now(), self.system.usage());
        }
    }

    /// True when something ended, so that more may be due.
    fn fire_timers(&mut self, now: Timestamp) -> bool {
        let mut fired = false;
        if self.executor.next_timer() <= now {
            self.executor.on_timer(&mut self.system, now);
            self.take_progress();
            fired = true;
        }
        if let LatePolicy::Skip(within) = self.rules.late {
            while let Some(slot) = self.unsent.front() {
                let Some(live) = self.live.at(slot) else { break };
                if now.since_or_zero(live.send.due) <= within {
                    break;
                }
                let sample = live.ending(Outcome::Dropped(DropReason::Late), now);
                if let Some(request) = self.live.id(slot) {
                    self.executor.forget_unsent(request);
                    self.forget(request);
                }
                self.recorder.record(&sample);
                self.dispatcher.on_end(&sample);
                fired = true;
            }
        }
        fired
    }

    /// Sends a copy, where one is due and there is room for it.
    #[inline]
    fn send_copy(&mut self, now: Timestamp) -> bool {
        let Some(request) = self.copies.front().and_then(|slot| self.live.id(slot)) else { return false };
        let Some(live) = self.live.get_mut(request) else { return false };
        if live.next_copy > now || !self.executor.room(live.send.operation).takes_one() {
            return false;
        }
        self.copies.pop_front();
        live.copies += 1;
        live.next_copy = Timestamp::MAX;
        let attempt = Attempt { request, operation: live.send.operation, key: live.send.key };
        self.executor.submit(&mut self.system, attempt, now);
        self.take_progress();
        true
    }

    // ---- the account -------------------------------------------------------------------------

    #[inline]
    fn take_progress(&mut self) {
        while let Some(progress) = self.executor.next_progress() {
            match progress {
                Progress::Sent { request, at } => self.on_sent(request, at),
                Progress::Ended { request, end } => self.on_attempt_end(request, &end),
            }
        }
    }

    #[inline]
    fn on_sent(&mut self, request: Id, at: Timestamp) {
        let Some(live) = self.live.get_mut(request) else { return };
        self.recorder.on_attempt(live.send.phase, live.send.operation);
        if live.sent.is_none() {
            live.sent = Some(at);
            self.in_flight += 1;
            if let Some(since) = self.unseen_since.as_mut().filter(|_| self.in_flight == 1) {
                *since = at.max(*since);
            }
            self.recorder.on_in_flight(self.in_flight);
            self.unsent.remove(request.slot);
            // A count ends the schedule with its last request, and that has the whole drain.
            if self.over && self.rules.schedule_end == Timestamp::MAX && !self.stopped {
                self.drain_end = self.drain_end.max(at.saturating_add(self.rules.drain));
            }
        }
        if let Some(retry) = self.rules.retry
            && live.copies < retry.copies
        {
            live.next_copy = at.saturating_add(retry.after);
            self.copies.push_back(request.slot);
        }
    }

    /// The first end of any copy decides; the ends of losing copies find their request gone.
    #[inline]
    fn on_attempt_end(&mut self, request: Id, end: &AttemptEnd) {
        let Some(live) = self.forget(request) else { return };
        if live.copies > 1 {
            self.executor.forget_unsent(request);
        }
        let (outcome, status) = match end.result {
            AttemptResult::Answered(answer) => {
                self.growth.on_answer(end.read.unwrap_or(end.at));
                self.judge(live.send.operation, answer)
            }
            AttemptResult::Failed(failure) => (Outcome::Failed(failure), None),
            AttemptResult::TimedOut => (Outcome::TimedOut, None),
        };
        let sample = Sample {
            first_byte: end.first_byte,
            end: end.at.max(live.sent.unwrap_or(live.ready)),
            read: end.read,
            status,
            ..live.ending(outcome, end.at)
        };
        self.recorder.record(&sample);
        self.dispatcher.on_end(&sample);
    }

    /// Whether an answer is a success, and its status where it has one.
    #[inline]
    fn judge(&self, operation: u16, answer: Answer) -> (Outcome, Option<u16>) {
        match answer {
            Answer::Http1 { status, .. } => {
                let success = self.rules.success[usize::from(operation)].holds(status);
                (if success { Outcome::Ok } else { Outcome::Failed(Failure::Status(status)) }, Some(status))
            }
            Answer::Rows(_) => (Outcome::Ok, None),
            Answer::SqlError(state) => (Outcome::Failed(Failure::SqlState(state.0)), None),
        }
    }

    /// Takes a request out of every list; the caller records it.
    #[inline]
    fn forget(&mut self, request: Id) -> Option<Live> {
        let live = self.live.remove(request)?;
        self.copies.remove(request.slot);
        self.unsent.remove(request.slot);
        self.in_flight -= u64::from(live.sent.is_some());
        Some(live)
    }

    fn record_dropped(&mut self, send: Send, now: Timestamp, reason: DropReason) {
        // Whoever was dropped behind a limit waited there, and was not taken up late.
        let sample = self.take_up(send, now).ending(Outcome::Dropped(reason), now);
        self.recorder.record(&sample);
        self.dispatcher.on_end(&sample);
    }

    /// Gives every request that has no end yet the end it has now: unfinished, sent or not.
    pub fn cut_off(&mut self) {
        let now = self.system.now();
        for request in self.live.ids() {
            if let Some(live) = self.forget(request) {
                self.recorder.record(&live.ending(Outcome::Unfinished, now));
            }
        }
        // Nobody is told of these ends, so that no client takes one for a reason to go on.
        while let Some(send) = self.head.take().or_else(|| match self.dispatcher.poll(now) {
            Action::Send(send) => Some(send),
            Action::Wait(_) | Action::Done => None,
        }) {
            self.recorder.record(&self.take_up(send, now).ending(Outcome::Unfinished, now));
        }
        self.executor.abandon(&mut self.system);
    }
}

impl Live {
    /// The sample of a request that ends at `end` without an answer.
    fn ending(&self, outcome: Outcome, end: Timestamp) -> Sample {
        Sample {
            seq: self.send.seq,
            key: self.send.key,
            operation: self.send.operation,
            phase: self.send.phase,
            due: self.send.due,
            ready: self.ready,
            sent: self.sent,
            first_byte: None,
            end,
            read: None,
            outcome,
            status: None,
            waited_for_connection: self.waited_for_connection,
        }
    }
}
