//! What was seen of a run, as the checks of [`plimsoll_stats::trust`] take it, and their results in words.

use plimsoll_stats::Series;
use plimsoll_stats::trust::{Check, CheckStatus, Lengths, Observed, Subject, Trust, Verdict};

use crate::format::{percent, span};
use crate::model::{self, Distribution, Model, RunV1};
use crate::warnings::OWN_FAILURES;

/// Judges `run`, whose course over time is `series`; `None` where nothing was due, so that there is
/// nothing to judge.
pub(crate) fn judge(run: &RunV1, series: &Series<'_>) -> Option<Trust> {
    let counts = &run.counts;
    if counts.due == 0 {
        return None;
    }
    let ratio = |part: Option<f64>, all: Option<f64>| Some(part? / all.filter(|all| *all > 0.0)?);
    let undropped = counts.ok + counts.failed + counts.timed_out + counts.unfinished;
    let own_failures: u64 = OWN_FAILURES.iter().filter_map(|(name, _)| run.errors.get(*name)).sum();
    let rates = &run.rates;
    let kernel_stamps = run.has_kernel_stamps();
    let reads = if kernel_stamps { &run.read_lag_ns } else { &run.poll_gap_ns };
    Some(Trust::of(&Observed {
        open_loop: run.plan.model == Model::Open,
        kernel_stamps,
        offered_ratio: ratio(rates.offered_per_s, rates.intended_per_s),
        dropped_ratio: Some(counts.dropped.values().sum::<u64>() as f64 / counts.due as f64),
        answered_ratio: ratio(rates.achieved_per_s, rates.offered_per_s),
        schedule_lag: run.schedule_lag_ns.as_ref().and_then(lengths),
        read_lag: reads.as_ref().and_then(lengths),
        response: run.response_ns.as_ref().and_then(lengths),
        busy_ratio: run.generator.busy_ratio,
        waited_ratio: Some(counts.waited_for_connection as f64 / counts.due as f64),
        success_ratio: run.success_ratio,
        own_failures_ratio: (undropped > 0).then(|| own_failures as f64 / undropped as f64),
        outstanding_growth: series.outstanding_growth(),
    }))
}

fn lengths(distribution: &Distribution) -> Option<Lengths> {
    let percentile = |name: &str| distribution.percentiles.get(name).copied();
    Some(Lengths { p50_ns: percentile("p50")?, p99_ns: percentile("p99")?, mean_ns: distribution.mean })
}

/// As it stands in the result.
pub(crate) fn published(trust: Trust, run: &RunV1) -> model::Trust {
    model::Trust {
        verdict: match trust.verdict {
            Verdict::Valid => model::Verdict::Valid,
            Verdict::Suspect => model::Verdict::Suspect,
            Verdict::Invalid => model::Verdict::Invalid,
        },
        limited_by: trust.limited_by.name().to_owned(),
        checks: trust
            .checks
            .iter()
            .map(|check| model::Check {
                name: check.subject.name().to_owned(),
                status: match check.status {
                    CheckStatus::Ok => model::CheckStatus::Ok,
                    CheckStatus::Warn => model::CheckStatus::Warn,
                    CheckStatus::Fail => model::CheckStatus::Fail,
                    CheckStatus::NotMade => model::CheckStatus::NotMade,
                },
                value: check.value,
                bound: check.bound,
                text: in_words(check, run),
            })
            .collect(),
    }
}

fn in_words(check: &Check, run: &RunV1) -> String {
    let (Some(value), Some(bound)) = (check.value, check.bound) else {
        let why = match check.subject {
            Subject::RateMet => "only an open loop has a rate to meet",
            Subject::SendsInTime => "only an open loop has a schedule",
            Subject::ReadsInTime => "no answer was read",
            Subject::GeneratorCpu => "the workers' processor time is not known",
            Subject::Success => "every request was dropped",
            _ => "this version does not make it",
        };
        return why.to_owned();
    };
    match check.subject {
        Subject::RateMet => {
            format!("{} of the intended load was sent in time, at least {}", percent(value), percent(bound))
        }
        Subject::SendsInTime => format!("schedule lag p99 {}, at most {}", span(value), span(bound)),
        Subject::ReadsInTime if !run.has_kernel_stamps() => {
            format!("poll gap p99 {}, at most {}", span(value), span(bound))
        }
        Subject::ReadsInTime => format!("read lag p99 {}, at most {}", span(value), span(bound)),
        Subject::GeneratorCpu => {
            format!("the busiest worker was busy {}, below {}", percent(value), percent(bound))
        }
        Subject::Connections => {
            format!("{} waited at the connection limit, at most {}", percent(value), percent(bound))
        }
        Subject::Success => format!("{} ok, at least {}", percent(value), percent(bound)),
        _ => String::new(),
    }
}
