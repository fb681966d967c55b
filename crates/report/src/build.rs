//! Makes the published result of what was planned and recorded. All arithmetic of results is here;
//! what shows them only formats.

use std::collections::BTreeMap;

use plimsoll_core::plan::{HttpRequest, LatePolicy, Load, Request};
use plimsoll_core::profile::{ENDLESS, RateProfile};
use plimsoll_core::{DropReason, Plan, Span};
use plimsoll_stats::dependence::BatchMeans;
use plimsoll_stats::interval::{BATCH_MEANS, LEVEL_RATIO, ORDER_STATISTICS};
use plimsoll_stats::recorder::Censored;
use plimsoll_stats::slo::Measured;
use plimsoll_stats::{
    Counts, Histogram, Interval, Objective, OperationRecorder, QuantileInterval, Recorder, RunFacts, Series,
    Status, WindowRow,
};

use crate::format::{percentile_label, percentile_name};
use crate::model::{self, KERNEL_CLOCK, RunV1};
use crate::{trust, warnings};

/// The percentiles of every result, beside those asked for.
const USUAL_QUANTILES: [f64; 7] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// The kind under which failures are counted whose own kind came after the most that are told apart.
const OTHER_KINDS: &str = "other";

impl RunV1 {
    /// The result of a run: `plan` was asked for, `facts` and `recorder` are what came of it.
    /// `quantiles` (0..=1) are those a reader wants to see; results hold the usual ones as well.
    ///
    /// # Panics
    /// When an account in `recorder` does not add up: a fault of this program, whatever the server
    /// did.
    pub fn new(
        plan: &Plan,
        facts: &RunFacts,
        recorder: &Recorder,
        quantiles: &[f64],
        objectives: &[Objective],
    ) -> Self {
        let total = recorder.total();
        total.counts.assert_conserved();
        recorder.warmup().assert_conserved();
        let distributions = Distributions::new(quantiles);
        let response = total.response();
        let series = Series::new(recorder.windows(), facts.window);
        let measured = Measured::new(&total, &response, &series);
        let outstanding_max = recorder.windows().rows().map(|row| row.outstanding_mean()).reduce(f64::max);

        let mut run = Self {
            format: model::FORMAT.to_owned(),
            plimsoll: model::Program {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                commit: option_env!("PLIMSOLL_COMMIT").map(str::to_owned),
            },
            started_at: jiff::Timestamp::try_from(facts.started_at).unwrap_or_default().to_string(),
            elapsed_ns: facts.elapsed.as_ns(),
            interrupted: facts.interrupted,
            host: model::Host {
                os: facts.host.os.clone(),
                kernel: facts.host.kernel.clone(),
                cpus: facts.host.cpus,
                cpu_model: facts.host.cpu_model.clone(),
                memory_bytes: facts.host.memory_bytes,
            },
            plan: planned(plan, facts, quantiles),
            counts: counts(&total.counts),
            counts_warmup: counts(recorder.warmup()),
            success_ratio: total.counts.success_ratio(),
            rates: rates(&total.counts, recorder, &series, facts.window),
            response_ns: distributions.over_time(&response, total.response_censored(), &series),
            response_ok_ns: distributions.of(&total.response_ok, Censored::default()),
            response_failed_ns: distributions.of(&total.response_failed, Censored::default()),
            service_ns: distributions.of(&total.service, total.service_censored),
            blocked_ns: distributions.of(&total.blocked, Censored::default()),
            schedule_lag_ns: distributions.of(&total.schedule_lag, Censored::default()),
            read_lag_ns: distributions.of(&total.read_lag, Censored::default()),
            poll_gap_ns: distributions
                .of(recorder.poll_gap(), Censored::default())
                .filter(|_| facts.receive_clock != KERNEL_CLOCK),
            first_byte_ns: distributions.of(&total.first_byte, Censored::default()),
            connect_ns: distributions.of(recorder.connect(), Censored::default()),
            server_ns: None,
            statuses: total.statuses.iter().map(|(status, n)| (status.to_string(), *n)).collect(),
            errors: errors(&total),
            error_texts: recorder
                .failure_texts()
                .iter()
                .map(|(failure, text)| (failure.to_string(), text.clone()))
                .collect(),
            rows: recorder.rows(),
            bytes: model::Bytes {
                sent: recorder.bytes_sent(),
                received: recorder.bytes_received(),
                surplus: recorder.surplus_bytes(),
            },
            connections: model::Connections {
                wanted: facts.connections.wanted,
                established: facts.connections.established,
                peak: facts.connections.peak,
                opened: facts.connections.opened,
            },
            addresses: facts.addresses.iter().cloned().collect(),
            in_flight: model::Level {
                mean: recorder.in_flight_mean(facts.window),
                max: Some(recorder.in_flight_max() as f64),
            },
            outstanding: model::Level { mean: recorder.outstanding_mean(facts.window), max: outstanding_max },
            generator: model::Generator {
                cpu_user_ns: facts.cpu_user.as_ns(),
                cpu_system_ns: facts.cpu_system.as_ns(),
                busy_ratio: facts.busy_ratio,
                max_rss_bytes: facts.max_rss_bytes,
            },
            operations: operations(plan, recorder, &distributions),
            windows: recorder.windows().rows().map(window).collect(),
            trust: None,
            objectives: objectives.iter().map(|o| objective(o, measured)).collect(),
            warnings: Vec::new(),
        };
        let judged = trust::judge(&run, &series);
        run.warnings = warnings::of(&run, judged.as_ref(), &facts.notes);
        run.trust = judged.map(|judged| trust::published(judged, &run));
        run
    }
}

