//! Where every request ends up: the recorder of one worker, and of a whole run.
//!
//! A worker feeds its own recorder; once a second it is taken, merged into the run's and emptied.
//! A recorder does not care which of the two it is. It does no statistics: see [`crate::slo`] and the
//! reports for what is asked of it.

use plimsoll_core::{Failure, Outcome, Phase, Sample, Span, Timestamp};

use crate::counts::Counts;
use crate::histogram::Histogram;
use crate::windows::Windows;

/// The most kinds of failure told apart; further ones are counted together. Kinds are few by nature
/// (a protocol's statuses at worst), so reaching this is a sign of a server gone mad.
pub const MAX_FAILURE_KINDS: usize = 64;

/// The most kinds of failure whose text is kept.
pub const MAX_FAILURE_TEXTS: usize = 32;

/// The most bytes of a failure's text that are kept.
pub const MAX_FAILURE_TEXT_BYTES: usize = 300;

/// What a recorder must know of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderConfig {
    /// The number of operations in the plan, at least 1.
    pub operations: usize,
    /// The schedule's start: the end of the warm-up.
    pub start: Timestamp,
    /// The end of the rate window, itself not in it; [`Timestamp::MAX`] while it is not known.
    pub window_end: Timestamp,
    /// The length of the series' windows before any are merged.
    pub window_length: Span,
}

/// Everything recorded of the requests of a run, or of a worker's share of them.
#[derive(Clone, Debug)]
pub struct Recorder {
    config: RecorderConfig,
    warmup: Counts,
    carried: Carried,
    operations: Vec<OperationRecorder>,
    windows: Windows,
    connect: Histogram,
    poll_gap: Histogram,
    bytes_sent: u64,
    bytes_received: u64,
    surplus_bytes: u64,
    rows: u64,
    worker: usize,
    /// The most requests sent and not ended at once, by worker.
    in_flight_max: Vec<u64>,
    /// Time inside the rate window that requests spent between sent and end.
    in_flight_ns: u128,
    /// Time inside the rate window that requests spent between due and end.
    outstanding_ns: u128,
    failure_texts: Vec<(Failure, String)>,
}

/// What is kept of the measured requests of one operation. Spans are those of [`Sample`].
#[derive(Clone, Debug, Default)]
pub struct OperationRecorder {
    /// How its requests ended.
    pub counts: Counts,
    /// Response of what ended ok.
    pub response_ok: Histogram,
    /// Response of what failed, up to the failure.
    pub response_failed: Histogram,
    /// Response of what timed out or stayed unfinished, up to that moment: the true one is longer.
    pub censored: Histogram,
    /// Service of what was sent and ended ok, timed out or stayed unfinished: the headline's
    /// population less what never left, so that Little's law can be applied to both alike.
    pub service: Histogram,
    /// The censored values in `service`.
    pub service_censored: Censored,
    /// The wait for a connection of every request that was not dropped.
    pub blocked: Histogram,
    /// The generator's own lateness for every request, those dropped included.
    pub schedule_lag: Histogram,
    /// The generator's lateness in reading every whole answer.
    pub read_lag: Histogram,
    /// From send to first byte for those of `service` that got one.
    pub first_byte: Histogram,
    /// Whole answers by status, in the order of their first appearance.
    pub statuses: Vec<(u16, u64)>,
    /// Failures by kind, in the order of their first appearance; at most [`MAX_FAILURE_KINDS`].
    pub failures: Vec<(Failure, u64)>,
    /// Failures of further kinds.
    pub failures_of_other_kinds: u64,
}

/// What requests of the warm-up did inside the rate window. They are in no measured count, but what was
/// sent and answered there belongs to its rates: without it a closed loop's rate would read low by its
/// clients' first answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Sent.
    pub sent: u64,
    /// Answered.
    pub answered: u64,
    /// Answered, and a success.
    pub ok: u64,
}

impl Carried {
    fn record(&mut self, sample: &Sample, start: Timestamp, window_end: Timestamp) {
        let inside = |at: Timestamp| u64::from(start <= at && at < window_end);
        self.sent += sample.sent.map_or(0, inside);
        if sample.is_answered() {
            self.answered += inside(sample.end);
            self.ok += if sample.outcome == Outcome::Ok { inside(sample.end) } else { 0 };
        }
    }

    fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.ok += other.ok;
    }
}

/// Values of a distribution that are known to be too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Censored {
    /// How many there are.
    pub count: u64,
    /// The least of them; [`Span::MAX`] where there are none. A quantile at or above it is a lower
    /// bound.
    pub least: Span,
}

