//! Open loop: requests become due by a schedule, whatever the server does.

use super::{Action, Dispatcher, Mix, Send};
use crate::sample::{Phase, Sample};
use crate::schedule::{Arrival, Schedule};
use crate::time::Timestamp;
use crate::value::Key;

/// The open loop's share of one worker: a warm-up schedule, then the measured one.
#[derive(Debug)]
pub struct OpenLoop {
    warmup: Option<Schedule>,
    measured: Schedule,
    mix: Mix,
    /// How many requests the warm-up had, all workers' together: the measured ones count on.
    warmup_count: u64,
    next: Option<(Phase, Arrival)>,
    stopped_at: Timestamp,
}

impl OpenLoop {
    /// Sends `warmup`, where there is one, and then `measured`.
    pub fn new(warmup: Option<Schedule>, measured: Schedule, mix: Mix) -> Self {
        let mut this =
            Self { warmup, measured, mix, warmup_count: 0, next: None, stopped_at: Timestamp::MAX };
        this.advance();
        this
    }

    fn advance(&mut self) {
        self.next = None;
        if let Some(warmup) = &mut self.warmup {
            if let Some(arrival) = warmup.next() {
                self.next = Some((Phase::Warmup, arrival));
                return;
            }
            self.warmup_count = warmup.passed();
            self.warmup = None;
        }
        self.next = self.measured.next().map(|arrival| (Phase::Measure, arrival));
    }
}

impl Dispatcher for OpenLoop {
    #[inline]
    fn poll(&mut self, now: Timestamp) -> Action {
        let Some((phase, arrival)) = self.next.filter(|(_, arrival)| arrival.due < self.stopped_at) else {
            // After its last request a schedule still lasts to its end.
            let end =
                if self.measured.is_limit_reached() { now } else { self.measured.end().min(self.stopped_at) };
            return if end > now { Action::Wait(end) } else { Action::Done };
        };
        if arrival.due > now {
            return Action::Wait(arrival.due);
        }
        self.advance();
        let seq = match phase {
            Phase::Warmup => arrival.seq,
            Phase::Measure => self.warmup_count + arrival.seq,
        };
        let key = Key::Seq(seq);
        Action::Send(Send { seq, due: arrival.due, phase, key, operation: self.mix.choose(key) })
    }

    fn on_end(&mut self, _: &Sample) {}

    fn stop(&mut self, at: Timestamp) {
        self.stopped_at = self.stopped_at.min(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrival::ArrivalLaw;
    use crate::plan::test_operations;
    use crate::profile::RateProfile;
    use crate::random::Stream;
    use crate::time::Span;

    fn schedule(name: &str, ms: u64, start_ms: u64) -> Schedule {
        let profile = RateProfile::constant("1000/s".parse().unwrap(), Span::from_ms(ms)).unwrap();
        Schedule::new(
            profile,
            ArrivalLaw::Even,
            Stream::new(1, name),
            Timestamp::ZERO + Span::from_ms(start_ms),
        )
    }

    fn drive(mut open: OpenLoop) -> Vec<Send> {
        let (mut now, mut sent) = (Timestamp::ZERO, Vec::new());
        loop {
            match open.poll(now) {
                Action::Send(send) => sent.push(send),
                Action::Wait(until) => now = until,
                Action::Done => return sent,
            }
        }
    }

    #[test]
    fn warm_up_comes_before_the_measured_part_and_on_top_of_it() {
        let mix = Mix::new(&test_operations(&[1]), 1);
        let sent = drive(OpenLoop::new(Some(schedule("w", 5, 0)), schedule("m", 10, 5), mix));
        assert_eq!(sent.len(), 15);
        assert!(
            sent.iter().enumerate().all(|(i, s)| s.seq == i as u64 && s.due.as_ns() == i as u64 * 1_000_000)
        );
        assert!(sent.iter().all(|s| (s.phase == Phase::Warmup) == (s.seq < 5)));
    }

    #[test]
    fn a_late_worker_gets_the_backlog_at_once_and_nothing_early() {
        let mix = Mix::new(&test_operations(&[1]), 1);
        let mut open = OpenLoop::new(None, schedule("m", 10, 0), mix);
        let now = Timestamp::from_ns(3_500_000);
        let backlog = std::iter::from_fn(|| match open.poll(now) {
            Action::Send(send) => Some(send),
            _ => None,
        });
        assert_eq!(backlog.count(), 4);
        assert_eq!(open.poll(now), Action::Wait(Timestamp::from_ns(4_000_000)));
        open.stop(now);
        assert_eq!(open.poll(now), Action::Done);
    }

    #[test]
    fn operations_are_chosen_by_weight() {
        let mix = Mix::new(&test_operations(&[1, 0, 3]), 1);
        let mut counts = [0u32; 3];
        (0..4000).for_each(|seq| counts[mix.choose(Key::Seq(seq)) as usize] += 1);
        assert!(counts[1] == 0 && (850..1150).contains(&counts[0]), "{counts:?}");
    }
}
