//! Makes the published result of trials and of what the searches found. All arithmetic of it is here.

use plimsoll_core::Span;
use plimsoll_stats::fit::ScalabilityFit;
use plimsoll_stats::search::{Figure, Peak, PeakTrial, RateBounds, Standing, Stop, Verdict};
use plimsoll_stats::slo::has_samples_beyond;
use plimsoll_stats::trust::{Limit, SUCCESS_MIN_RATIO, Subject};
use plimsoll_stats::{Interval, knee, queueing};

use super::text::still_rose;
use super::{
    CapacityAtObjective, Fits, Knee, Part, ProfilePlan, ProfileV1, ReferencePoint, References, TrialV1,
    UniversalScalability,
};
use crate::format::{count, number, percent, percentile_name};
use crate::model::{self, Distribution, ObjectiveStatus, RunV1};

/// What one client waits, as a multiple of 1 ÷ peak: of a single server it is a little more than once, for the
/// way there and back. With more the server serves several at a time, and a reference of one would be wrong.
const SINGLE_SERVER_RATIO: std::ops::Range<f64> = 0.8..1.5;
/// Squared coefficients of variation nearer to 0 are M/D/1's, nearer to 1 M/M/1's …
const MD1_BELOW: f64 = 0.5;
/// … and above this neither's.
const MM1_BELOW: f64 = 2.0;
/// So near saturation a queue takes longer than any trial to fill, and an error of 0.1 % of the peak, which is
/// less than its interval, decides the curve.
const REFERENCE_BELOW_RATIO: f64 = 0.999;

/// What was found, before it is published.
#[derive(Debug)]
pub struct Findings {
    /// What was asked for.
    pub plan: ProfilePlan,
    /// From the first trial's set-up to the end of the last.
    pub elapsed: Span,
    /// An interrupt ended it.
    pub interrupted: bool,
    /// Every trial, in the order made.
    pub trials: Vec<TrialV1>,
    /// What the sweep found.
    pub peak: Option<Peak>,
    /// What the search for the objective found.
    pub bounds: Option<RateBounds>,
    /// Whole sentences a reader should know.
    pub notes: Vec<String>,
}

impl ProfileV1 {
    /// The result of `findings`. `first` is the run of the first trial, which tells of program and machine.
    pub fn new(findings: Findings, first: &RunV1) -> Self {
        let Findings { plan, elapsed, interrupted, trials, peak, bounds, notes } = findings;
        let sweep = sweep_points(&trials);
        let capacity_at_objective = bounds.map(|bounds| {
            capacity(plan.objectives.join(" and "), bounds, peak.and_then(|peak| ceiling(peak, &trials)))
        });
        let mut this = Self {
            format: super::FORMAT.to_owned(),
            plimsoll: first.plimsoll.clone(),
            started_at: first.started_at.clone(),
            elapsed_ns: elapsed.as_ns(),
            interrupted,
            host: first.host.clone(),
            peak: peak.map(published),
            capacity_at_objective,
            knee: knees(&trials),
            fits: Fits { universal_scalability: scalability(&sweep) },
            references: references(&trials, peak, &plan),
            plan,
            trials,
            warnings: Vec::new(),
        };
        this.warnings = warnings(&this, notes);
        this
    }
}

impl TrialV1 {
    /// The summary of `run`, made for `part`; at `fraction_ratio` of the peak, where it was.
    pub fn new(part: Part, run: &RunV1, fraction_ratio: Option<f64>) -> Self {
        let standing = standing(run);
        let rate = run.rates.achieved_per_s.filter(|rate| *rate > 0.0);
        let clients_over_rate_ns =
            run.plan.clients.zip(rate).map(|(clients, rate)| clients as f64 / rate * 1e9);
        Self {
            part,
            used: standing == Standing::Usable,
            reason: reason(standing, run),
            model: run.plan.model,
            clients: run.plan.clients,
            rate_per_s: run.plan.rate_per_s,
            fraction_ratio,
            planned_ns: run.plan.duration_ns,
            rates: run.rates.clone(),
            answered: run.counts.answered,
            success_ratio: run.success_ratio,
            clients_over_rate_ns,
            response_ns: run.response_ns.clone(),
            service_ns: run.service_ns.clone(),
            schedule_lag_ns: run.schedule_lag_ns.clone(),
            connections: run.connections.clone(),
            busy_ratio: run.generator.busy_ratio,
            errors: run.errors.clone(),
            error_texts: run.error_texts.clone(),
            trust: run.trust.clone(),
            objectives: run.objectives.clone(),
        }
    }