impl Default for Censored {
    fn default() -> Self {
        Self { count: 0, least: Span::MAX }
    }
}

impl Censored {
    fn record(&mut self, span: Span) {
        self.count += 1;
        self.least = self.least.min(span);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.least = self.least.min(other.least);
    }

    /// True when a quantile of this value is a lower bound only.
    pub fn bounds(&self, ns: u64) -> bool {
        self.count > 0 && ns >= self.least.as_ns()
    }
}

impl Recorder {
    /// An empty recorder.
    ///
    /// # Panics
    /// When there is no operation or the windows have no length.
    pub fn new(config: RecorderConfig) -> Self {
        assert!(config.operations > 0, "a plan has at least one operation");
        Self {
            config,
            warmup: Counts::default(),
            carried: Carried::default(),
            operations: vec![OperationRecorder::default(); config.operations],
            windows: Windows::new(config.start, config.window_length),
            connect: Histogram::new(),
            poll_gap: Histogram::new(),
            bytes_sent: 0,
            bytes_received: 0,
            surplus_bytes: 0,
            rows: 0,
            worker: 0,
            in_flight_max: vec![0],
            in_flight_ns: 0,
            outstanding_ns: 0,
            failure_texts: Vec::new(),
        }
    }

    /// Records a request that has ended. Requests of the warm-up are counted, and nothing else.
    ///
    /// # Panics
    /// When the sample breaks a law of [`Sample::assert_lawful`], or was due before the schedule's
    /// start though it belongs to the measured phase: faults of this program.
    #[inline]
    pub fn record(&mut self, sample: &Sample) {
        sample.assert_lawful();
        let window_end = self.config.window_end;
        if sample.phase == Phase::Warmup {
            self.carried.record(sample, self.config.start, window_end);
            return self.warmup.record(sample, window_end);
        }
        let end = sample.end.min(window_end);
        self.outstanding_ns += u128::from(end.since_or_zero(sample.due).as_ns());
        if let Some(sent) = sample.sent {
            self.in_flight_ns += u128::from(end.since_or_zero(sent).as_ns());
        }
        self.operations[usize::from(sample.operation)].record(sample, window_end);
        self.windows.record(sample);
    }

    /// One more copy of a request was sent.
    #[inline]
    pub fn on_attempt(&mut self, phase: Phase, operation: u16) {
        match phase {
            Phase::Warmup => self.warmup.attempts += 1,
            Phase::Measure => self.operations[usize::from(operation)].counts.attempts += 1,
        }
    }

    /// A connection was established; `span` is its connect time, the TLS handshake included.
    pub fn on_connect(&mut self, span: Span) {
        self.connect.record(span);
    }

    /// A worker that has nothing but its own clock did not look at its sockets for `span`, up to `until`,
    /// while answers were awaited. Those of the warm-up are left out.
    #[inline]
    pub fn on_poll_gap(&mut self, span: Span, until: Timestamp) {
        if until >= self.config.start {
            self.poll_gap.record(span);
        }
    }

    /// Bytes went over connections, those of the warm-up and of the protocols below included.
    #[inline]
    pub fn on_bytes(&mut self, sent: u64, received: u64) {
        self.bytes_sent += sent;
        self.bytes_received += received;
    }

    /// So many rows came in database answers, the warm-up's included.
    #[inline]
    pub fn on_rows(&mut self, rows: u64) {
        self.rows += rows;
    }

    /// A server sent bytes that belong to no answer.
    pub fn on_surplus(&mut self, bytes: u64) {
        self.surplus_bytes += bytes;
    }

    /// So many requests of this worker are sent and not ended now.
    #[inline]
    pub fn on_in_flight(&mut self, n: u64) {
        let most = &mut self.in_flight_max[self.worker];
        *most = n.max(*most);
    }

    /// What a failure said of itself. The first text of each kind is kept, of at most
    /// [`MAX_FAILURE_TEXTS`] kinds and [`MAX_FAILURE_TEXT_BYTES`] bytes.
    pub fn on_failure_text(&mut self, failure: Failure, text: &str) {
        let known = self.failure_texts.iter().any(|(kind, _)| *kind == failure);
        if !known && self.failure_texts.len() < MAX_FAILURE_TEXTS {
            let cut = (0..=text.len().min(MAX_FAILURE_TEXT_BYTES)).rfind(|at| text.is_char_boundary(*at));
            self.failure_texts.push((failure, text[..cut.unwrap_or(0)].to_owned()));
        }
    }

