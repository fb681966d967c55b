//! Dispatchers: which request is sent when, decided without a clock or a socket.
//!
//! The worker drives one:
//!
//! 1. `poll(now)` until it no longer answers [`Action::Send`]. A send is never handed out before it
//!    is due, and each is handed out once.
//! 2. On [`Action::Wait`], wait until that moment or until a request ends.
//! 3. `on_end(…)` for each request handed out, once, when it ends; then `poll` again. Those that are cut
//!    off at the drain's end are not told.
//! 4. After [`Action::Done`] nothing more will be due.

mod closed;
mod open;

pub use closed::{BACK_OFF_FIRST, BACK_OFF_LONGEST, ClosedLoop, Limits};
pub use open::OpenLoop;

use crate::plan::Operation;
use crate::random::Stream;
use crate::sample::{Phase, Sample};
use crate::time::Timestamp;
use crate::value::Key;

/// What the worker should do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this request: it is due.
    Send(Send),
    /// Nothing is due before this moment; [`Timestamp::MAX`] when only the end of a request can
    /// make one due.
    Wait(Timestamp),
    /// Nothing will be due any more: a request count is reached, or the schedule's end has come.
    Done,
}

/// A request that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// Its place in the run, from 0.
    pub seq: u64,
    /// When it should leave.
    pub due: Timestamp,
    /// The part of the run it is due in.
    pub phase: Phase,
    /// What its values depend on; for clients, who sends it and how many before.
    pub key: Key,
    /// The index of its operation in the plan.
    pub operation: u16,
}

/// A model of load, as a machine that is asked and told.
pub trait Dispatcher {
    /// What to do at `now`; `now` never goes back.
    fn poll(&mut self, now: Timestamp) -> Action;

    /// A request that was handed out has ended.
    fn on_end(&mut self, sample: &Sample);

    /// Nothing that would be due at or after `at` is sent any more. `at` is the present.
    fn stop(&mut self, at: Timestamp);
}

impl<D: Dispatcher + ?Sized> Dispatcher for Box<D> {
    #[inline]
    fn poll(&mut self, now: Timestamp) -> Action {
        (**self).poll(now)
    }

    #[inline]
    fn on_end(&mut self, sample: &Sample) {
        (**self).on_end(sample);
    }

    fn stop(&mut self, at: Timestamp) {
        (**self).stop(at);
    }
}

/// The choice of an operation for each request, by weight.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Running sums of the weights; the last is the total.
    sums: Vec<u64>,
    stream: Stream,
}

impl Mix {
    /// Chooses among `operations` in the run seeded with `seed`.
    ///
    /// # Panics
    /// When there is no operation or no weight.
    pub fn new(operations: &[Operation], seed: u64) -> Self {
        let sums: Vec<u64> = operations
            .iter()
            .scan(0, |sum, operation| {
                *sum += operation.weight;
                Some(*sum)
            })
            .collect();
        assert!(sums.last().is_some_and(|total| *total > 0), "a plan has an operation with a weight");
        Self { sums, stream: Stream::new(seed, "operation") }
    }

    /// The operation of the request `key` stands for.
    fn choose(&self, key: Key) -> u16 {
        if self.sums.len() == 1 {
            return 0;
        }
        let total = self.sums[self.sums.len() - 1];
        let point = match key {
            Key::Seq(seq) => self.stream.below(seq, total),
            Key::Step { client, step } => self.stream.child(u64::from(client)).below(step, total),
        };
        self.sums.partition_point(|sum| *sum <= point) as u16
    }
}
