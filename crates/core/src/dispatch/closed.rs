//! Closed loop: N clients, each sending its next request when the one before has ended.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Action, Dispatcher, Mix, Send};
use crate::outcome::{Failure, Outcome};
use crate::sample::{Phase, Sample};
use crate::time::{Span, Timestamp};
use crate::value::Key;

/// The pause after a failed connect; doubles with each further one.
pub const BACK_OFF_FIRST: Span = Span::from_ms(10);
/// The longest such pause.
pub const BACK_OFF_LONGEST: Span = Span::from_secs(1);

/// When a closed loop begins, is measured, and ends.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The end of the warm-up; every client starts at [`Timestamp::ZERO`].
    pub warmup_end: Timestamp,
    /// Nothing is due at or after it.
    pub end: Timestamp,
    /// The most measured requests of this share; `u64::MAX` without a limit.
    pub requests: u64,
}

/// The clients `share`, `share + of`, `share + 2·of` … of a closed loop.
#[derive(Debug)]
pub struct ClosedLoop {
    clients: Vec<Client>,
    /// Free clients by the moment their next request is due.
    free: BinaryHeap<Reverse<(Timestamp, u32)>>,
    limits: Limits,
    mix: Mix,
    share: u64,
    of: u64,
    /// Requests handed out, warm-up included.
    handed_out: u64,
    measured: u64,
    in_flight: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    step: u64,
    /// Requests in a row that ended without an answer.
    failures: u32,
}

impl ClosedLoop {
    /// The share `share` of `of` of `clients` clients.
    ///
    /// # Panics
    /// When `share` is not below `of`.
    pub fn new(clients: u32, share: u32, of: u32, limits: Limits, mix: Mix) -> Self {
        assert!(share < of, "share {share} of {of}");
        let mine = (0..clients).skip(share as usize).step_by(of as usize).count();
        Self {
            clients: vec![Client::default(); mine],
            free: (0..mine as u32).map(|slot| Reverse((Timestamp::ZERO, slot))).collect(),
            limits,
            mix,
            share: share.into(),
            of: of.into(),
            handed_out: 0,
            measured: 0,
            in_flight: 0,
        }
    }

    /// The pause before a client's next request. A failed connect pauses at once, other failures
    /// without an answer from the second in a row on, so that a server which closes now and then
    /// costs no time, and one which always does is not hammered.
    fn pause(client: &mut Client, sample: &Sample) -> Span {
        let unanswered = matches!(sample.outcome, Outcome::Failed(_)) && !sample.is_answered();
        if !unanswered {
            client.failures = 0;
            return Span::ZERO;
        }
        client.failures = client.failures.saturating_add(1);
        // A connection that turned out to be closed when it was written to is no failed connect.
        let connected =
            sample.sent.is_some() || sample.outcome == Outcome::Failed(Failure::ClosedBeforeResponse);
        let doublings = match connected {
            false => client.failures - 1,
            true if client.failures >= 2 => client.failures - 2,
            true => return Span::ZERO,
        };
        BACK_OFF_FIRST.saturating_mul(1 << doublings.min(10)).min(BACK_OFF_LONGEST)
    }

    fn client_number(&self, slot: u32) -> u32 {
        (u64::from(slot) * self.of + self.share) as u32
    }
}

impl Dispatcher for ClosedLoop {
    #[inline]
    fn poll(&mut self, now: Timestamp) -> Action {
        loop {
            let over = self.measured >= self.limits.requests;
            let Some(&Reverse((due, slot))) = self.free.peek() else {
                // Without a free client only the end of a request can bring the next one. Clients that
                // will not send again leave the loop to last to its end.
                return match () {
                    () if over || now >= self.limits.end => Action::Done,
                    () if self.in_flight > 0 => Action::Wait(Timestamp::MAX),
                    () => Action::Wait(self.limits.end),
                };
            };
            if over {
                return Action::Done;
            }
            if due >= self.limits.end {
                self.free.pop();
                continue;
            }
            if due > now {
                return Action::Wait(due);
            }
            self.free.pop();
            let phase = if due < self.limits.warmup_end { Phase::Warmup } else { Phase::Measure };
            self.measured += u64::from(phase == Phase::Measure);
            let seq = self.handed_out * self.of + self.share;
            self.handed_out += 1;
            self.in_flight += 1;
            let client = &mut self.clients[slot as usize];
            let step = client.step;
            client.step += 1;
            let key = Key::Step { client: self.client_number(slot), step };
            return Action::Send(Send { seq, due, phase, key, operation: self.mix.choose(key) });
        }
    }

    #[inline]
    fn on_end(&mut self, sample: &Sample) {
        let Key::Step { client, .. } = sample.key else { panic!("a closed loop's request has a client") };
        let slot = ((u64::from(client) - self.share) / self.of) as u32;
        let pause = Self::pause(&mut self.clients[slot as usize], sample);
        self.in_flight -= 1;
        self.free.push(Reverse((sample.end + pause, slot)));
    }

