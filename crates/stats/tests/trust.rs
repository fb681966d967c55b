//! The verdict on a run: where each check turns, and whose fault what is.

use plimsoll_stats::Trust;
use plimsoll_stats::trust::{Check, CheckStatus, Lengths, Limit, Observed, Subject, Verdict};

fn lag(p99_ns: u64) -> Option<Lengths> {
    Some(Lengths { p50_ns: p99_ns / 4, p99_ns, mean_ns: p99_ns as f64 / 3.0 })
}

fn response(p50_ns: u64, p99_ns: u64) -> Option<Lengths> {
    Some(Lengths { p50_ns, p99_ns, mean_ns: 1.2 * p50_ns as f64 })
}

/// An open loop with nothing to say against it: response 2 ms at the median, 5 ms at p99.
fn sound() -> Observed {
    Observed {
        open_loop: true,
        kernel_stamps: true,
        offered_ratio: Some(1.0),
        dropped_ratio: Some(0.0),
        answered_ratio: Some(0.999),
        schedule_lag: lag(20_000),
        read_lag: lag(20_000),
        response: response(2_000_000, 5_000_000),
        busy_ratio: Some(0.3),
        waited_ratio: Some(0.0),
        success_ratio: Some(1.0),
        own_failures_ratio: Some(0.0),
        outstanding_growth: Some(1.1),
    }
}

fn judged(seen: Observed) -> (Verdict, Limit) {
    let trust = Trust::of(&seen);
    (trust.verdict, trust.limited_by)
}

#[test]
fn a_sound_run_is_valid_and_every_check_is_listed() {
    let trust = Trust::of(&sound());
    assert_eq!((trust.verdict, trust.limited_by), (Verdict::Valid, Limit::None));
    let made = |check: &&Check| check.status == CheckStatus::Ok;
    assert_eq!((trust.checks.len(), trust.checks.iter().filter(made).count()), (13, 6));
    for (check, subject) in trust.checks.iter().zip(Subject::ALL) {
        assert_eq!((check.subject, trust.check(subject)), (subject, *check));
        assert_eq!(check.status == CheckStatus::NotMade, check.value.is_none());
        assert_eq!(check.value.is_none(), check.bound.is_none());
    }
}

/// The last value within a bound and the first beyond it.
#[test]
fn checks_turn_at_their_bounds() {
    let status = |subject, seen: Observed| Trust::of(&seen).check(subject).status;
    use CheckStatus::{Fail, Ok, Warn};
    for (subject, within, beyond, otherwise) in [
        (
            Subject::RateMet,
            Observed { offered_ratio: Some(0.99), ..sound() },
            Observed { offered_ratio: Some(0.9899), ..sound() },
            Fail,
        ),
        // 5 % of 2 ms.
        (
            Subject::SendsInTime,
            Observed { schedule_lag: lag(100_000), ..sound() },
            Observed { schedule_lag: lag(100_001), ..sound() },
            Fail,
        ),
        // 50 µs, where 5 % of the response is less.
        (
            Subject::SendsInTime,
            Observed { schedule_lag: lag(50_000), response: response(9_000, 90_000), ..sound() },
            Observed { schedule_lag: lag(50_001), response: response(9_000, 90_000), ..sound() },
            Fail,
        ),
        // Without stamps the gaps between looks at the sockets are in every response.
        (
            Subject::ReadsInTime,
            Observed { kernel_stamps: false, read_lag: lag(100_000), ..sound() },
            Observed { kernel_stamps: false, read_lag: lag(100_001), ..sound() },
            Fail,
        ),
        (
            Subject::ReadsInTime,
            Observed { read_lag: lag(100_000), ..sound() },
            Observed { read_lag: lag(100_001), ..sound() },
            Warn,
        ),
        (
            Subject::ReadsInTime,
            Observed { open_loop: false, read_lag: lag(100_000), ..sound() },
            Observed { open_loop: false, read_lag: lag(100_001), ..sound() },
            Fail,
        ),
        (
            Subject::GeneratorCpu,
            Observed { busy_ratio: Some(0.899), ..sound() },
            Observed { busy_ratio: Some(0.9), ..sound() },
            Fail,
        ),
        (
            Subject::Connections,
            Observed { waited_ratio: Some(0.01), ..sound() },
            Observed { waited_ratio: Some(0.0101), ..sound() },
            Warn,
        ),
        (
            Subject::Success,
            Observed { success_ratio: Some(0.99), ..sound() },
            Observed { success_ratio: Some(0.9899), ..sound() },
            Fail,
        ),
    ] {
        assert_eq!((status(subject, within), status(subject, beyond)), (Ok, otherwise), "{subject:?}");
    }
}

