//! The one account: how many requests were due and how each of them ended.

use plimsoll_core::{DropReason, Outcome, Sample, Timestamp};

/// Counts of requests by their end, for one phase of a run.
///
/// They are conserved: due = ok + failed + timed_out + unfinished + dropped, and
/// sent = due − dropped − failed_unsent − unfinished_unsent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that became due.
    pub due: u64,
    /// Those whose first copy began to leave.
    pub sent: u64,
    /// Whole answers that are successes.
    pub ok: u64,
    /// Whole answers that are not, and requests without an answer for another reason than time.
    pub failed: u64,
    /// Those of `failed` that never left.
    pub failed_unsent: u64,
    /// Sent and not answered within the timeout.
    pub timed_out: u64,
    /// Not answered, or not even sent, when the drain ended.
    pub unfinished: u64,
    /// Those of `unfinished` that never left.
    pub unfinished_unsent: u64,
    /// Due and by policy never sent, in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Copies sent, the first one of each request included.
    pub attempts: u64,
    /// Requests that stood in line because no further connection might be opened.
    pub waited_for_connection: u64,
    /// Whole answers, successes or not.
    pub answered: u64,
    /// Those of `sent` that left inside the rate window.
    pub sent_in_window: u64,
    /// Those of `answered` whose last byte came inside the rate window.
    pub answered_in_window: u64,
    /// Those of `ok` whose last byte came inside the rate window.
    pub ok_in_window: u64,
}

impl Counts {
    /// Counts `sample`, the rate window being everything before `window_end`.
    #[inline]
    pub(crate) fn record(&mut self, sample: &Sample, window_end: Timestamp) {
        let ended_in_window = u64::from(sample.end < window_end);
        let unsent = u64::from(sample.sent.is_none());
        self.due += 1;
        self.waited_for_connection += u64::from(sample.waited_for_connection);
        if let Some(sent) = sample.sent {
            self.sent += 1;
            self.sent_in_window += u64::from(sent < window_end);
        }
        match sample.outcome {
            Outcome::Ok => {
                self.ok += 1;
                self.ok_in_window += ended_in_window;
            }
            Outcome::Failed(_) => {
                self.failed += 1;
                self.failed_unsent += unsent;
            }
            Outcome::TimedOut => self.timed_out += 1,
            Outcome::Unfinished => {
                self.unfinished += 1;
                self.unfinished_unsent += unsent;
            }
            Outcome::Dropped(reason) => self.dropped[reason as usize] += 1,
        }
        if sample.is_answered() {
            self.answered += 1;
            self.answered_in_window += ended_in_window;
        }
    }

    /// Adds what `other` counted.
    pub fn merge(&mut self, other: &Self) {
        // Taken apart so that a field added later cannot be forgotten here.
        let Self {
            due,
            sent,
            ok,
            failed,
            failed_unsent,
            timed_out,
            unfinished,
            unfinished_unsent,
            dropped,
            attempts,
            waited_for_connection,
            answered,
            sent_in_window,
            answered_in_window,
            ok_in_window,
        } = other;
        self.due += due;
        self.sent += sent;
        self.ok += ok;
        self.failed += failed;
        self.failed_unsent += failed_unsent;
        self.timed_out += timed_out;
        self.unfinished += unfinished;
        self.unfinished_unsent += unfinished_unsent;
        for (mine, theirs) in self.dropped.iter_mut().zip(dropped) {
            *mine += theirs;
        }
        self.attempts += attempts;
        self.waited_for_connection += waited_for_connection;
        self.answered += answered;
        self.sent_in_window += sent_in_window;
        self.answered_in_window += answered_in_window;
        self.ok_in_window += ok_in_window;
    }

    /// Requests dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Requests that were not dropped: ok + failed + timed_out + unfinished.
    pub fn undropped(&self) -> u64 {
        self.ok + self.failed + self.timed_out + self.unfinished
    }

    /// ok / (ok + failed + timed_out + unfinished), 0..=1; `None` where that is nothing.
    pub fn success_ratio(&self) -> Option<f64> {
        let all = self.undropped();
        (all > 0).then(|| self.ok as f64 / all as f64)
    }

    /// Sent inside the rate window of all due: offered load divided by intended load, 0..=1; `None`
    /// where nothing was due.
    pub fn offered_ratio(&self) -> Option<f64> {
        (self.due > 0).then(|| self.sent_in_window as f64 / self.due as f64)
    }

    /// Checks that no request was lost or counted twice.
    ///
    /// # Panics
    /// When the account does not add up: a fault of this program.
    pub fn assert_conserved(&self) {
        assert_eq!(self.due, self.undropped() + self.dropped_total(), "requests were lost: {self:?}");
        assert_eq!(
            self.sent + self.dropped_total() + self.failed_unsent + self.unfinished_unsent,
            self.due,
            "sends were lost: {self:?}"
        );
        assert!(self.ok <= self.answered && self.answered <= self.ok + self.failed, "{self:?}");
        assert!(self.sent_in_window <= self.sent, "{self:?}");
        assert!(self.answered_in_window <= self.answered && self.ok_in_window <= self.ok, "{self:?}");
    }
}
