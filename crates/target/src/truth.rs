//! What the target itself saw: the other side's account of a measurement.
//!
//! Everything is counted as it happens, in memory that does not grow.

use hdrhistogram::Histogram;
use plimsoll_core::{Span, Timestamp};
use serde::Serialize;

use crate::answer::Status;
use crate::queue::Departure;

/// What the target saw since it was last asked (or since its start).
///
/// An arrival is a request read to its last byte; its moment is the clock right after the read that
/// brought that byte. So what a request waits in the kernel, because the target is in a stall,
/// asleep or at work on another, is not in any time below: like most servers, the target does not
/// know of it. Asking for the truth is itself in none of the counts.
///
/// `arrivals` + `in_system` of the last answer = answers 200, 500 and 503 + `closes` + `resets` +
/// `client_gone` + `in_system`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Truth {
    /// Name and version of this layout.
    pub schema: &'static str,
    /// Time covered, in nanoseconds.
    pub span_ns: u64,
    /// Requests read.
    pub arrivals: u64,
    /// (arrivals − 1) / (last arrival − first arrival); `None` below two arrivals.
    pub rate_per_s: Option<f64>,
    /// Index of dispersion of the arrivals' counts.
    pub dispersion: Dispersions,
    /// Mean gap between arrivals in nanoseconds; `None` below two arrivals.
    pub gap_mean_ns: Option<f64>,
    /// Standard deviation of the gaps divided by their mean; `None` below three arrivals.
    pub gap_cv: Option<f64>,
    /// Time from arrival to the moment the answer's first write began (or the connection was closed
    /// or reset), of requests that had their turn.
    pub sojourn_ns: Option<Quantiles>,
    /// The same up to the moment the queue worked out: what a target without any delay of its own
    /// would have taken.
    pub computed_sojourn_ns: Option<Quantiles>,
    /// The difference: how late the target was with its answers.
    pub lateness_ns: Option<Quantiles>,
    /// Answers begun, by status.
    pub status: Statuses,
    /// Arrivals turned away with 503 because the queue was full; these have no sojourn.
    pub rejected: u64,
    /// Connections closed in place of an answer.
    pub closes: u64,
    /// Connections reset in place of an answer.
    pub resets: u64,
    /// Requests that had their turn when their connection was gone.
    pub client_gone: u64,
    /// Requests read and not answered at this moment.
    pub in_system: u64,
    /// Connections accepted; one that brought nothing but the asking is not counted.
    pub connections_accepted: u64,
    /// Times that no connection could be accepted for want of a descriptor.
    pub accept_failures: u64,
    /// TLS handshakes done in full, likewise.
    pub tls_full: u64,
    /// TLS handshakes that resumed a session, likewise.
    pub tls_resumed: u64,
    /// Connections on which TLS failed.
    pub tls_failed: u64,
}

/// Variance of the counts in windows divided by their mean: 1 for Poisson arrivals, 0 for perfectly
/// even ones, above 1 for bursts. The windows lie end to end from just after the first arrival to
/// the last; only whole ones count. `None` below two windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dispersions {
    /// Windows of 1 ms.
    pub ms_1: Option<f64>,
    /// Windows of 10 ms.
    pub ms_10: Option<f64>,
    /// Windows of 100 ms.
    pub ms_100: Option<f64>,
}

/// Answers by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statuses {
    /// OK.
    #[serde(rename = "200")]
    pub ok: u64,
    /// Bad Request; what led to it is no arrival.
    #[serde(rename = "400")]
    pub bad_request: u64,
    /// Request Header Fields Too Large; what led to it is no arrival.
    #[serde(rename = "431")]
    pub head_too_long: u64,
    /// Internal Server Error, from `--error`.
    #[serde(rename = "500")]
    pub error: u64,
    /// Service Unavailable, from the full queue.
    #[serde(rename = "503")]
    pub unavailable: u64,
}

/// A distribution of times in nanoseconds; quantiles by nearest rank, to 3 significant digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// Quantile 0.9.
    pub p90: u64,
    /// Quantile 0.99.
    pub p99: u64,
    /// Quantile 0.999.
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    /// The largest.
    pub max: u64,
}

/// Counts what the target sees.
pub(crate) struct Recorder {
    since: Timestamp,
    first: Timestamp,
    last: Timestamp,
    /// Sum of the squared gaps, ns².
    gap_squares: u128,
    windows: [Windows; 3],
    sojourn: Times,
    computed: Times,
    lateness: Times,
    /// Plain counters, in the form in which they are handed out.
    pub(crate) counts: Counts,
}

/// The plain counters of a [`Truth`]; see there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) arrivals: u64,
    pub(crate) status: Statuses,
    pub(crate) rejected: u64,
    pub(crate) closes: u64,
    pub(crate) resets: u64,
    pub(crate) client_gone: u64,
    pub(crate) connections_accepted: u64,
    pub(crate) accept_failures: u64,
    pub(crate) tls_full: u64,
    pub(crate) tls_resumed: u64,
    pub(crate) tls_failed: u64,
}