/// Makes distributions that all have the same percentiles.
struct Distributions {
    /// Ascending, without repetition.
    quantiles: Vec<f64>,
}

impl Distributions {
    fn new(asked: &[f64]) -> Self {
        let mut quantiles: Vec<f64> = USUAL_QUANTILES.iter().chain(asked).copied().collect();
        quantiles.sort_by(f64::total_cmp);
        quantiles.dedup_by_key(|q| percentile_name(*q));
        Self { quantiles }
    }

    fn of(&self, histogram: &Histogram, censored: Censored) -> Option<model::Distribution> {
        let (min, max) = (histogram.min()?.as_ns(), histogram.max()?.as_ns());
        let mut lower_bounds = Vec::new();
        let mut percentiles = BTreeMap::new();
        if censored.count > 0 {
            lower_bounds.push("mean".to_owned());
        }
        for q in &self.quantiles {
            let (name, ns) = (percentile_name(*q), histogram.quantile(*q)?);
            if censored.bounds(ns) {
                lower_bounds.push(name.clone());
            }
            percentiles.insert(name, ns);
        }
        if censored.bounds(max) {
            lower_bounds.push("max".to_owned());
        }
        Some(model::Distribution {
            count: histogram.count(),
            censored_count: censored.count,
            min,
            mean: histogram.mean()?,
            stdev: histogram.stdev()?,
            max,
            percentiles,
            censored: lower_bounds,
            intervals: None,
            n_eff: None,
            n_eff_by_percentile: BTreeMap::new(),
            hdr: histogram.encode(),
        })
    }

    /// The headline `response` with what its course over time, `series`, tells of it.
    fn over_time(
        &self,
        response: &Histogram,
        censored: Censored,
        series: &Series<'_>,
    ) -> Option<model::Distribution> {
        let mut distribution = self.of(response, censored)?;
        let mut bounds = BTreeMap::new();
        for q in &self.quantiles {
            let Some(n_eff) = series.n_eff_of_quantile(response, *q) else { continue };
            let ends = QuantileInterval::of(response, censored, *q, n_eff);
            let [low, high] = [ends.low_ns, ends.high_ns].map(|end| end.map(|ns| ns as f64));
            if low.or(high).is_some() {
                bounds.insert(percentile_name(*q), (low, high));
            }
            distribution.n_eff_by_percentile.insert(percentile_name(*q), n_eff);
        }
        if let Some(means) = series.mean_response() {
            distribution.n_eff = Some(means.n_eff(distribution.stdev.powi(2), distribution.count));
            if let Some(Interval { low, high }) = Interval::of_mean(distribution.mean, &means) {
                // A mean of values some of which are too small has no high end.
                bounds.insert("mean".to_owned(), (Some(low), Some(high).filter(|_| censored.count == 0)));
            }
        }
        distribution.intervals = (!bounds.is_empty()).then(|| model::Intervals {
            level_ratio: LEVEL_RATIO,
            method: format!("{ORDER_STATISTICS}; of the mean {BATCH_MEANS}"),
            bounds,
        });
        Some(distribution)
    }
}

