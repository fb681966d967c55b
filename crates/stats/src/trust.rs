//! The checks that tell whether a run's numbers can be believed, and what follows from them.
//!
//! Each bound stands here and nowhere else. A check that was not made, because it does not apply to the
//! run or does not exist yet, is listed as such, and no verdict rests on it.

/// Less than this share of the intended load sent in time: it was not the load asked for.
pub const OFFERED_MIN_RATIO: f64 = 0.99;
/// The generator's lateness p99 up to this is fine whatever the response …
pub const LAG_FREE_NS: u64 = 50_000;
/// … and up to this share of the response's median too.
pub const LAG_MAX_RATIO: f64 = 0.05;
/// Lateness from this share of the response on, p99 of p99 or mean of mean, is most of what it shows.
pub const LAG_DECIDES_RATIO: f64 = 0.5;
/// A worker that is so late keeps sends back: it opens further connections only while they bring answers.
pub const LAG_KEEPS_BACK_NS: u64 = 20_000_000;
/// A worker whose time is work to this share has no room for being in time.
pub const BUSY_MAX_RATIO: f64 = 0.9;
/// More than this share of requests waiting at the connection limit: connections are the limit.
pub const WAITED_MAX_RATIO: f64 = 0.01;
/// Fewer successes than this: latency is that of the survivors.
pub const SUCCESS_MIN_RATIO: f64 = 0.99;
/// Outstanding requests that grow by this factor from one half of a run to the other are a backlog: in
/// a steady run it is about 1, with a backlog from nothing 3.
pub const BACKLOG_GROWTH: f64 = 1.5;

/// What was seen of a run as a whole. `None` where it does not apply or was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// Requests became due whatever the server did.
    pub open_loop: bool,
    /// Answers were stamped by the kernel, so that being late in reading harms no latency.
    pub kernel_stamps: bool,
    /// Offered / intended, 0..=1.
    pub offered_ratio: Option<f64>,
    /// Requests dropped by policy, of all due.
    pub dropped_ratio: Option<f64>,
    /// Whole answers inside the rate window for each request sent in it, 0..=1.
    pub answered_ratio: Option<f64>,
    /// schedule_lag.
    pub schedule_lag: Option<Lengths>,
    /// read_lag; without the kernel's stamps the gaps between looks at the sockets, which stand for it.
    pub read_lag: Option<Lengths>,
    /// The headline response.
    pub response: Option<Lengths>,
    /// The busiest worker's share of its time that was work, spinning apart.
    pub busy_ratio: Option<f64>,
    /// Requests that waited at the connection limit, of all due.
    pub waited_ratio: Option<f64>,
    /// ok / (ok + failed + timed_out + unfinished).
    pub success_ratio: Option<f64>,
    /// Failures that are this machine's doing (no descriptor, no local port), of the same.
    pub own_failures_ratio: Option<f64>,
    /// Mean outstanding of the run's second half / that of its first, see
    /// [`crate::Series::outstanding_growth`].
    pub outstanding_growth: Option<f64>,
}

impl Observed {
    /// What was dropped makes up the load that did not leave.
    fn drops_explain(&self) -> bool {
        let left = self.offered_ratio.unwrap_or(1.0) + self.dropped_ratio.unwrap_or(0.0);
        left >= OFFERED_MIN_RATIO
    }

    /// Late reads change numbers: the next request of a client leaves later, and without the kernel's stamps an
    /// answer seems to come when it is read. In an open loop with stamps they are in no number.
    fn late_reads_count(&self) -> bool {
        !(self.open_loop && self.kernel_stamps)
    }
}

/// What is asked of a distribution of spans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lengths {
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The mean.
    pub mean_ns: f64,
}

