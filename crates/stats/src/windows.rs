//! The series over time: what was due, sent and ended in each window of a run, and the latencies of
//! what was due in it.
//!
//! Latencies and due requests are counted by due time, sends by the moment of sending, ends by the
//! moment of the end; the windows cover the drain, so each column adds up to the run's total. There
//! are at most [`MAX_WINDOWS`]: beyond that, neighbours are merged and every window is twice as
//! long. Windows under a second, with which every run begins, become seconds sooner. Window `i` of a run
//! always begins at `i` lengths from the schedule's start, so windows of different workers fit onto each
//! other.
//!
//! # Memory
//! Only the windows from the first touched to the last are kept, each with the pages of its two
//! histograms that hold something (512 bytes an octave). A worker's recorder, emptied every second,
//! has a handful of windows and reuses them; the run's own has at most 600.

use std::collections::VecDeque;

use plimsoll_core::{Outcome, Sample, Span, Timestamp};

use crate::buckets::{Buckets, nearest_rank};

/// The most windows of a run.
pub const MAX_WINDOWS: u64 = 600;

/// Windows shorter than this are for short runs, and for the beginning of those that may be: a trial ends when
/// its intervals are narrow, and those need ten windows.
const LONG: Span = Span::from_secs(1);
/// The most short windows: those of 20 s in steps of 100 ms, and a drain. Then all become at least
/// [`LONG`].
const MAX_SHORT_WINDOWS: u64 = 256;

/// Counts an octave in a window's histograms: 2 significant digits, as HdrHistogram lays them out.
const SLOTS: usize = 128;

/// The series of a run, or a worker's part of it.
#[derive(Clone, Debug)]
pub struct Windows {
    start: Timestamp,
    base_length: Span,
    /// Windows are `base_length` · `factor` long. It grows by the same steps in all windows of a run, so
    /// that of two the smaller divides the greater.
    factor: u64,
    /// The index of `kept[0]` among all windows from the start.
    first: u64,
    kept: VecDeque<Window>,
    /// Emptied windows for reuse.
    spare: Vec<Window>,
    /// The window touched last: most requests fall into it again, which saves the division.
    last: Bounds,
}

/// Where a window lies: start ≤ moment < end.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    index: u64,
    start_ns: u64,
    end_ns: u64,
}

/// What falls into one window.
#[derive(Clone, Debug)]
struct Window {
    tally: Tally,
    response: SmallHistogram,
    schedule_lag: SmallHistogram,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    due: u64,
    sent: u64,
    ok: u64,
    failed: u64,
    timed_out: u64,
    unfinished: u64,
    dropped: u64,
    /// Ends of requests that had been sent; not more than all ends.
    sent_and_ended: u64,
    /// Whole answers that came in it.
    answered: u64,
    in_flight: Tail,
    outstanding: Tail,
    /// Headline response of what was due in it, in ns.
    response_sum: u128,
}

/// Σ(window's end − start) − Σ(window's end − end) over the spans that start and that end in a
/// window, in ns.
///
/// With it the time that spans of any length spend in each window is known exactly, at the price of
/// two additions a span: Σ overlap = length · (spans open at the window's start) + tail, since a span
/// counts from its start to the window's end, less what lies behind its end.
type Tail = i128;

impl Windows {
    /// Windows from `start` on, of `base_length` until there are too many.
    ///
    /// # Panics
    /// When `base_length` is zero.
    pub(crate) fn new(start: Timestamp, base_length: Span) -> Self {
        assert!(!base_length.is_zero(), "windows need a length");
        Self {
            start,
            base_length,
            factor: 1,
            first: 0,
            kept: VecDeque::new(),
            spare: Vec::new(),
            last: Bounds::default(),
        }
    }