impl Statuses {
    pub(crate) fn count(&mut self, status: Status) {
        *match status {
            Status::Ok => &mut self.ok,
            Status::BadRequest => &mut self.bad_request,
            Status::HeadTooLong => &mut self.head_too_long,
            Status::Error => &mut self.error,
            Status::Unavailable => &mut self.unavailable,
        } += 1;
    }
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self {
            since: Timestamp::ZERO,
            first: Timestamp::ZERO,
            last: Timestamp::ZERO,
            gap_squares: 0,
            windows: [1, 10, 100].map(|ms| Windows::new(Span::from_ms(ms))),
            sojourn: Times::new(),
            computed: Times::new(),
            lateness: Times::new(),
            counts: Counts::default(),
        }
    }

    /// A request was read at `now`.
    pub(crate) fn arrival(&mut self, now: Timestamp) {
        self.counts.arrivals += 1;
        if self.counts.arrivals == 1 {
            (self.first, self.last) = (now, now);
            return;
        }
        let gap = now.since(self.last).as_ns();
        self.last = now;
        self.gap_squares += u128::from(gap) * u128::from(gap);
        let from_first = now.since(self.first).as_ns();
        self.windows.iter_mut().for_each(|windows| windows.arrival(from_first));
    }

    /// A request that had its turn is answered (or closed, or reset) at `now`.
    pub(crate) fn departure<T>(&mut self, departure: &Departure<T>, now: Timestamp) {
        self.sojourn.record(now.since(departure.arrived));
        self.computed.record(departure.sojourn());
        self.lateness.record(now.since(departure.done));
    }

    /// The account up to `now`, with `in_system` requests unanswered; a new one begins.
    pub(crate) fn take(&mut self, now: Timestamp, in_system: u64) -> Truth {
        let counts = self.counts;
        let gaps = counts.arrivals.saturating_sub(1) as f64;
        let covered_ns = self.last.since(self.first).as_ns() as f64;
        let gap_mean_ns = (gaps > 0.0).then(|| covered_ns / gaps);
        let gap_cv = gap_mean_ns.filter(|mean| gaps > 1.0 && *mean > 0.0).map(|mean| {
            let variance = (self.gap_squares as f64 - gaps * mean * mean) / (gaps - 1.0);
            variance.max(0.0).sqrt() / mean
        });
        let [ms_1, ms_10, ms_100] = self.windows.each_ref().map(Windows::dispersion);
        let truth = Truth {
            schema: "plimsoll-truth/1",
            span_ns: now.since(self.since).as_ns(),
            arrivals: counts.arrivals,
            rate_per_s: (covered_ns > 0.0).then(|| gaps * 1e9 / covered_ns),
            dispersion: Dispersions { ms_1, ms_10, ms_100 },
            gap_mean_ns,
            gap_cv,
            sojourn_ns: self.sojourn.take(),
            computed_sojourn_ns: self.computed.take(),
            lateness_ns: self.lateness.take(),
            status: counts.status,
            rejected: counts.rejected,
            closes: counts.closes,
            resets: counts.resets,
            client_gone: counts.client_gone,
            in_system,
            connections_accepted: counts.connections_accepted,
            accept_failures: counts.accept_failures,
            tls_full: counts.tls_full,
            tls_resumed: counts.tls_resumed,
            tls_failed: counts.tls_failed,
        };
        self.since = now;
        (self.first, self.last) = (now, now);
        self.gap_squares = 0;
        self.windows.iter_mut().for_each(Windows::clear);
        self.counts = Counts::default();
        truth
    }
}

/// Counts in windows of one length, without keeping them.
struct Windows {
    length_ns: u64,
    /// Whole windows so far, the sum of their counts and of the squares.
    whole: u64,
    sum: u64,
    squares: u128,
    /// Count in the window that is not whole yet, which is window number `whole`.
    current: u64,
}

impl Windows {
    fn new(length: Span) -> Self {
        Self { length_ns: length.as_ns(), whole: 0, sum: 0, squares: 0, current: 0 }
    }

    /// An arrival `from_first` nanoseconds after the first. The first itself is in no window:
    /// the windows' beginning was chosen by it, and counting it would bias the first count.
    fn arrival(&mut self, from_first: u64) {
        // A window holds its end and not its beginning, as it follows the first arrival.
        let window = from_first.saturating_sub(1) / self.length_ns;
        if window > self.whole {
            self.sum += self.current;
            self.squares += u128::from(self.current) * u128::from(self.current);
            // Windows passed over without an arrival add nothing to the sums.
            self.whole = window;
            self.current = 0;
        }
        self.current += 1;
    }

    fn dispersion(&self) -> Option<f64> {
        if self.whole < 2 || self.sum == 0 {
            return None;
        }
        let n = self.whole as f64;
        let mean = self.sum as f64 / n;
        Some((self.squares as f64 - n * mean * mean) / (n - 1.0) / mean)
    }

    fn clear(&mut self) {
        *self = Self::new(Span::from_ns(self.length_ns));
    }
}

/// A histogram of times.
struct Times {
    histogram: Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
}