    /// Tells whose recorder it is; without it, worker 0's. Only the maximum in flight depends on it.
    pub fn set_worker(&mut self, worker: usize) {
        self.worker = worker;
        self.in_flight_max = vec![0; worker + 1];
    }

    /// Tells where the rate window ends, once that is known. It must not lie before the end of a
    /// request recorded so far, since what is recorded stays as it was counted.
    pub fn set_window_end(&mut self, end: Timestamp) {
        self.config.window_end = end;
    }

    /// Merges windows of the series that are shorter than `least`, the run being over.
    pub fn lengthen_windows(&mut self, least: Span) {
        self.windows.lengthen_to(least);
    }

    /// Adds what `other` recorded.
    ///
    /// # Panics
    /// When the two do not belong to one run: operations, start or window length differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.operations.len(), other.operations.len(), "only recorders of one run can be merged");
        self.warmup.merge(&other.warmup);
        self.carried.merge(&other.carried);
        for (mine, theirs) in self.operations.iter_mut().zip(&other.operations) {
            mine.merge(theirs);
        }
        self.windows.merge(&other.windows);
        self.connect.merge(&other.connect);
        self.poll_gap.merge(&other.poll_gap);
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.surplus_bytes += other.surplus_bytes;
        self.rows += other.rows;
        let workers = self.in_flight_max.len().max(other.in_flight_max.len());
        self.in_flight_max.resize(workers, 0);
        for (mine, theirs) in self.in_flight_max.iter_mut().zip(&other.in_flight_max) {
            *mine = (*theirs).max(*mine);
        }
        self.in_flight_ns += other.in_flight_ns;
        self.outstanding_ns += other.outstanding_ns;
        for (failure, text) in &other.failure_texts {
            self.on_failure_text(*failure, text);
        }
    }

    /// Empties it and keeps its memory and configuration.
    pub fn clear(&mut self) {
        self.warmup = Counts::default();
        self.carried = Carried::default();
        self.operations.iter_mut().for_each(OperationRecorder::clear);
        self.windows.clear();
        self.connect.clear();
        self.poll_gap.clear();
        (self.bytes_sent, self.bytes_received, self.surplus_bytes, self.rows) = (0, 0, 0, 0);
        self.in_flight_max.fill(0);
        (self.in_flight_ns, self.outstanding_ns) = (0, 0);
        self.failure_texts.clear();
    }

    /// What it was made for.
    pub fn config(&self) -> RecorderConfig {
        self.config
    }

    /// Counts of the warm-up.
    pub fn warmup(&self) -> &Counts {
        &self.warmup
    }

    /// What requests of the warm-up did inside the rate window.
    pub fn carried(&self) -> Carried {
        self.carried
    }

    /// What was recorded of every operation, in the plan's order.
    pub fn operations(&self) -> &[OperationRecorder] {
        &self.operations
    }

    /// What was recorded of the operation with this index in the plan.
    pub fn operation(&self, index: usize) -> &OperationRecorder {
        &self.operations[index]
    }

    /// All operations taken together.
    pub fn total(&self) -> OperationRecorder {
        let mut total = OperationRecorder::default();
        self.operations.iter().for_each(|operation| total.merge(operation));
        total
    }

    /// Counts of all operations taken together.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.operations.iter().for_each(|operation| counts.merge(&operation.counts));
        counts
    }

    /// The series over time.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Connect times of all connections that were established.
    pub fn connect(&self) -> &Histogram {
        &self.connect
    }

    /// The gaps between a worker's looks at its sockets while answers were awaited, in which one may lie
    /// unread; recorded only where there are no kernel stamps.
    pub fn poll_gap(&self) -> &Histogram {
        &self.poll_gap
    }

    /// Bytes sent over all connections.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    /// Bytes received over all connections.
    pub fn bytes_received(&self) -> u64 {
        self.bytes_received
    }

    /// Rows of all database answers.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes received that belong to no answer.
    pub fn surplus_bytes(&self) -> u64 {
        self.surplus_bytes
    }

    /// The most requests sent and not ended at once. Of several workers it is the sum of each one's
    /// maximum: exact where all clients are busy, else an upper bound, since the maxima need not
    /// have fallen together.
    pub fn in_flight_max(&self) -> u64 {
        self.in_flight_max.iter().sum()
    }

    /// The mean number of requests sent and not ended over a rate window of length `window`, from
    /// the exact overlap of every request with it; `None` for a window of no length.
    pub fn in_flight_mean(&self, window: Span) -> Option<f64> {
        (!window.is_zero()).then(|| self.in_flight_ns as f64 / window.as_ns() as f64)
    }

    /// The mean number of requests due and not ended, likewise.
    pub fn outstanding_mean(&self, window: Span) -> Option<f64> {
        (!window.is_zero()).then(|| self.outstanding_ns as f64 / window.as_ns() as f64)
    }

    /// The first text of each kind of failure.
    pub fn failure_texts(&self) -> &[(Failure, String)] {
        &self.failure_texts
    }
}