    /// Counts a measured sample.
    #[inline]
    pub(crate) fn record(&mut self, sample: &Sample) {
        // The end comes last of a request's moments: once it fits, all do.
        let end_offset = sample.end.since(self.start).as_ns();
        let bounds = self.locate(end_offset);
        let end_tail = Tail::from(bounds.end_ns - end_offset);
        let tally = &mut self.window(bounds.index).tally;
        match sample.outcome {
            Outcome::Ok => tally.ok += 1,
            Outcome::Failed(_) => tally.failed += 1,
            Outcome::TimedOut => tally.timed_out += 1,
            Outcome::Unfinished => tally.unfinished += 1,
            Outcome::Dropped(_) => tally.dropped += 1,
        }
        tally.answered += u64::from(sample.is_answered());
        tally.outstanding -= end_tail;
        if let Some(sent) = sample.sent {
            tally.sent_and_ended += 1;
            tally.in_flight -= end_tail;
            let offset = sent.since(self.start).as_ns();
            let bounds = self.locate(offset);
            let tally = &mut self.window(bounds.index).tally;
            tally.sent += 1;
            tally.in_flight += Tail::from(bounds.end_ns - offset);
        }
        let offset = sample.due.since(self.start).as_ns();
        let bounds = self.locate(offset);
        let window = self.window(bounds.index);
        window.tally.due += 1;
        window.tally.outstanding += Tail::from(bounds.end_ns - offset);
        window.schedule_lag.record(sample.schedule_lag());
        match sample.outcome {
            Outcome::Ok | Outcome::TimedOut | Outcome::Unfinished => {
                window.tally.response_sum += u128::from(sample.response().as_ns());
                window.response.record(sample.response());
            }
            Outcome::Failed(_) | Outcome::Dropped(_) => {}
        }
    }

    /// Adds what `other` counted.
    ///
    /// # Panics
    /// When the two do not describe the same run: start or base length differ.
    pub(crate) fn merge(&mut self, other: &Self) {
        assert_eq!(
            (self.start, self.base_length),
            (other.start, other.base_length),
            "only windows of one run can be merged"
        );
        if self.factor < other.factor {
            self.lengthen(other.factor / self.factor);
        }
        let by = self.factor / other.factor;
        for (index, theirs) in (other.first..).zip(&other.kept) {
            let mine = index / by;
            let behind_ns = (mine + 1) * self.length_ns() - (index + 1) * other.length_ns();
            self.window(mine).add(theirs, behind_ns);
        }
    }

    /// Empties it and keeps its memory. The windows stay as long as they have become: time does not
    /// go back.
    pub(crate) fn clear(&mut self) {
        for mut window in self.kept.drain(..) {
            window.clear();
            self.spare.push(window);
        }
    }

    /// Makes windows shorter than `least` at least so long.
    pub(crate) fn lengthen_to(&mut self, least: Span) {
        if self.length() < least {
            self.lengthen(least.as_ns().div_ceil(self.length_ns()));
        }
    }

    /// The length of every window.
    pub fn length(&self) -> Span {
        Span::from_ns(self.length_ns())
    }