/// The longest time the histogram tells apart; longer ones count as this long in its quantiles,
/// while mean and maximum stay exact. No service time is longer than a day by any sensible law.
const LONGEST_NS: u64 = 24 * 3_600 * 1_000_000_000;

impl Times {
    fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds in order, 3 of 5 digits");
        Self { histogram, sum_ns: 0, max_ns: 0 }
    }

    fn record(&mut self, time: Span) {
        let ns = time.as_ns();
        self.histogram.saturating_record(ns);
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    fn take(&mut self) -> Option<Quantiles> {
        let count = self.histogram.len();
        let at = |q| self.histogram.value_at_quantile(q).min(self.max_ns);
        let quantiles = (count > 0).then(|| Quantiles {
            count,
            mean: self.sum_ns as f64 / count as f64,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: self.max_ns,
        });
        if count > 0 {
            self.histogram.reset();
            (self.sum_ns, self.max_ns) = (0, 0);
        }
        quantiles
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::random::{Sequence, Stream};

    use super::*;

    fn truth_of(arrivals: impl IntoIterator<Item = u64>) -> Truth {
        let mut recorder = Recorder::new();
        let mut last = 0;
        for ns in arrivals {
            last = ns;
            recorder.arrival(Timestamp::from_ns(ns));
        }
        recorder.take(Timestamp::from_ns(last), 0)
    }

    #[test]
    fn poisson_arrivals_have_dispersion_one_and_even_ones_none() {
        let mut numbers = Sequence::new(Stream::new(4, "gaps"));
        let mut now = 7e9;
        let poisson = truth_of((0..200_000).map(|_| {
            now += numbers.exponential() * 1e5;
            now as u64
        }));
        // Twenty seconds: the standard error of a dispersion over n windows is sqrt(2/n).
        for (dispersion, windows) in [
            (poisson.dispersion.ms_1, 2e4),
            (poisson.dispersion.ms_10, 2e3),
            (poisson.dispersion.ms_100, 200.0f64),
        ] {
            let dispersion = dispersion.expect("many windows");
            assert!((dispersion - 1.0).abs() < 4.0 * (2.0 / windows).sqrt(), "{dispersion}");
        }
        assert!((poisson.gap_cv.expect("gaps") - 1.0).abs() < 0.02);
        assert!((poisson.rate_per_s.expect("rate") / 10_000.0 - 1.0).abs() < 0.01);

        let even = truth_of((0..10_000).map(|k| 5 + k * 100_000));
        assert!(even.dispersion.ms_10.expect("many windows") < 1e-9);
        assert!(even.gap_cv.expect("gaps") < 1e-6);
        assert_eq!(even.gap_mean_ns, Some(100_000.0));
        assert_eq!(even.rate_per_s, Some(10_000.0));
    }

    #[test]
    fn windows_without_an_arrival_count_as_empty() {
        // After the first arrival: counts 2, 0, 0, 1 in whole windows of 1 ms, the fifth is open.
        let truth = truth_of([0, 100, 200, 3_500_000, 4_500_000]);
        // Mean 3/4, sum of squares 5: variance (5 − 4·9/16) / 3 = 11/12.
        let expected = 11.0 / 12.0 / 0.75;
        assert!((truth.dispersion.ms_1.expect("four windows") - expected).abs() < 1e-12);
        assert_eq!(truth.dispersion.ms_10, None);
    }

    #[test]
    fn what_was_not_seen_is_absent_and_not_zero() {
        let none = truth_of([]);
        assert_eq!(
            (none.rate_per_s, none.gap_mean_ns, none.gap_cv, none.sojourn_ns),
            (None, None, None, None)
        );
        let one = truth_of([5]);
        assert_eq!((one.arrivals, one.rate_per_s, one.gap_mean_ns), (1, None, None));
    }

    #[test]
    fn the_account_starts_anew_when_it_is_taken() {
        let mut recorder = Recorder::new();
        for ns in [10, 20, 5_000_000] {
            recorder.arrival(Timestamp::from_ns(ns));
        }
        let departure = Departure {
            job: (),
            arrived: Timestamp::from_ns(10),
            started: Timestamp::from_ns(10),
            done: Timestamp::from_ns(1_010),
        };
        recorder.departure(&departure, Timestamp::from_ns(1_030));
        let truth = recorder.take(Timestamp::from_ns(6_000_000), 2);
        assert_eq!((truth.arrivals, truth.in_system, truth.span_ns), (3, 2, 6_000_000));
        let times = |quantiles: Option<Quantiles>| quantiles.map(|q| (q.count, q.mean, q.p50, q.max));
        assert_eq!(times(truth.sojourn_ns), Some((1, 1_020.0, 1_020, 1_020)));
        assert_eq!(times(truth.computed_sojourn_ns), Some((1, 1_000.0, 1_000, 1_000)));
        assert_eq!(times(truth.lateness_ns), Some((1, 20.0, 20, 20)));
        let next = recorder.take(Timestamp::from_ns(7_000_000), 2);
        assert_eq!(
            (next.arrivals, next.sojourn_ns, next.dispersion.ms_1, next.span_ns),
            (0, None, None, 1_000_000)
        );
    }
}
