//! What is kept of one request: its moments, its end, and the spans between them.

use crate::outcome::{Failure, Outcome};
use crate::time::{Span, Timestamp};
use crate::value::Key;

/// The part of the run a request belongs to: the one it was due in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the measured part: sent and counted apart.
    Warmup,
    /// The measured part, its drain included.
    Measure,
}

/// One request from due to end.
///
/// The moments stand in this order: due ≤ ready ≤ sent ≤ first_byte ≤ end ≤ read. What did not
/// happen is absent, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its place in the run.
    pub seq: u64,
    /// What its values depend on; for clients, who sent it and how many before.
    pub key: Key,
    /// The index of its operation in the plan.
    pub operation: u16,
    /// The part of the run it was due in.
    pub phase: Phase,
    /// When it should have left.
    pub due: Timestamp,
    /// When the worker took it up, or stood at a limit.
    pub ready: Timestamp,
    /// When its first copy began to leave; `None` where none did.
    pub sent: Option<Timestamp>,
    /// When the first byte of the answer reached this machine.
    pub first_byte: Option<Timestamp>,
    /// The moment of its end: the last byte, the failure, the timeout, the drain's end.
    pub end: Timestamp,
    /// When the worker had read the last byte; `None` without a whole answer.
    pub read: Option<Timestamp>,
    /// How it ended.
    pub outcome: Outcome,
    /// The status of a whole answer.
    pub status: Option<u16>,
    /// True when it stood in line because no further connection might be opened.
    pub waited_for_connection: bool,
}

impl Sample {
    /// The generator's own lateness: ready − due.
    pub fn schedule_lag(&self) -> Span {
        self.ready.since(self.due)
    }

    /// The wait for a connection: sent − ready, or up to the end where it was never sent.
    pub fn blocked(&self) -> Span {
        self.sent.unwrap_or(self.end).since(self.ready)
    }

    /// Network and server, as the client sees them: end − sent.
    pub fn service(&self) -> Option<Span> {
        self.sent.map(|sent| self.end.since(sent))
    }

    /// What a user would have waited: end − due.
    pub fn response(&self) -> Span {
        self.end.since(self.due)
    }

    /// From the send to the first byte of the answer.
    pub fn first_byte_after(&self) -> Option<Span> {
        Some(self.first_byte?.since(self.sent?))
    }

    /// The generator's lateness in reading: read − end.
    pub fn read_lag(&self) -> Option<Span> {
        self.read.map(|read| read.since(self.end))
    }

    /// True where a whole answer came, a success or not.
    pub fn is_answered(&self) -> bool {
        match self.outcome {
            Outcome::Ok => true,
            // A server that turned a connection away answered no request.
            Outcome::Failed(failure) => failure.is_answer() && self.sent.is_some(),
            Outcome::TimedOut | Outcome::Unfinished | Outcome::Dropped(_) => false,
        }
    }

    /// Checks the order of the moments and the law response = schedule_lag + blocked + service.
    ///
    /// # Panics
    /// When it does not hold: a fault of this program, whatever the server sent.
    pub fn assert_lawful(&self) {
        let service = self.service().unwrap_or(Span::ZERO);
        assert_eq!(self.response(), self.schedule_lag() + self.blocked() + service, "{self:?}");
        let _ = (self.first_byte_after(), self.read_lag());
        assert!(self.first_byte.is_none_or(|first| first <= self.end), "{self:?}");
        assert!(self.status.is_none() || self.is_answered(), "{self:?}");
        match self.outcome {
            Outcome::Ok | Outcome::TimedOut => assert!(self.sent.is_some(), "{self:?}"),
            Outcome::Failed(Failure::Status(_)) => assert!(self.sent.is_some(), "{self:?}"),
            Outcome::Dropped(_) => assert!(self.sent.is_none(), "{self:?}"),
            Outcome::Failed(_) | Outcome::Unfinished => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Sample {
        let at = Timestamp::from_ns;
        Sample {
            seq: 0,
            key: Key::Seq(0),
            operation: 0,
            phase: Phase::Measure,
            due: at(10),
            ready: at(12),
            sent: Some(at(15)),
            first_byte: Some(at(20)),
            end: at(25),
            read: Some(at(26)),
            outcome: Outcome::Ok,
            status: Some(200),
            waited_for_connection: false,
        }
    }

    #[test]
    fn spans_add_up_to_the_response() {
        let s = sample();
        s.assert_lawful();
        let ns = |span: Option<Span>| span.map(Span::as_ns);
        assert_eq!((s.schedule_lag().as_ns(), s.blocked().as_ns(), s.response().as_ns()), (2, 3, 15));
        assert_eq!(
            (ns(s.service()), ns(s.first_byte_after()), ns(s.read_lag())),
            (Some(10), Some(5), Some(1))
        );
    }

    #[test]
    fn what_never_left_has_no_service_and_was_blocked_to_its_end() {
        let outcome = Outcome::Failed(Failure::ConnectRefused);
        let s = Sample { sent: None, first_byte: None, read: None, status: None, outcome, ..sample() };
        s.assert_lawful();
        assert_eq!((s.service(), s.blocked().as_ns()), (None, 13));
    }

    #[test]
    #[should_panic(expected = "wrong order")]
    fn a_send_before_the_due_time_is_a_fault() {
        Sample { ready: Timestamp::from_ns(9), ..sample() }.assert_lawful();
    }
}