#[test]
fn what_does_not_apply_is_not_made() {
    let status = |subject, seen: Observed| Trust::of(&seen).check(subject).status;
    let closed = Observed { open_loop: false, offered_ratio: Some(0.5), ..sound() };
    assert_eq!(status(Subject::RateMet, closed), CheckStatus::NotMade);
    assert_eq!(status(Subject::SendsInTime, closed), CheckStatus::NotMade);
    let unread = Observed { read_lag: None, ..sound() };
    assert_eq!(status(Subject::ReadsInTime, unread), CheckStatus::NotMade);
    let nothing = Trust::of(&Observed::default());
    assert!(nothing.checks.iter().all(|check| check.status == CheckStatus::NotMade));
}

#[test]
fn verdicts_name_whose_fault_it_is() {
    use Limit::{Connections, Generator, Server};
    use Verdict::{Invalid, Suspect, Valid};
    for (why, seen, verdict, limit) in [
        ("no time to spare", Observed { busy_ratio: Some(0.95), ..sound() }, Invalid, Generator),
        (
            "a little late: 4 % of the tail",
            Observed { schedule_lag: lag(200_000), ..sound() },
            Suspect,
            Limit::None,
        ),
        ("the tail is lateness", Observed { schedule_lag: lag(2_500_000), ..sound() }, Invalid, Generator),
        (
            "so late that sends missed the end, though the server is later still",
            Observed {
                schedule_lag: lag(900_000_000),
                response: response(2_000_000_000, 4_000_000_000),
                offered_ratio: Some(0.9),
                ..sound()
            },
            Invalid,
            Generator,
        ),
        (
            "so late in reading that no connection was free",
            Observed {
                read_lag: lag(90_000_000),
                response: response(2_000_000_000, 4_000_000_000),
                offered_ratio: Some(0.3),
                ..sound()
            },
            Invalid,
            Generator,
        ),
        (
            "a little late, while requests were dropped for other reasons",
            Observed { schedule_lag: lag(200_000), offered_ratio: Some(0.9), ..sound() },
            Suspect,
            Server,
        ),
        (
            "now and then late, while all that did not leave was dropped by policy",
            Observed {
                schedule_lag: lag(25_000_000),
                response: response(2_000_000_000, 4_000_000_000),
                offered_ratio: Some(0.025),
                dropped_ratio: Some(0.975),
                ..sound()
            },
            Suspect,
            Server,
        ),
        ("a limit that was asked for", Observed { waited_ratio: Some(0.4), ..sound() }, Valid, Connections),
        (
            "a limit that kept the load from leaving",
            Observed { waited_ratio: Some(0.9), offered_ratio: Some(0.6), ..sound() },
            Suspect,
            Connections,
        ),
        (
            "a backlog in front of the server",
            Observed { answered_ratio: Some(0.9), outstanding_growth: Some(3.0), ..sound() },
            Valid,
            Server,
        ),
        (
            "answers of a short run that came after it",
            Observed { answered_ratio: Some(0.9), ..sound() },
            Valid,
            Limit::None,
        ),
        ("failures", Observed { success_ratio: Some(0.5), ..sound() }, Suspect, Server),
        (
            "failures of this machine",
            Observed { success_ratio: Some(0.5), own_failures_ratio: Some(0.4), ..sound() },
            Invalid,
            Generator,
        ),
        (
            "answers read late, and stamped",
            Observed { read_lag: lag(4_000_000), ..sound() },
            Valid,
            Limit::None,
        ),
        (
            "clients of whose time half is the generator's, though the tail is not",
            Observed {
                open_loop: false,
                read_lag: Some(Lengths { p50_ns: 1_300_000, p99_ns: 1_500_000, mean_ns: 1_300_000.0 }),
                ..sound()
            },
            Invalid,
            Generator,
        ),
        (
            "an open loop without stamps, whose answers lie about unread",
            Observed { kernel_stamps: false, read_lag: lag(5_000_000), ..sound() },
            Invalid,
            Generator,
        ),
        (
            "gaps between looks that are half as long as responses",
            Observed { kernel_stamps: false, read_lag: lag(2_600_000), ..sound() },
            Suspect,
            Limit::None,
        ),
        (
            "clients that wait for the generator",
            Observed { open_loop: false, read_lag: lag(4_000_000), ..sound() },
            Invalid,
            Generator,
        ),
    ] {
        assert_eq!(judged(seen), (verdict, limit), "{why}");
    }
}