    /// As the sweep takes it.
    pub fn peak_trial(&self, run: &RunV1) -> PeakTrial {
        let clients = self.clients.and_then(|clients| u32::try_from(clients).ok()).unwrap_or(u32::MAX);
        PeakTrial { clients, rate_per_s: achieved(&self.rates), standing: standing(run) }
    }

    /// Whether all objectives were met, as the search for them takes it; `None` for a trial that was
    /// interrupted.
    pub fn verdict(&self, run: &RunV1) -> Option<Verdict> {
        match standing(run) {
            Standing::Interrupted => None,
            Standing::Generator => Some(Verdict::Invalid),
            Standing::NothingAnswered | Standing::Failures { .. } | Standing::Connections { .. } => {
                Some(Verdict::Missed)
            }
            // A rate that is not sustained meets nothing, whatever a run of this length found.
            Standing::Usable if is_overloaded(run) => Some(Verdict::Missed),
            Standing::Usable => Some(self.objectives_verdict()),
        }
    }

    /// What the objectives alone say, to whom their intervals are all they know.
    pub(super) fn objectives_verdict(&self) -> Verdict {
        let any = |status: ObjectiveStatus| self.objectives.iter().any(|o| o.status_by_interval == status);
        if any(ObjectiveStatus::Fail) {
            Verdict::Missed
        } else if any(ObjectiveStatus::Inconclusive) {
            Verdict::Undecided
        } else {
            Verdict::Met
        }
    }

    /// Half of the p99's interval as a share of it; `None` without one.
    pub fn p99_half_width_ratio(&self) -> Option<f64> {
        p99_half_width_ratio(self.response_ns.as_ref()?)
    }
}

/// The achieved rate and its interval.
pub fn achieved(rates: &model::Rates) -> Figure {
    let interval = rates.achieved_interval_per_s.as_ref();
    Figure {
        value: rates.achieved_per_s.unwrap_or(0.0),
        interval: interval.map(|interval| Interval { low: interval.low, high: interval.high }),
    }
}

/// Whether `run` knows its p99: there are enough samples beyond it, its interval is within `precision_ratio` of
/// it, and no objective is left undecided.
pub fn p99_is_known(run: &RunV1, precision_ratio: f64) -> bool {
    let Some(response) = &run.response_ns else { return false };
    let undecided = run.objectives.iter().any(|o| o.status_by_interval == ObjectiveStatus::Inconclusive);
    !undecided
        && has_enough_beyond(response, 0.99)
        && p99_half_width_ratio(response).is_some_and(|half| half <= precision_ratio)
}

/// Whether enough independent samples lie beyond quantile `q`.
pub(super) fn has_enough_beyond(response: &Distribution, q: f64) -> bool {
    let n_eff = response.n_eff_by_percentile.get(&percentile_name(q)).copied();
    has_samples_beyond(n_eff.unwrap_or(response.count as f64), q)
}

/// Half of the p99's interval as a share of it; `None` without one, or where an end is open.
fn p99_half_width_ratio(response: &Distribution) -> Option<f64> {
    let (low, high) = response.intervals.as_ref()?.bounds.get("p99").copied()?;
    let p99 = response.percentiles.get("p99").copied().filter(|ns| *ns > 0)?;
    Some((high? - low?) / 2.0 / p99 as f64)
}