    /// Every window from the schedule's start to the last that holds something, without a gap.
    pub fn rows(&self) -> impl Iterator<Item = WindowRow<'_>> {
        let length_ns = self.length_ns();
        let count = if self.kept.is_empty() { 0 } else { self.first + self.kept.len() as u64 };
        let (mut in_flight, mut outstanding) = (0i128, 0i128);
        (0..count).map(move |index| {
            let window = index.checked_sub(self.first).map(|at| &self.kept[at as usize]);
            let tally = window.map_or_else(Tally::default, |window| window.tally);
            let row = WindowRow {
                start: Span::from_ns(index * length_ns),
                length: Span::from_ns(length_ns),
                in_flight_ns: in_flight * i128::from(length_ns) + tally.in_flight,
                outstanding_ns: outstanding * i128::from(length_ns) + tally.outstanding,
                histograms: window.map(|window| (&window.response, &window.schedule_lag)),
                tally,
            };
            in_flight += i128::from(tally.sent) - i128::from(tally.sent_and_ended);
            outstanding += i128::from(tally.due) - i128::from(tally.ended());
            row
        })
    }

    fn length_ns(&self) -> u64 {
        self.base_length.saturating_mul(self.factor).as_ns()
    }

    /// The window that holds the moment `offset_ns` after the start; makes windows longer until
    /// there is one.
    #[inline]
    fn locate(&mut self, offset_ns: u64) -> Bounds {
        if self.last.start_ns <= offset_ns && offset_ns < self.last.end_ns {
            return self.last;
        }
        if offset_ns / self.length_ns() >= MAX_SHORT_WINDOWS {
            self.lengthen_to(LONG);
        }
        while offset_ns / self.length_ns() >= MAX_WINDOWS {
            self.lengthen(2);
        }
        let index = offset_ns / self.length_ns();
        let start_ns = index * self.length_ns();
        self.last = Bounds { index, start_ns, end_ns: start_ns.saturating_add(self.length_ns()) };
        self.last
    }

    /// The window of this index, made where it is missing, with all between it and those there are.
    #[inline]
    fn window(&mut self, index: u64) -> &mut Window {
        if self.kept.is_empty() {
            self.first = index;
        }
        while index < self.first {
            let window = self.spare.pop().unwrap_or_else(Window::empty);
            self.kept.push_front(window);
            self.first -= 1;
        }
        let at = (index - self.first) as usize;
        while at >= self.kept.len() {
            let window = self.spare.pop().unwrap_or_else(Window::empty);
            self.kept.push_back(window);
        }
        &mut self.kept[at]
    }

    /// Makes every window `by` times as long: merges each `by` of them.
    fn lengthen(&mut self, by: u64) {
        let (old_ns, first) = (self.length_ns(), self.first);
        let old = std::mem::take(&mut self.kept);
        self.factor *= by;
        self.last = Bounds::default();
        for (index, mut window) in (first..).zip(old) {
            let behind_ns = (index / by + 1) * self.length_ns() - (index + 1) * old_ns;
            self.window(index / by).add(&window, behind_ns);
            window.clear();
            self.spare.push(window);
        }
    }
}

impl Window {
    fn empty() -> Self {
        let tally = Tally::default();
        Self { tally, response: SmallHistogram::new(), schedule_lag: SmallHistogram::new() }
    }

    /// Adds a window that lies inside this one and ends `behind_ns` before it.
    fn add(&mut self, other: &Self, behind_ns: u64) {
        self.tally.add(&other.tally, behind_ns);
        self.response.merge(&other.response);
        self.schedule_lag.merge(&other.schedule_lag);
    }

    fn clear(&mut self) {
        self.tally = Tally::default();
        self.response.clear();
        self.schedule_lag.clear();
    }
}

impl Tally {
    fn ended(&self) -> u64 {
        self.ok + self.failed + self.timed_out + self.unfinished + self.dropped
    }

    fn add(&mut self, other: &Self, behind_ns: u64) {
        // What is still open where the inner window ends stays open for the rest of this one.
        let still =
            |started: u64, ended: u64| i128::from(behind_ns) * (i128::from(started) - i128::from(ended));
        self.in_flight += other.in_flight + still(other.sent, other.sent_and_ended);
        self.outstanding += other.outstanding + still(other.due, other.ended());
        self.due += other.due;
        self.sent += other.sent;
        self.ok += other.ok;
        self.failed += other.failed;
        self.timed_out += other.timed_out;
        self.unfinished += other.unfinished;
        self.dropped += other.dropped;
        self.sent_and_ended += other.sent_and_ended;
        self.answered += other.answered;
        self.response_sum += other.response_sum;
    }
}

/// A window of a run, for reading.
#[derive(Clone, Copy, Debug)]
pub struct WindowRow<'a> {
    /// Its beginning, from the schedule's start.
    pub start: Span,
    /// Its length.
    pub length: Span,
    tally: Tally,
    in_flight_ns: i128,
    outstanding_ns: i128,
    histograms: Option<(&'a SmallHistogram, &'a SmallHistogram)>,
}