fn planned(plan: &Plan, facts: &RunFacts, quantiles: &[f64]) -> model::Plan {
    let limit = |span: Span| (span < ENDLESS).then_some(span.as_ns());
    let mut planned = model::Plan {
        model: model::Model::Open,
        arrivals: None,
        rate_per_s: None,
        stages: None,
        clients: None,
        users: None,
        think: None,
        duration_ns: None,
        requests: None,
        warmup_ns: plan.warmup.as_ns(),
        timeout_ns: limit(plan.timeout),
        connect_timeout_ns: limit(plan.connect_timeout),
        drain_ns: limit(plan.drain),
        retry: plan.retry.map(|retry| model::Retry { after_ns: retry.after.as_ns(), copies: retry.copies }),
        late: match plan.late {
            LatePolicy::Send => "send".to_owned(),
            LatePolicy::Skip(after) => format!("skip:{after}"),
        },
        max_in_flight: plan.max_in_flight,
        connections_max: plan.connections,
        wait_strategy: facts.wait_strategy.to_owned(),
        receive_clock: facts.receive_clock.to_owned(),
        workers: facts.workers,
        seed: plan.seed,
        percentiles: quantiles.iter().map(|q| percentile_name(*q)).collect(),
        operations: plan
            .operations
            .iter()
            .map(|operation| model::PlannedOperation {
                name: operation.name.clone(),
                target: operation.facts.url.clone(),
                protocol: operation.facts.protocol.clone(),
                method: operation.facts.method.clone(),
                sql: operation.facts.sql.clone(),
                headers: operation.facts.headers.clone(),
                body_bytes: operation.facts.body_bytes,
                weight: operation.weight,
                success: match &operation.request {
                    Request::Http1(HttpRequest { success, .. }) => {
                        format!("status {}..={}", success.first, success.last)
                    }
                    Request::Postgres(_) => "no error".to_owned(),
                },
            })
            .collect(),
    };
    match &plan.load {
        Load::Open { profile, arrivals, requests } => {
            planned.arrivals = Some(arrivals.to_string());
            (planned.rate_per_s, planned.stages) = rate_over_time(profile);
            planned.duration_ns = limit(profile.length());
            planned.requests = *requests;
        }
        Load::Closed { clients, duration, requests } => {
            planned.model = model::Model::Closed;
            planned.clients = Some(u64::from(*clients));
            planned.duration_ns = duration.and_then(limit);
            planned.requests = *requests;
        }
    }
    planned
}

/// The rate, where it is constant, else the stages.
fn rate_over_time(profile: &RateProfile) -> (Option<f64>, Option<Vec<model::Stage>>) {
    match profile.stages() {
        [stage] if stage.from == stage.to => (Some(stage.from.as_per_second()), None),
        stages => {
            let stages = stages.iter().map(|stage| model::Stage {
                from_per_s: stage.from.as_per_second(),
                to_per_s: stage.to.as_per_second(),
                length_ns: (stage.length < ENDLESS).then_some(stage.length.as_ns()),
            });
            (None, Some(stages.collect()))
        }
    }
}

fn counts(counts: &Counts) -> model::Counts {
    let dropped = DropReason::ALL.iter().zip(counts.dropped);
    model::Counts {
        due: counts.due,
        sent: counts.sent,
        ok: counts.ok,
        failed: counts.failed,
        failed_unsent: counts.failed_unsent,
        timed_out: counts.timed_out,
        unfinished: counts.unfinished,
        unfinished_unsent: counts.unfinished_unsent,
        dropped: dropped.map(|(reason, n)| (reason.name().to_owned(), n)).collect(),
        attempts: counts.attempts,
        waited_for_connection: counts.waited_for_connection,
        answered: counts.answered,
        sent_in_drain: counts.sent - counts.sent_in_window,
        answered_in_drain: counts.answered - counts.answered_in_window,
    }
}