/// A check of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The load was the one asked for.
    RateMet,
    /// Requests left when they were due.
    SendsInTime,
    /// Answers were read when they had come.
    ReadsInTime,
    /// No worker was at the end of its strength.
    GeneratorCpu,
    /// Requests did not wait at the connection limit.
    Connections,
    /// Gaps between sends follow the law.
    ArrivalsAsAsked,
    /// The run has no trend.
    Steady,
    /// What was measured is past its beginning.
    WarmUp,
    /// How much neighbouring windows hang together.
    Independence,
    /// Mean numbers in the system are rate × mean time.
    LittlesLaw,
    /// Requests succeeded.
    Success,
    /// Enough values lie beyond each percentile.
    Samples,
    /// The clock went on evenly.
    Clock,
}

impl Subject {
    /// All, in the order they are listed.
    pub const ALL: [Self; 13] = [
        Self::RateMet,
        Self::SendsInTime,
        Self::ReadsInTime,
        Self::GeneratorCpu,
        Self::Connections,
        Self::ArrivalsAsAsked,
        Self::Steady,
        Self::WarmUp,
        Self::Independence,
        Self::LittlesLaw,
        Self::Success,
        Self::Samples,
        Self::Clock,
    ];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateMet => "rate met",
            Self::SendsInTime => "generator sends in time",
            Self::ReadsInTime => "generator reads in time",
            Self::GeneratorCpu => "generator CPU",
            Self::Connections => "connections",
            Self::ArrivalsAsAsked => "arrivals as asked",
            Self::Steady => "steady",
            Self::WarmUp => "warm-up",
            Self::Independence => "independence",
            Self::LittlesLaw => "Little's law",
            Self::Success => "success",
            Self::Samples => "samples",
            Self::Clock => "clock",
        }
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckStatus {
    /// Within its bound.
    Ok,
    /// Outside, and worth knowing; the verdict does not rest on it.
    Warn,
    /// Outside.
    Fail,
    /// It was not made.
    NotMade,
}

/// A check and its result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// What was checked.
    pub subject: Subject,
    /// The result.
    pub status: CheckStatus,
    /// What was measured: nanoseconds for a lag, else 0..=1; `None` where it was not.
    pub value: Option<f64>,
    /// What it was held against, in the same unit.
    pub bound: Option<f64>,
}

/// Whether numbers can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Valid,
    /// With the reservation of the checks that failed.
    Suspect,
    /// No: the generator was the limit, so they are its numbers and not the server's.
    Invalid,
}

/// What set the limit of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing that was seen.
    None,
    /// The server answered less than it was sent, or failed.
    Server,
    /// This machine.
    Generator,
    /// The connections that requests were allowed.
    Connections,
}

impl Limit {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Server => "server",
            Self::Generator => "generator",
            Self::Connections => "connections",
        }
    }
}

/// Whether a run's numbers can be believed, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Trust {
    /// The answer.
    pub verdict: Verdict,
    /// What set the limit.
    pub limited_by: Limit,
    /// All of [`Subject::ALL`], in that order.
    pub checks: Vec<Check>,
}