/// Whether the trial that `run` was can be used.
fn standing(run: &RunV1) -> Standing {
    let generator = run
        .trust
        .as_ref()
        .is_some_and(|trust| trust.verdict == model::Verdict::Invalid || trust.limited_by == "generator");
    let (established, wanted) = (run.connections.established, run.connections.wanted.unwrap_or(0));
    let closed = run.plan.model == model::Model::Closed;
    match run.success_ratio {
        _ if run.interrupted => Standing::Interrupted,
        // Failures of this machine are among those: they say nothing of the server.
        _ if generator => Standing::Generator,
        _ if run.rates.achieved_per_s.is_none_or(|rate| rate <= 0.0) => Standing::NothingAnswered,
        // In an open loop requests share the connections that there are.
        _ if established < wanted && closed => Standing::Connections { established, wanted },
        Some(success_ratio) if success_ratio < SUCCESS_MIN_RATIO => Standing::Failures { success_ratio },
        _ => Standing::Usable,
    }
}

/// Whether an open loop asked for more than came back: its rate was not met, or a backlog grew.
fn is_overloaded(run: &RunV1) -> bool {
    run.trust.as_ref().is_some_and(|trust| {
        let not_met = |check: &model::Check| {
            check.name == Subject::RateMet.name() && check.status == model::CheckStatus::Fail
        };
        trust.limited_by == Limit::Server.name() || trust.checks.iter().any(not_met)
    })
}

/// Why a trial is not used; `None` for one that is.
fn reason(standing: Standing, run: &RunV1) -> Option<String> {
    let first_failure = || {
        let most = run.errors.iter().max_by_key(|(_, n)| **n).map(|(kind, _)| kind);
        let kind = most.or_else(|| run.error_texts.keys().next())?;
        let text = run.error_texts.get(kind).map_or(kind.as_str(), String::as_str);
        Some(format!(": {text}"))
    };
    let with_failure = |text: String| format!("{text}{}", first_failure().unwrap_or_default());
    Some(match standing {
        Standing::Usable => return None,
        Standing::Generator => "the generator was the limit".to_owned(),
        Standing::Connections { established, wanted } => with_failure(format!(
            "the server let {} of {} connections stand",
            count(established),
            count(wanted)
        )),
        Standing::Failures { success_ratio } => {
            with_failure(format!("only {} of the requests succeeded", percent(success_ratio)))
        }
        Standing::NothingAnswered if run.counts.answered > 0 => {
            "no answer came inside the trial's time; give longer ones".to_owned()
        }
        Standing::NothingAnswered => with_failure("no request was answered".to_owned()),
        Standing::Interrupted => "it was interrupted".to_owned(),
    })
}

fn published(peak: Peak) -> super::Peak {
    let established = match peak.stop {
        Stop::Connections { established } => Some(established),
        _ => None,
    };
    super::Peak {
        rate_per_s: peak.rate_per_s.value,
        low: peak.rate_per_s.interval.map(|interval| interval.low),
        high: peak.rate_per_s.interval.map(|interval| interval.high),
        clients: peak.clients.into(),
        limited_by: match peak.stop {
            _ if peak.is_lower_bound => "generator",
            Stop::Connections { .. } => "connections",
            Stop::ClientsMax => "clients",
            Stop::Plateau => "server",
            Stop::Interrupted | Stop::NothingAnswered => "none",
        }
        .to_owned(),
        is_lower_bound: peak.is_lower_bound,
        confirmed: peak.confirmed,
        connections_established: established,
    }
}

/// The rate above which an open loop is not tried: where the server set the peak, and not the generator or the
/// most clients, the highest that any usable trial of the sweep allows.
pub fn ceiling(peak: Peak, trials: &[TrialV1]) -> Option<f64> {
    let high = |figure: Figure| figure.interval.map_or(figure.value, |interval| interval.high);
    let sweep =
        trials.iter().filter(|trial| matches!(trial.part, Part::Sweep | Part::PeakAgain) && trial.used);
    let highest = sweep.map(|trial| high(achieved(&trial.rates))).fold(high(peak.rate_per_s), f64::max);
    (!peak.is_lower_bound && peak.stop == Stop::Plateau).then_some(highest)
}

fn capacity(objective: String, bounds: RateBounds, ceiling: Option<f64>) -> CapacityAtObjective {
    let ceiling = ceiling.filter(|ceiling| bounds.low_per_s.is_none_or(|low| low < *ceiling));
    let high_is_peak = bounds.high_per_s.is_none() && bounds.generator_per_s.is_none() && ceiling.is_some();
    CapacityAtObjective {
        objective,
        low: bounds.low_per_s,
        high: if high_is_peak { ceiling } else { bounds.high_per_s },
        high_is_peak,
        undecided: bounds.undecided_per_s,
        generator_per_s: bounds.generator_per_s,
        complete: bounds.complete,
    }
}

