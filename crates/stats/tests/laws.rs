//! Laws that hold for any samples: conservation, merging, sums, and quantiles against an oracle.

use plimsoll_core::value::Key;
use plimsoll_core::{DropReason, Failure, Outcome, Phase, Sample, Span, Timestamp};
use plimsoll_stats::{Histogram, OperationRecorder, Recorder, RecorderConfig};
use proptest::prelude::*;

/// The schedule's start of every run here.
const START_NS: u64 = 5_000_000_000;

fn config(window_end_ns: u64) -> RecorderConfig {
    RecorderConfig {
        operations: 2,
        start: Timestamp::from_ns(START_NS),
        window_end: Timestamp::from_ns(window_end_ns),
        window_length: Span::from_ms(100),
    }
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        4 => Just(Outcome::Ok),
        1 => Just(Outcome::Failed(Failure::Status(503))),
        1 => Just(Outcome::Failed(Failure::Reset)),
        1 => Just(Outcome::Failed(Failure::ConnectRefused)),
        1 => Just(Outcome::TimedOut),
        1 => Just(Outcome::Unfinished),
        1 => Just(Outcome::Dropped(DropReason::Late)),
        1 => Just(Outcome::Dropped(DropReason::MaxInFlight)),
    ]
}

/// Lengths from nothing to two minutes, on a logarithmic scale.
fn lengths() -> impl Strategy<Value = u64> {
    (0u32..37, 0.0..1.0).prop_map(|(bits, part)| ((1u64 << bits) as f64 * part) as u64)
}

prop_compose! {
    /// A lawful sample, due within `range_s` of the start.
    fn samples(range_s: u64)(
        due in 0..range_s * 1_000_000_000,
        lag in lengths(),
        blocked in lengths(),
        service in lengths(),
        read_lag in 0..1_000_000u64,
        outcome in outcomes(),
        leaves in any::<bool>(),
        operation in 0..2u16,
        warmup in prop::bool::weighted(0.1),
        waited_for_connection in any::<bool>(),
    ) -> Sample {
        let due = Timestamp::from_ns(START_NS + due);
        let ready = due + Span::from_ns(lag);
        let sent = match outcome {
            Outcome::Dropped(_) | Outcome::Failed(Failure::ConnectRefused) => None,
            Outcome::Unfinished if !leaves => None,
            _ => Some(ready + Span::from_ns(blocked)),
        };
        let end = sent.unwrap_or(ready + Span::from_ns(blocked)) + Span::from_ns(sent.map_or(0, |_| service));
        let status = match outcome {
            Outcome::Ok => Some(200),
            Outcome::Failed(Failure::Status(status)) => Some(status),
            _ => None,
        };
        Sample {
            seq: 0,
            key: Key::Seq(0),
            operation,
            phase: if warmup { Phase::Warmup } else { Phase::Measure },
            due,
            ready,
            sent,
            first_byte: status.map(|_| end),
            end,
            read: status.map(|_| end + Span::from_ns(read_lag)),
            outcome,
            status,
            waited_for_connection,
        }
    }
}

fn record_all(samples: &[Sample], window_end_ns: u64) -> Recorder {
    let mut recorder = Recorder::new(config(window_end_ns));
    for sample in samples {
        recorder.record(sample);
        recorder.on_attempt(sample.phase, sample.operation);
    }
    recorder
}

/// All that can be read from a histogram, as text to compare.
fn shown(histogram: &Histogram) -> String {
    let quantiles: Vec<_> = (0..=10).map(|i| histogram.quantile(f64::from(i) / 10.0)).collect();
    format!("{} {:?} {:?} {quantiles:?}", histogram.count(), histogram.min(), histogram.mean())
}

fn shown_operation(o: &OperationRecorder) -> String {
    let histograms = [
        &o.response_ok,
        &o.response_failed,
        &o.censored,
        &o.service,
        &o.blocked,
        &o.schedule_lag,
        &o.read_lag,
        &o.first_byte,
    ];
    let mut kinds = (o.statuses.clone(), o.failures.clone());
    kinds.0.sort();
    kinds.1.sort();
    let histograms = histograms.map(shown).join("\n");
    format!("{:?}\n{kinds:?}\n{:?}\n{histograms}", o.counts, o.service_censored)
}