fn rates(counts: &Counts, recorder: &Recorder, series: &Series<'_>, window: Span) -> model::Rates {
    let per_s = |n: u64| (!window.is_zero()).then(|| n as f64 / window.as_secs_f64());
    let carried = recorder.carried();
    let offered_per_s = per_s(counts.sent_in_window + carried.sent);
    let achieved_per_s = per_s(counts.answered_in_window + carried.answered);
    let interval = |(achieved, means): (f64, BatchMeans)| Interval::of_mean(achieved, &means);
    // A run shorter than one window has no other peak than its rate.
    let peak = series.rows().iter().map(|row| row.sent() as f64 / row.length.as_secs_f64()).reduce(f64::max);
    model::Rates {
        window_ns: window.as_ns(),
        intended_per_s: per_s(counts.due),
        offered_per_s,
        achieved_per_s,
        achieved_interval_per_s: achieved_per_s.zip(series.achieved_per_s()).and_then(interval).map(
            |Interval { low, high }| model::Interval {
                low,
                high,
                level_ratio: LEVEL_RATIO,
                method: BATCH_MEANS.to_owned(),
            },
        ),
        goodput_per_s: per_s(counts.ok_in_window + carried.ok),
        peak_sent_per_s: peak.or(offered_per_s),
    }
}

fn errors(total: &OperationRecorder) -> BTreeMap<String, u64> {
    let mut errors: BTreeMap<String, u64> =
        total.failures.iter().map(|(failure, n)| (failure.to_string(), *n)).collect();
    if total.failures_of_other_kinds > 0 {
        errors.insert(OTHER_KINDS.to_owned(), total.failures_of_other_kinds);
    }
    errors
}

/// The kinds of requests, where there is more than one.
fn operations(plan: &Plan, recorder: &Recorder, distributions: &Distributions) -> Vec<model::Operation> {
    if plan.operations.len() < 2 {
        return Vec::new();
    }
    let operation =
        |(planned, recorded): (&plimsoll_core::plan::Operation, &OperationRecorder)| model::Operation {
            name: planned.name.clone(),
            counts: counts(&recorded.counts),
            success_ratio: recorded.counts.success_ratio(),
            response_ns: distributions.of(&recorded.response(), recorded.response_censored()),
            response_ok_ns: distributions.of(&recorded.response_ok, Censored::default()),
            response_failed_ns: distributions.of(&recorded.response_failed, Censored::default()),
            service_ns: distributions.of(&recorded.service, recorded.service_censored),
        };
    plan.operations.iter().zip(recorder.operations()).map(operation).collect()
}

fn window(row: WindowRow<'_>) -> model::Window {
    let response = |q| row.response_quantile(q);
    let lag = |q| row.schedule_lag_quantile(q);
    model::Window {
        start_ns: row.start.as_ns(),
        length_ns: row.length.as_ns(),
        due: row.due(),
        sent: row.sent(),
        ok: row.ok(),
        failed: row.failed(),
        timed_out: row.timed_out(),
        answered: row.answered(),
        in_flight: row.in_flight_mean(),
        response_ns: (|| {
            let (p50, p90, p99, max) = (response(0.5)?, response(0.9)?, response(0.99)?, response(1.0)?);
            Some(model::WindowResponse { p50, p90, p99, max })
        })(),
        schedule_lag_ns: (|| Some(model::WindowLag { p99: lag(0.99)?, max: lag(1.0)? }))(),
    }
}

fn objective(objective: &Objective, measured: Measured<'_>) -> model::Objective {
    let evaluation = objective.evaluate(measured);
    model::Objective {
        expression: evaluation.expression,
        status: objective_status(evaluation.status),
        status_by_interval: objective_status(evaluation.by_interval),
        value: evaluation.value,
        low: evaluation.low,
        high: evaluation.high,
        reason: Some(evaluation.reason).filter(|reason| !reason.is_empty()),
    }
}

fn objective_status(status: Status) -> model::ObjectiveStatus {
    match status {
        Status::Pass => model::ObjectiveStatus::Pass,
        Status::Fail => model::ObjectiveStatus::Fail,
        Status::Inconclusive => model::ObjectiveStatus::Inconclusive,
    }
}

/// The label of a percentile in texts for its name in results.
pub(crate) fn label_of(name: &str) -> String {
    crate::format::quantile_of(name).map_or_else(|| name.to_owned(), percentile_label)
}