impl Trust {
    /// Judges a run.
    ///
    /// Invalid is a run of which the generator was the limit: a worker without time to spare, lateness
    /// that makes up most of the response or kept sends back, or failures of this machine. An overloaded
    /// server, and a connection limit that somebody asked for, are findings: they make a run suspect where
    /// its rate was not met or requests failed, never invalid.
    pub fn of(seen: &Observed) -> Self {
        let checks: Vec<Check> = Subject::ALL.iter().map(|subject| check(*subject, seen)).collect();
        let off = |subject: Subject| {
            let status = checks.iter().find(|check| check.subject == subject).map(|check| check.status);
            matches!(status, Some(CheckStatus::Warn | CheckStatus::Fail))
        };
        let failed = checks.iter().any(|check| check.status == CheckStatus::Fail);

        let decides = |lag: Option<Lengths>, ratio: f64| match (lag, seen.response) {
            (Some(lag), Some(response)) => {
                lag.p99_ns as f64 >= ratio * response.p99_ns as f64 || lag.mean_ns >= ratio * response.mean_ns
            }
            // Without a response there is nothing but lateness.
            (lag, None) => lag.is_some(),
            (None, _) => false,
        };
        let sends_late = off(Subject::SendsInTime);
        // An answer that comes in the middle of a gap lies unread for half of it.
        let reads_decide = if seen.kernel_stamps { LAG_DECIDES_RATIO } else { 2.0 * LAG_DECIDES_RATIO };
        let reads_late = seen.late_reads_count() && off(Subject::ReadsInTime);
        // Late sends miss the window's end, and a worker that reads late finds no connection free. What
        // they wait for makes the response longer, so this is no question of its share.
        let keeps_back = [seen.schedule_lag, seen.read_lag]
            .into_iter()
            .flatten()
            .any(|lag| lag.p99_ns >= LAG_KEEPS_BACK_NS);
        let generator = off(Subject::GeneratorCpu)
            || sends_late && decides(seen.schedule_lag, LAG_DECIDES_RATIO)
            || reads_late && decides(seen.read_lag, reads_decide)
            || keeps_back && off(Subject::RateMet) && !off(Subject::Connections) && !seen.drops_explain()
            || seen.own_failures_ratio.is_some_and(|ratio| ratio > 1.0 - SUCCESS_MIN_RATIO);
        // A load that did not leave, for neither of the above, waited for connects or was dropped since
        // too many were in flight: both are the server's slowness.
        let backlog = seen.open_loop
            && seen.answered_ratio.is_some_and(|ratio| ratio < OFFERED_MIN_RATIO)
            && seen.outstanding_growth.is_some_and(|growth| growth >= BACKLOG_GROWTH);
        let server = off(Subject::Success) || off(Subject::RateMet) || backlog;

        Self {
            verdict: match (generator, failed) {
                (true, _) => Verdict::Invalid,
                (false, true) => Verdict::Suspect,
                (false, false) => Verdict::Valid,
            },
            limited_by: match (generator, off(Subject::Connections), server) {
                (true, _, _) => Limit::Generator,
                (false, true, _) => Limit::Connections,
                (false, false, true) => Limit::Server,
                (false, false, false) => Limit::None,
            },
            checks,
        }
    }

    /// The check of this subject.
    pub fn check(&self, subject: Subject) -> Check {
        self.checks[subject as usize]
    }
}

fn check(subject: Subject, seen: &Observed) -> Check {
    use CheckStatus::{Fail, Warn};
    let share = seen.response.map_or(0.0, |response| LAG_MAX_RATIO * response.p50_ns as f64);
    let lag_bound = share.max(LAG_FREE_NS as f64);
    let p99 = |lag: Option<Lengths>| lag.map(|lag| lag.p99_ns as f64);
    let at_most = |value: Option<f64>, bound: f64, otherwise| (value, bound, value <= Some(bound), otherwise);
    let at_least = |value: Option<f64>, bound: f64| (value, bound, value >= Some(bound), Fail);
    let (value, bound, met, otherwise) = match subject {
        Subject::RateMet => at_least(seen.offered_ratio.filter(|_| seen.open_loop), OFFERED_MIN_RATIO),
        Subject::SendsInTime => at_most(p99(seen.schedule_lag).filter(|_| seen.open_loop), lag_bound, Fail),
        Subject::ReadsInTime => {
            at_most(p99(seen.read_lag), lag_bound, if seen.late_reads_count() { Fail } else { Warn })
        }
        Subject::GeneratorCpu => {
            (seen.busy_ratio, BUSY_MAX_RATIO, seen.busy_ratio.is_none_or(|busy| busy < BUSY_MAX_RATIO), Fail)
        }
        Subject::Connections => at_most(seen.waited_ratio, WAITED_MAX_RATIO, Warn),
        Subject::Success => at_least(seen.success_ratio, SUCCESS_MIN_RATIO),
        Subject::ArrivalsAsAsked
        | Subject::Steady
        | Subject::WarmUp
        | Subject::Independence
        | Subject::LittlesLaw
        | Subject::Samples
        | Subject::Clock => (None, 0.0, true, Fail),
    };
    let status = match (value, met) {
        (None, _) => CheckStatus::NotMade,
        (Some(_), true) => CheckStatus::Ok,
        (Some(_), false) => otherwise,
    };
    Check { subject, status, value, bound: value.map(|_| bound) }
}