impl OperationRecorder {
    #[inline]
    fn record(&mut self, sample: &Sample, window_end: Timestamp) {
        self.counts.record(sample, window_end);
        self.schedule_lag.record(sample.schedule_lag());
        if let Some(status) = sample.status {
            count_kind(&mut self.statuses, status, usize::from(u16::MAX) + 1);
        }
        if let Some(read_lag) = sample.read_lag() {
            self.read_lag.record(read_lag);
        }
        match sample.outcome {
            Outcome::Dropped(_) => return,
            Outcome::Failed(failure) => {
                self.blocked.record(sample.blocked());
                self.response_failed.record(sample.response());
                if !count_kind(&mut self.failures, failure, MAX_FAILURE_KINDS) {
                    self.failures_of_other_kinds += 1;
                }
                return;
            }
            Outcome::Ok => self.response_ok.record(sample.response()),
            Outcome::TimedOut | Outcome::Unfinished => self.censored.record(sample.response()),
        }
        self.blocked.record(sample.blocked());
        if let Some(service) = sample.service() {
            self.service.record(service);
            if sample.outcome != Outcome::Ok {
                self.service_censored.record(service);
            }
        }
        if let Some(first_byte) = sample.first_byte_after() {
            self.first_byte.record(first_byte);
        }
    }

    /// Adds what `other` recorded.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.response_ok.merge(&other.response_ok);
        self.response_failed.merge(&other.response_failed);
        self.censored.merge(&other.censored);
        self.service.merge(&other.service);
        self.service_censored.merge(&other.service_censored);
        self.blocked.merge(&other.blocked);
        self.schedule_lag.merge(&other.schedule_lag);
        self.read_lag.merge(&other.read_lag);
        self.first_byte.merge(&other.first_byte);
        for (status, n) in &other.statuses {
            add_kind(&mut self.statuses, *status, *n, usize::from(u16::MAX) + 1);
        }
        for (failure, n) in &other.failures {
            if !add_kind(&mut self.failures, *failure, *n, MAX_FAILURE_KINDS) {
                self.failures_of_other_kinds += n;
            }
        }
        self.failures_of_other_kinds += other.failures_of_other_kinds;
    }

    /// The headline: response of what ended ok, timed out or stayed unfinished.
    pub fn response(&self) -> Histogram {
        let mut response = self.response_ok.clone();
        response.merge(&self.censored);
        response
    }

    /// The censored values in the headline.
    pub fn response_censored(&self) -> Censored {
        Censored { count: self.censored.count(), least: self.censored.min().unwrap_or(Span::MAX) }
    }

    fn clear(&mut self) {
        self.counts = Counts::default();
        self.response_ok.clear();
        self.response_failed.clear();
        self.censored.clear();
        self.service.clear();
        self.service_censored = Censored::default();
        self.blocked.clear();
        self.schedule_lag.clear();
        self.read_lag.clear();
        self.first_byte.clear();
        self.statuses.clear();
        self.failures.clear();
        self.failures_of_other_kinds = 0;
    }
}

#[inline]
fn count_kind<K: Copy + PartialEq>(kinds: &mut Vec<(K, u64)>, kind: K, most: usize) -> bool {
    add_kind(kinds, kind, 1, most)
}

/// Adds `n` to the count of `kind`; false where it is new and `most` others are there. A run sees a
/// handful of kinds, nearly always the first one, so a list beats any map.
#[inline]
fn add_kind<K: Copy + PartialEq>(kinds: &mut Vec<(K, u64)>, kind: K, n: u64, most: usize) -> bool {
    if let Some((_, count)) = kinds.iter_mut().find(|(known, _)| *known == kind) {
        *count += n;
        return true;
    }
    let room = kinds.len() < most;
    if room {
        kinds.push((kind, n));
    }
    room
}
