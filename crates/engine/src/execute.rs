//! The seam between deciding what is sent and sending it.
//!
//! The worker decides: when a request is taken up, whether a copy goes out, how it ends, what is
//! recorded. An executor carries single attempts to an end. [`crate::pool::Pool`] does so over
//! connections of its own; a bridge to somebody's own client does so on threads of its own and wakes
//! the worker through a descriptor that its [`System`] watches.

use plimsoll_core::value::Key;
use plimsoll_core::{Failure, Timestamp};
use plimsoll_proto::Answer;
use plimsoll_stats::Recorder;

use crate::slots::Id;
use crate::system::{Ready, System};

/// One copy of a request, to be sent once.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// The worker's name for the request; all its copies bear the same.
    pub request: Id,
    /// The operation's index in the plan.
    pub operation: u16,
    /// What the request's values depend on.
    pub key: Key,
}

/// Whether an executor can take an attempt on now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It can, at once.
    Free,
    /// It can, by opening a connection beside the so many that it has.
    MayOpen {
        /// Connections open or being opened.
        open: usize,
    },
    /// No connection is free, and no further one may be opened.
    AtConnectionLimit,
    /// No connection is free, and as many are being opened as may be at once.
    Connecting,
}

impl Room {
    /// True when an attempt can be taken on.
    pub fn takes_one(self) -> bool {
        matches!(self, Self::Free | Self::MayOpen { .. })
    }
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Its first byte is about to leave.
    Sent {
        /// The request.
        request: Id,
        /// A reading taken immediately before the first write.
        at: Timestamp,
    },
    /// It has come to an end, and none will follow.
    Ended {
        /// The request.
        request: Id,
        /// How.
        end: AttemptEnd,
    },
}

/// The end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptEnd {
    /// Its send; `None` where it never left.
    pub sent: Option<Timestamp>,
    /// The arrival of the first byte of its answer.
    pub first_byte: Option<Timestamp>,
    /// The arrival of the last byte, or the moment of the failure or the timeout.
    pub at: Timestamp,
    /// When the last byte had been read.
    pub read: Option<Timestamp>,
    /// The kind of end.
    pub result: AttemptResult,
}

/// The kind of an attempt's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// A whole answer.
    Answered(Answer),
    /// No whole answer.
    Failed(Failure),
    /// None within the timeout.
    TimedOut,
}

/// Carries attempts to their ends.
///
/// After every call that takes `&mut self` there may be news in [`Execute::next_progress`].
pub trait Execute<S: System> {
    /// Whether [`Execute::submit`] may be called for `operation` now: with the first two answers.
    fn room(&self, operation: u16) -> Room;

    /// Takes an attempt on: sends it at `now`, or when a connection is there for it.
    fn submit(&mut self, system: &mut S, attempt: Attempt, now: Timestamp);

    /// Forgets the request's attempts that have not been sent.
    fn forget_unsent(&mut self, request: Id);

    /// Nothing is waited for any more. What was sent is no longer wanted, and its end is not told.
    fn abandon(&mut self, system: &mut S);

    /// Something can be learned of a socket. True when there is more to read there than one turn
    /// should take, so that it must be called again soon.
    fn on_ready(&mut self, system: &mut S, ready: Ready) -> bool;

    /// When [`Execute::on_timer`] wants to be called next; [`Timestamp::MAX`] for never.
    fn next_timer(&self) -> Timestamp;

    /// Time has passed.
    fn on_timer(&mut self, system: &mut S, now: Timestamp);

    /// The next piece of news.
    fn next_progress(&mut self) -> Option<Progress>;

    /// Hands over what there is to record besides the ends of attempts: connect times, bytes, the
    /// texts of failures.
    fn report(&mut self, recorder: &mut Recorder);
}