/// Clients, rate and mean response in ns of the usable trials of the sweep.
fn sweep_points(trials: &[TrialV1]) -> Vec<(f64, f64, f64)> {
    let usable = trials.iter().filter(|trial| trial.part == Part::Sweep && trial.used);
    let point = |trial: &TrialV1| {
        Some((trial.clients? as f64, trial.rates.achieved_per_s?, trial.response_ns.as_ref()?.mean))
    };
    usable.filter_map(point).collect()
}

/// Rate and p99 in ns of the usable steps of the curve.
fn curve_points(trials: &[TrialV1]) -> Vec<(f64, f64)> {
    let usable = trials.iter().filter(|trial| trial.part == Part::Curve && trial.used);
    let p99 = |trial: &TrialV1| trial.response_ns.as_ref()?.percentiles.get("p99").copied();
    let mut points: Vec<(f64, f64)> =
        usable.filter_map(|trial| Some((trial.rate_per_s?, p99(trial)? as f64))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn knees(trials: &[TrialV1]) -> Vec<Knee> {
    let sweep = sweep_points(trials);
    let power: Vec<(f64, f64)> = sweep.iter().map(|(_, rate, mean)| (*rate, *mean)).collect();
    // Of one or two trials one always has the largest power, and it says nothing.
    let power = knee::largest_power(&power).filter(|_| sweep.len() > 2).map(|at| Knee {
        method: knee::LARGEST_POWER.to_owned(),
        curve: "sweep".to_owned(),
        clients: Some(sweep[at].0 as u64),
        rate_per_s: sweep[at].1,
        response_ns: sweep[at].2,
    });
    let curve = curve_points(trials);
    let kneedle = knee::kneedle(&curve).map(|at| Knee {
        method: knee::KNEEDLE.to_owned(),
        curve: "latency".to_owned(),
        clients: None,
        rate_per_s: curve[at].0,
        response_ns: curve[at].1,
    });
    power.into_iter().chain(kneedle).collect()
}

fn scalability(sweep: &[(f64, f64, f64)]) -> Option<UniversalScalability> {
    let points: Vec<(f64, f64)> = sweep.iter().map(|(clients, rate, _)| (*clients, *rate)).collect();
    let fit = ScalabilityFit::new(&points)?;
    Some(UniversalScalability {
        lambda_per_s: fit.lambda_per_s,
        sigma: fit.sigma,
        kappa: fit.kappa,
        r_squared: fit.r_squared,
        points: points.len() as u64,
        peak_clients: fit.peak_clients(),
        peak_rate_per_s: fit.peak_rate_per_s(),
    })
}

/// The reference for the latency curve, where the server serves one request at a time: its service takes
/// 1 ÷ peak, since it is never idle there, and what one client waits beyond that is the way to it. `None` where
/// the peak is not one server's, where one client was not measured, or where arrivals are not Poisson. Its
/// points are those of the steps in `trials`.
pub fn references(trials: &[TrialV1], peak: Option<Peak>, plan: &ProfilePlan) -> Option<References> {
    let alone = trials.iter().find(|t| t.part == Part::Sweep && t.used && t.clients == Some(1))?;
    let response = alone.response_ns.as_ref()?;
    let peak = peak.filter(|peak| !peak.is_lower_bound && plan.arrivals.as_deref() == Some("poisson"))?;
    let service_mean_ns = 1e9 / peak.rate_per_s.value;
    if !SINGLE_SERVER_RATIO.contains(&(response.mean / service_mean_ns)) {
        return None;
    }
    let service_cv_ratio = response.stdev / service_mean_ns;
    let law = match service_cv_ratio * service_cv_ratio {
        squared if squared < MD1_BELOW => "M/D/1",
        squared if squared < MM1_BELOW => "M/M/1",
        _ => return None,
    };
    let mut references = References {
        law: law.to_owned(),
        service_mean_ns,
        service_cv_ratio,
        way_ns: (response.mean - service_mean_ns).max(0.0),
        points: Vec::new(),
    };
    let steps = trials.iter().filter(|trial| trial.part == Part::Curve).filter_map(|trial| trial.rate_per_s);
    references.points = steps.filter_map(|rate| references.at(rate)).collect();
    Some(references)
}

impl References {
    /// What the law says at a rate; `None` where the server would hardly keep up, from a utilisation of
    /// 0.999 of the peak on.
    pub fn at(&self, rate_per_s: f64) -> Option<ReferencePoint> {
        let service_rate_per_s = 1e9 / self.service_mean_ns;
        if !(0.0 < rate_per_s && rate_per_s < REFERENCE_BELOW_RATIO * service_rate_per_s) {
            return None;
        }
        let (mean, quantile): (f64, fn(f64, f64, f64) -> f64) = match self.law.as_str() {
            "M/D/1" => (queueing::md1_mean(rate_per_s, service_rate_per_s), queueing::md1_quantile),
            _ => (queueing::mm1_mean(rate_per_s, service_rate_per_s), queueing::mm1_quantile),
        };
        let quantile_ns = |q| quantile(rate_per_s, service_rate_per_s, q) * 1e9 + self.way_ns;
        Some(ReferencePoint {
            rate_per_s,
            mean_ns: mean * 1e9 + self.way_ns,
            p50_ns: quantile_ns(0.5),
            p99_ns: quantile_ns(0.99),
        })
    }
}

fn warnings(profile: &ProfileV1, notes: Vec<String>) -> Vec<model::Warning> {
    let mut warnings = Vec::new();
    let mut warn = |name: &str, seen: String, harm: &str, remedy: &str| {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        warnings.push(model::Warning { name: name.to_owned(), seen, harm: some(harm), remedy: some(remedy) });
    };
    if profile.trials.iter().all(|trial| trial.answered == 0) {
        warn(
            "nothing_answered",
            "no request was answered".to_owned(),
            "there is nothing to say about the server",
            "try the address by hand, for example with curl",
        );
    }
    if let Some(peak) = &profile.peak {
        let rate = number(peak.rate_per_s);
        if peak.is_lower_bound {
            warn(
                "generator",
                format!("the generator was the limit at {rate}/s"),
                "the server can do more than was measured, so the peak is a lower bound",
                "use more workers, leave processors free, or measure from another machine",
            );
        }
        if !peak.confirmed {
            warn(
                "not_confirmed",
                "the peak was measured only once".to_owned(),
                "the greatest of several measured rates tends to be above the true one",
                "let the sweep end by itself",
            );
        }
        if peak.limited_by == "clients" && !still_rose(profile, peak) {
            warn(
                "clients_max",
                "the sweep ended at the most clients before it knew that more bring nothing".to_owned(),
                "the peak may be higher",
                "give a higher --max-clients",
            );
        } else if peak.limited_by == "clients" {
            warn(
                "clients_max",
                format!("the rate was still rising at the most clients, {}", count(peak.clients)),
                "the peak may be higher",
                "give a higher --max-clients",
            );
        }
        match peak.low.zip(peak.high).map(|(low, high)| (high - low) / 2.0 / peak.rate_per_s) {
            Some(half) if half > profile.plan.rate_precision_ratio => warn(
                "imprecise",
                format!("the peak's interval is ± {}", percent((half * 1e3).round() / 1e3)),
                "trials differ by more than the gains the sweep looks for",
                "give longer trials, such as --trial 10s..60s, or a quieter machine",
            ),
            Some(_) => {}
            None => warn(
                "no_interval",
                "no interval could be made for the peak".to_owned(),
                "how far it may be off is not known, and every gain was decided on bare figures",
                "give longer trials, such as --trial 10s..60s",
            ),
        }
    }
    if profile.capacity_at_objective.as_ref().is_some_and(|capacity| capacity.undecided.is_some()) {
        warn(
            "undecided",
            "some rates between the bounds could not be decided in the longest time of a trial".to_owned(),
            "the bounds are further apart than they could be",
            "give longer ones, such as --step 30s..120s",
        );
    }
    for note in notes {
        warn("stopped", note, "", "");
    }
    warnings
}