impl WindowRow<'_> {
    /// Requests due in it.
    pub fn due(&self) -> u64 {
        self.tally.due
    }

    /// Requests sent in it.
    pub fn sent(&self) -> u64 {
        self.tally.sent
    }

    /// Successes that ended in it.
    pub fn ok(&self) -> u64 {
        self.tally.ok
    }

    /// Failures that ended in it.
    pub fn failed(&self) -> u64 {
        self.tally.failed
    }

    /// Requests whose timeout fell into it.
    pub fn timed_out(&self) -> u64 {
        self.tally.timed_out
    }

    /// Requests given up in it at the drain's end.
    pub fn unfinished(&self) -> u64 {
        self.tally.unfinished
    }

    /// Requests dropped in it.
    pub fn dropped(&self) -> u64 {
        self.tally.dropped
    }

    /// Whole answers that came in it, successes or not.
    pub fn answered(&self) -> u64 {
        self.tally.answered
    }

    /// The mean number of requests sent and not ended, over the whole length, exact.
    pub fn in_flight_mean(&self) -> f64 {
        self.in_flight_ns as f64 / self.length.as_ns() as f64
    }

    /// The mean number of requests due and not ended, over the whole length, exact.
    pub fn outstanding_mean(&self) -> f64 {
        self.outstanding_ns as f64 / self.length.as_ns() as f64
    }

    /// Quantile `q` of the headline response of what was due in it, in ns and to 2 digits; `None`
    /// where there was nothing.
    pub fn response_quantile(&self, q: f64) -> Option<u64> {
        self.histograms?.0.quantile(q)
    }

    /// The headline responses of what was due in it: how many there are.
    pub fn response_count(&self) -> u64 {
        self.histograms.map_or(0, |(response, _)| response.count)
    }

    /// And their sum in ns, exact.
    pub fn response_sum_ns(&self) -> u128 {
        self.tally.response_sum
    }

    /// How many of them lie above `ns`, to 2 digits: in the bucket that holds `ns`, and in higher ones.
    pub fn responses_at_and_above(&self, ns: u64) -> (u64, u64) {
        let Some((response, _)) = self.histograms else { return (0, 0) };
        let mut at_and_above = (0, 0);
        for (low, high, count) in response.buckets.iter().filter(|(_, high, _)| *high >= ns) {
            if low <= ns && ns <= high { at_and_above.0 += count } else { at_and_above.1 += count }
        }
        at_and_above
    }

    /// Quantile `q` of the schedule lag of what was due in it, likewise.
    pub fn schedule_lag_quantile(&self, q: f64) -> Option<u64> {
        self.histograms?.1.quantile(q)
    }
}

/// A distribution to 2 significant digits, with an exact maximum.
#[derive(Clone, Debug)]
struct SmallHistogram {
    buckets: Buckets<u32, SLOTS>,
    count: u64,
    max: u64,
}

impl SmallHistogram {
    fn new() -> Self {
        Self { buckets: Buckets::new(), count: 0, max: 0 }
    }

    #[inline]
    fn record(&mut self, span: Span) {
        self.buckets.record_n(span.as_ns(), 1);
        self.count += 1;
        self.max = self.max.max(span.as_ns());
    }

    fn merge(&mut self, other: &Self) {
        if other.count > 0 {
            self.buckets.merge(&other.buckets);
            self.count += other.count;
            self.max = self.max.max(other.max);
        }
    }

    fn clear(&mut self) {
        if self.count > 0 {
            self.buckets.clear();
            (self.count, self.max) = (0, 0);
        }
    }

    fn quantile(&self, q: f64) -> Option<u64> {
        let rank = (self.count > 0).then(|| nearest_rank(q, self.count))?;
        Some(if rank == self.count { self.max } else { self.buckets.value_at_rank(rank)?.min(self.max) })
    }
}