    fn stop(&mut self, at: Timestamp) {
        self.limits.end = self.limits.end.min(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::test_operations;

    fn closed(clients: u32, share: u32, of: u32, end_ns: u64, requests: u64) -> ClosedLoop {
        let limits = Limits { warmup_end: Timestamp::ZERO, end: Timestamp::from_ns(end_ns), requests };
        ClosedLoop::new(clients, share, of, limits, Mix::new(&test_operations(&[1]), 1))
    }

    fn ended(send: Send, end_ns: u64, outcome: Outcome) -> Sample {
        let failed = matches!(outcome, Outcome::Failed(Failure::ConnectRefused));
        Sample {
            seq: send.seq,
            key: send.key,
            operation: send.operation,
            phase: send.phase,
            due: send.due,
            ready: send.due,
            sent: (!failed).then_some(send.due),
            first_byte: None,
            end: Timestamp::from_ns(end_ns),
            read: None,
            outcome,
            status: (outcome == Outcome::Ok).then_some(200),
            waited_for_connection: false,
        }
    }

    fn send(dispatcher: &mut ClosedLoop, now_ns: u64) -> Send {
        match dispatcher.poll(Timestamp::from_ns(now_ns)) {
            Action::Send(send) => send,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_next_request_is_due_when_the_last_one_ended() {
        let mut d = closed(1, 0, 1, 1000, u64::MAX);
        let first = send(&mut d, 0);
        assert_eq!(d.poll(Timestamp::from_ns(5)), Action::Wait(Timestamp::MAX));
        d.on_end(&ended(first, 70, Outcome::Ok));
        let second = send(&mut d, 90);
        assert_eq!((second.due.as_ns(), second.key), (70, Key::Step { client: 0, step: 1 }));
        d.on_end(&ended(second, 1000, Outcome::Ok));
        assert_eq!(d.poll(Timestamp::from_ns(1000)), Action::Done, "nothing is due at the end itself");
    }

    #[test]
    fn a_count_ends_the_loop_exactly() {
        // CLI-03: -n 1 with a duration sends one request.
        let mut d = closed(4, 0, 1, u64::MAX, 1);
        let only = send(&mut d, 0);
        assert_eq!(d.poll(Timestamp::ZERO), Action::Done);
        d.on_end(&ended(only, 7, Outcome::Ok));
        assert_eq!(d.poll(Timestamp::from_ns(7)), Action::Done);
    }

    #[test]
    fn failed_connects_back_off_from_10_ms_doubling_to_1_s() {
        let mut d = closed(1, 0, 1, u64::MAX, u64::MAX);
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..9 {
            let s = send(&mut d, now);
            d.on_end(&ended(s, now, Outcome::Failed(Failure::ConnectRefused)));
            let Action::Wait(until) = d.poll(Timestamp::from_ns(now)) else { panic!("no pause") };
            pauses.push((until.as_ns() - now) / 1_000_000);
            now = until.as_ns();
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        let s = send(&mut d, now);
        d.on_end(&ended(s, now, Outcome::Ok));
        let s = send(&mut d, now);
        d.on_end(&ended(s, now, Outcome::Failed(Failure::Reset)));
        assert_eq!(send(&mut d, now).due.as_ns(), now, "one reset costs no pause");
    }

    #[test]
    fn an_error_that_is_an_answer_costs_no_pause_and_one_that_turns_a_connection_away_does() {
        let mut d = closed(1, 0, 1, u64::MAX, u64::MAX);
        for failure in [Failure::Status(503), Failure::SqlState(*b"40001")].repeat(3) {
            let s = send(&mut d, 0);
            d.on_end(&ended(s, 0, Outcome::Failed(failure)));
        }
        let s = send(&mut d, 0);
        let sample = ended(s, 0, Outcome::Failed(Failure::SqlState(*b"53300")));
        d.on_end(&Sample { sent: None, ..sample });
        assert_eq!(d.poll(Timestamp::ZERO), Action::Wait(Timestamp::from_ns(10_000_000)));
    }

    #[test]
    fn shares_hold_every_client_once() {
        let mut clients: Vec<u32> = (0..3)
            .flat_map(|share| {
                let mut d = closed(7, share, 3, u64::MAX, u64::MAX);
                std::iter::from_fn(move || match d.poll(Timestamp::ZERO) {
                    Action::Send(Send { key: Key::Step { client, .. }, .. }) => Some(client),
                    _ => None,
                })
            })
            .collect();
        clients.sort_unstable();
        assert_eq!(clients, [0, 1, 2, 3, 4, 5, 6]);
    }
}
