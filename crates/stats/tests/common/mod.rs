//! Samples that several tests are made of.

use plimsoll_core::value::Key;
use plimsoll_core::{Outcome, Phase, Sample, Span, Timestamp};

/// A request that is taken up `lag` after it was due, sent at once, and answered well after `service`.
pub(crate) fn answered(due: Span, lag: Span, service: Span) -> Sample {
    let due = Timestamp::ZERO + due;
    let ready = due + lag;
    let end = ready + service;
    Sample {
        seq: 0,
        key: Key::Seq(0),
        operation: 0,
        phase: Phase::Measure,
        due,
        ready,
        sent: Some(ready),
        first_byte: Some(end),
        end,
        read: Some(end),
        outcome: Outcome::Ok,
        status: Some(200),
        waited_for_connection: false,
    }
}