fn shown_recorder(recorder: &Recorder) -> String {
    let operations: Vec<_> = recorder.operations().iter().map(shown_operation).collect();
    let windows: Vec<String> = recorder
        .windows()
        .rows()
        .map(|w| {
            let quantiles =
                [0.0, 0.5, 0.9, 0.99, 1.0].map(|q| (w.response_quantile(q), w.schedule_lag_quantile(q)));
            format!(
                "{} {} {} {} {} {} {} {} {quantiles:?} {} {}",
                w.start,
                w.due(),
                w.sent(),
                w.ok(),
                w.failed(),
                w.timed_out(),
                w.unfinished(),
                w.dropped(),
                w.in_flight_mean(),
                w.outstanding_mean(),
            )
        })
        .collect();
    let means = (recorder.in_flight_mean(Span::from_secs(1)), recorder.outstanding_mean(Span::from_secs(1)));
    format!("{:?}\n{}\n{}\n{means:?}", recorder.warmup(), operations.join("\n"), windows.join("\n"))
}

/// What `start..end` and every window share, added up the slow way.
fn overlap_ns(spans: &[(u64, u64)], window: (u64, u64)) -> u64 {
    spans.iter().map(|(start, end)| (*end).min(window.1).saturating_sub((*start).max(window.0))).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn requests_are_conserved(samples in prop::collection::vec(samples(60), 0..200)) {
        let recorder = record_all(&samples, START_NS + 30_000_000_000);
        recorder.counts().assert_conserved();
        recorder.warmup().assert_conserved();
        let all = recorder.counts().due + recorder.warmup().due;
        prop_assert_eq!(all, samples.len() as u64);
    }

    /// The second part lies far behind the first, so that the parts' windows differ in length.
    #[test]
    fn merging_parts_is_the_same_as_recording_all_in_one(
        first in prop::collection::vec(samples(10), 0..60),
        second in prop::collection::vec(samples(400), 0..60),
    ) {
        let window_end = START_NS + 90_000_000_000;
        let all: Vec<Sample> = first.iter().chain(&second).copied().collect();
        let whole = shown_recorder(&record_all(&all, window_end));
        let (a, b) = (record_all(&first, window_end), record_all(&second, window_end));
        let mut merged = a.clone();
        merged.merge(&b);
        prop_assert_eq!(&shown_recorder(&merged), &whole);
        let mut merged = b.clone();
        merged.merge(&a);
        prop_assert_eq!(&shown_recorder(&merged), &whole);
    }

    #[test]
    fn a_recorder_emptied_every_so_often_loses_nothing(
        samples in prop::collection::vec(samples(100), 0..120),
        every in 1..20usize,
    ) {
        let window_end = START_NS + 90_000_000_000;
        let (mut worker, mut run) = (Recorder::new(config(window_end)), Recorder::new(config(window_end)));
        for part in samples.chunks(every) {
            for sample in part {
                worker.record(sample);
                worker.on_attempt(sample.phase, sample.operation);
            }
            run.merge(&worker);
            worker.clear();
        }
        prop_assert_eq!(shown_recorder(&run), shown_recorder(&record_all(&samples, window_end)));
    }

    #[test]
    fn windows_add_up_to_the_totals(samples in prop::collection::vec(samples(200), 0..100)) {
        let recorder = record_all(&samples, u64::MAX);
        let counts = recorder.counts();
        let rows: Vec<_> = recorder.windows().rows().collect();
        prop_assert!(rows.len() <= 600);
        let mut expected_start = Span::ZERO;
        for row in &rows {
            prop_assert_eq!(row.start, expected_start);
            expected_start += row.length;
        }
        prop_assert_eq!(rows.iter().map(|w| w.due()).sum::<u64>(), counts.due);
        prop_assert_eq!(rows.iter().map(|w| w.sent()).sum::<u64>(), counts.sent);
        prop_assert_eq!(rows.iter().map(|w| w.ok()).sum::<u64>(), counts.ok);
        prop_assert_eq!(rows.iter().map(|w| w.failed()).sum::<u64>(), counts.failed);
        prop_assert_eq!(rows.iter().map(|w| w.timed_out()).sum::<u64>(), counts.timed_out);
        prop_assert_eq!(rows.iter().map(|w| w.unfinished()).sum::<u64>(), counts.unfinished);
        prop_assert_eq!(rows.iter().map(|w| w.dropped()).sum::<u64>(), counts.dropped_total());
    }

    #[test]
    fn in_flight_and_outstanding_are_the_exact_overlaps(
        samples in prop::collection::vec(samples(100), 0..60),
        window_s in 1..150u64,
    ) {
        let window_end = START_NS + window_s * 1_000_000_000;
        let recorder = record_all(&samples, window_end);
        let measured = samples.iter().filter(|s| s.phase == Phase::Measure);
        let end = |s: &Sample| s.end.as_ns() - START_NS;
        let outstanding: Vec<_> = measured.clone().map(|s| (s.due.as_ns() - START_NS, end(s))).collect();
        let in_flight: Vec<_> =
            measured.filter_map(|s| Some((s.sent?.as_ns() - START_NS, end(s)))).collect();
        let mut merged = recorder.clone();
        merged.lengthen_windows(Span::from_secs(1));
        prop_assert!(merged.windows().length() >= Span::from_secs(1));
        for row in recorder.windows().rows().chain(merged.windows().rows()) {
            let start = row.start.as_ns();
            let window = (start, start + row.length.as_ns());
            let length = row.length.as_ns() as f64;
            prop_assert_eq!(row.in_flight_mean(), overlap_ns(&in_flight, window) as f64 / length);
            prop_assert_eq!(row.outstanding_mean(), overlap_ns(&outstanding, window) as f64 / length);
        }
        let window = Span::from_secs(window_s);
        let mean = |spans: &[(u64, u64)]| {
            overlap_ns(spans, (0, window.as_ns())) as f64 / window.as_ns() as f64
        };
        prop_assert_eq!(recorder.in_flight_mean(window), Some(mean(&in_flight)));
        prop_assert_eq!(recorder.outstanding_mean(window), Some(mean(&outstanding)));
    }

    #[test]
    fn quantiles_agree_with_a_sorted_list(
        values in prop::collection::vec(prop_oneof![lengths(), any::<u64>()], 1..300),
        q in 0.0..=1.0f64,
    ) {
        let mut histogram = Histogram::new();
        values.iter().for_each(|ns| histogram.record(Span::from_ns(*ns)));
        let mut sorted = values;
        sorted.sort_unstable();
        let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
        let (exact, told) = (sorted[rank - 1], histogram.quantile(q).unwrap());
        prop_assert!(told >= exact && told - exact <= exact / 1000, "{told} for {exact}");
        prop_assert_eq!(histogram.min().unwrap().as_ns(), sorted[0]);
        prop_assert_eq!(histogram.max().unwrap().as_ns(), sorted[sorted.len() - 1]);
    }

    /// The layout is HdrHistogram's: the encoded form, read by the reference implementation, tells
    /// the same quantiles.
    #[test]
    fn other_programs_read_the_same_distribution(values in prop::collection::vec(lengths(), 1..300)) {
        use base64::Engine as _;
        let mut histogram = Histogram::new();
        values.iter().for_each(|ns| histogram.record(Span::from_ns(*ns)));
        let bytes = base64::engine::general_purpose::STANDARD.decode(histogram.encode()).unwrap();
        let read: hdrhistogram::Histogram<u64> =
            hdrhistogram::serialization::Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        prop_assert_eq!(read.len(), histogram.count());
        for q in [0.1, 0.5, 0.9, 0.99] {
            let clamped = read.value_at_quantile(q).min(histogram.max().unwrap().as_ns());
            prop_assert_eq!(Some(clamped), histogram.quantile(q));
        }
    }
}

#[test]
fn a_long_run_has_at_most_600_windows_and_its_first_are_short() {
    // 20 s and a drain in windows of 100 ms, whatever the end is to be; then seconds, and doubled ones.
    let expected =
        [(1, 100), (25, 100), (26, 1_000), (599, 1_000), (600, 2_000), (3_600, 8_000), (86_400, 256_000)];
    check_lengths(START_NS + 20_000_000_000, &expected);
    check_lengths(u64::MAX, &expected);
}

fn check_lengths(window_end_ns: u64, expected: &[(u64, u64)]) {
    let recorder = &mut Recorder::new(config(window_end_ns));
    for (due_s, expected_ms) in expected {
        let due = Timestamp::from_ns(START_NS + due_s * 1_000_000_000);
        recorder.record(&Sample {
            seq: 0,
            key: Key::Seq(0),
            operation: 0,
            phase: Phase::Measure,
            due,
            ready: due,
            sent: Some(due),
            first_byte: Some(due),
            end: due,
            read: Some(due),
            outcome: Outcome::Ok,
            status: Some(200),
            waited_for_connection: false,
        });
        assert_eq!(recorder.windows().length(), Span::from_ms(*expected_ms), "{due_s} s");
        assert!(recorder.windows().rows().count() <= 600);
    }
}
