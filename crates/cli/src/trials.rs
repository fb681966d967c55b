//! Runs the trials of a search for limits one after the other: each is a run of the engine that ends when it
//! knows enough. Rows of tables go out as they are measured. What was measured is kept, whatever comes after.

use std::io::IsTerminal;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use plimsoll_core::plan::Plan;
use plimsoll_core::share::window_length;
use plimsoll_core::{Span, Timestamp};
use plimsoll_report::profile::build::{achieved, p99_is_known};
use plimsoll_report::profile::{Findings, Part, ProfilePlan, text};
use plimsoll_report::{ProfileV1, RunV1, TrialV1};
use plimsoll_scenario::{DESCRIPTORS_KEPT, Environment, MAX_CLIENTS, Machine, RunArgs, lower};
use plimsoll_stats::search::{Peak, PeakSearch, RateBounds, RateSearch, RateTrial};
use plimsoll_stats::{ConnectionFacts, HostFacts, Objective, Recorder, RecorderConfig, RunFacts, Snapshot};

use crate::exit::Exit;
use crate::live::{Interrupts, Live};
use crate::output::{Format, Output};
use crate::run::CommonFlags;
use crate::{Refusal, console};

/// A trial of the sweep has measured enough when its rate's interval is within this share of the rate …
pub(crate) const RATE_PRECISION_RATIO: f64 = 0.02;
/// … and a step of the open loop when its p99's is within this share of the p99.
pub(crate) const P99_PRECISION_RATIO: f64 = 0.1;
/// Between trials: time for the server to see that the last one's connections are closed, so that they do not
/// count towards its limit.
const PAUSE: Duration = Duration::from_millis(200);
/// So many looks in a row, half a second apart, must find it so. An interval is narrow by chance now and then,
/// and a trial that ended with the first such chance would claim more than it knows.
const LOOKS: u32 = 3;
/// Where none is given: the times of a trial of the sweep.
const TRIAL: Times = Times { least: Span::from_secs(2), most: Span::from_secs(10) };
/// Where none is given: the most clients, if the limit of open files allows them.
const CLIENTS_MAX: u64 = 16_384;

/// The flags of the sweep.
#[derive(Debug, Args)]
#[command(next_help_heading = "Trials")]
pub(crate) struct TrialFlags {
    /// Time of a trial of the sweep (default 2s..10s).
    ///
    /// The least and the most. In between, a trial ends when the 95 % interval of its rate is within 2 % of
    /// the rate. A single time is both.
    #[arg(long, value_name = "D..D", allow_negative_numbers = true)]
    trial: Option<String>,
    /// Most clients of the sweep (default 16384).
    ///
    /// Or as many as the limit of open files allows. The sweep ends by itself before that when more clients
    /// bring no more.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_clients: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
}

/// The least and the most time of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// Above zero.
    pub(crate) least: Span,
    /// Not below `least`.
    pub(crate) most: Span,
}

impl Times {
    /// Reads the value of `flag`; faults are added to `faults`.
    pub(crate) fn read(flag: &str, given: Option<&str>, otherwise: Self, faults: &mut Vec<String>) -> Self {
        let Some(text) = given else { return otherwise };
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let fault = match (least.trim().parse::<Span>(), most.trim().parse::<Span>()) {
            (Ok(least), Ok(_)) if least.is_zero() => "leaves no time to measure anything".to_owned(),
            (Ok(least), Ok(most)) if least > most => "has the longer time first".to_owned(),
            (Ok(least), Ok(most)) => return Self { least, most },
            _ => "is not a time, or the least and the most time".to_owned(),
        };
        faults.push(format!("{flag} {text}: {fault}; give {} or a single time such as 5s", otherwise));
        otherwise
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}..{}", self.least, self.most)
    }
}

impl TrialFlags {
    /// The times of a trial and the most clients; the rest goes into `args`.
    pub(crate) fn read(
        &self,
        args: &mut RunArgs,
        machine: &Machine,
        faults: &mut Vec<String>,
    ) -> (Times, u32) {
        self.common.fill(args);
        let times = Times::read("--trial", self.trial.as_deref(), TRIAL, faults);
        let allowed = machine.descriptor_limit.saturating_sub(DESCRIPTORS_KEPT).max(1);
        let clients_max = match self.max_clients.as_deref().map(str::parse::<u64>) {
            None => CLIENTS_MAX.min(allowed),
            Some(Ok(most)) if (1..=MAX_CLIENTS.min(allowed)).contains(&most) => most,
            Some(_) => {
                let most = MAX_CLIENTS.min(allowed);
                let remedy = if allowed < MAX_CLIENTS {
                    "; the limit of open files allows no more, ulimit -n raises it"
                } else {
                    ""
                };
                let given = self.max_clients.as_deref().unwrap_or_default();
                faults.push(format!("--max-clients {given}: give a whole number from 1 to {most}{remedy}"));
                1
            }
        };
        // In range of u32: at most MAX_CLIENTS.
        (times, clients_max as u32)
    }
}

/// What ends a trial before its longest time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Enough {
    /// The interval of its rate is narrow.
    Rate,
    /// The interval of its p99 is narrow.
    P99,
}

/// A trial to be made.
pub(crate) struct Trial {
    /// What for.
    pub(crate) part: Part,
    /// Its load.
    pub(crate) args: RunArgs,
    /// How long it may take.
    pub(crate) times: Times,
    /// What ends it before.
    pub(crate) enough: Enough,
    /// Its share of the peak, for an open loop.
    pub(crate) fraction_ratio: Option<f64>,
    /// What progress calls it.
    pub(crate) label: String,
}

/// Where trials are run, and all that came of them.
pub(crate) struct Lab {
    /// The requests and the way to the server; each trial adds its load.
    pub(crate) base: RunArgs,
    /// What open loops are held against.
    pub(crate) objectives: Vec<Objective>,
    machine: Machine,
    environment: Environment,
    interrupts: Interrupts,
    /// Whether there is live progress on standard error.
    shown: bool,
    /// Whether rows go to standard output as they are measured.
    rows: bool,
    begun: Instant,
    trials: Vec<TrialV1>,
    first: Option<RunV1>,
    notes: Vec<String>,
    /// Standard output took no more.
    lost: Option<Exit>,
}

impl Lab {
    /// A place for trials of `base`, with rows on standard output where `rows` is set.
    ///
    /// # Errors
    /// When interrupts cannot be listened to.
    pub(crate) fn new(
        base: RunArgs,
        objectives: Vec<Objective>,
        (machine, environment): (Machine, Environment),
        rows: bool,
        progress: bool,
    ) -> Result<Self, Refusal> {
        Ok(Self {
            base,
            objectives,
            machine,
            environment,
            interrupts: Interrupts::listen()?,
            shown: progress && std::io::stderr().is_terminal(),
            rows,
            begun: Instant::now(),
            trials: Vec::new(),
            first: None,
            notes: Vec::new(),
            lost: None,
        })
    }

    /// Whether to go on: no interrupt came.
    pub(crate) fn goes_on(&self) -> bool {
        self.interrupts.count() == 0
    }

    /// The trials so far.
    pub(crate) fn trials(&self) -> &[TrialV1] {
        &self.trials
    }

    /// How the command ends as far as interrupts say.
    pub(crate) fn interrupted(&self) -> Option<Exit> {
        self.interrupts.exit()
    }

    /// Shows a line or a row of a table, where rows are shown.
    pub(crate) fn say(&mut self, text: &str) {
        if self.rows && self.lost.is_none() {
            let exit = console::last_result(text.as_bytes());
            self.lost = Some(exit).filter(|exit| *exit != Exit::Measured);
        }
    }

    /// Makes a trial; `None` where none can be made any more, for which the reason is kept.
    ///
    /// # Errors
    /// When the first one cannot take place; nothing has been sent then.
    pub(crate) fn run(&mut self, trial: Trial) -> Result<Option<(TrialV1, RunV1)>, Refusal> {
        if !self.goes_on() {
            return Ok(None);
        }
        if !self.trials.is_empty() {
            std::thread::sleep(PAUSE);
        }
        let Trial { part, mut args, times, enough, fraction_ratio, label } = trial;
        args.duration = Some(times.most.to_string());
        match self.measure(&args, times, enough, &label) {
            Ok(run) => {
                let trial = TrialV1::new(part, &run, fraction_ratio);
                self.trials.push(trial.clone());
                self.first.get_or_insert_with(|| run.clone());
                Ok(Some((trial, run)))
            }
            Err(refusal) if self.trials.is_empty() => Err(refusal),
            Err(refusal) => {
                self.notes.push(format!("the search stopped: {label}: {refusal}"));
                Ok(None)
            }
        }
    }

    fn measure(&self, args: &RunArgs, times: Times, enough: Enough, label: &str) -> Result<RunV1, Refusal> {
        let lowered = lower(args, &self.machine, &self.environment).map_err(|faults| faults.to_string())?;
        let plan = &lowered.plan;
        let length = times.most.saturating_add(plan.warmup);
        let not_before = times.least.saturating_add(plan.warmup);
        let objectives = self.objectives_of(args);
        let mut looks = 0;
        let knows_enough = |elapsed: Span, snapshot: &Snapshot| {
            // Behind the schedule's end there is nothing to be ended.
            let known = (not_before..length).contains(&elapsed) && {
                let facts = so_far(Span::from_ns(elapsed.as_ns() - plan.warmup.as_ns()));
                let run = RunV1::new(plan, &facts, &snapshot.recorder, &[], &objectives);
                match enough {
                    Enough::Rate => {
                        let half = achieved(&run.rates).half_width_ratio();
                        half.is_some_and(|half| half <= RATE_PRECISION_RATIO)
                    }
                    Enough::P99 => p99_is_known(&run, P99_PRECISION_RATIO),
                }
            };
            looks = if known { looks + 1 } else { 0 };
            looks >= LOOKS
        };
        let mut live = Live::new(&self.interrupts, self.shown.then_some(Some(length)))
            .labelled(label)
            .until(knows_enough);
        let outcome = plimsoll_engine::run(plan, &mut live);
        live.clear();
        let mut outcome = outcome?;
        outcome.facts.interrupted = !self.goes_on();
        Ok(RunV1::new(plan, &outcome.facts, &outcome.snapshot.recorder, &lowered.quantiles, &objectives))
    }

    /// A closed loop is held against nothing.
    fn objectives_of(&self, args: &RunArgs) -> Vec<Objective> {
        if args.clients.is_some() { Vec::new() } else { self.objectives.clone() }
    }

    /// The sweep over clients.
    ///
    /// # Errors
    /// As [`Lab::run`].
    pub(crate) fn sweep(&mut self, times: Times, clients_max: u32) -> Result<Option<Peak>, Refusal> {
        let mut search = PeakSearch::new(clients_max);
        self.say(&format!("{}\n", text::SWEEP_HEAD));
        while let Some(step) = search.next() {
            let clients = step.clients;
            let number = self.trials.len() + 1;
            let plural = if clients == 1 { "" } else { "s" };
            let trial = Trial {
                part: if step.again { Part::PeakAgain } else { Part::Sweep },
                args: RunArgs { clients: Some(clients.to_string()), ..self.base.clone() },
                // The figure that is published is not one that ended a trial by being narrow.
                times: if step.again { Times { least: times.most, most: times.most } } else { times },
                enough: Enough::Rate,
                fraction_ratio: None,
                label: match step.again {
                    true => format!("the best again, {clients} client{plural}"),
                    false => format!(
                        "trial {number}, {clients} client{plural}, at least {} more",
                        search.at_least_left()
                    ),
                },
            };
            let Some((trial, run)) = self.run(trial)? else { break };
            search.record(trial.peak_trial(&run));
            self.say(&text::sweep_row(&trial));
        }
        Ok(search.answer())
    }

    /// One step of an open loop.
    ///
    /// # Errors
    /// As [`Lab::run`].
    pub(crate) fn open(
        &mut self,
        part: Part,
        rate_per_s: f64,
        peak_per_s: f64,
        times: Times,
        label: String,
    ) -> Result<Option<(TrialV1, RunV1)>, Refusal> {
        let args = RunArgs { rate: Some(rate_per_s.to_string()), ..self.base.clone() };
        let fraction_ratio = Some(rate_per_s / peak_per_s);
        self.run(Trial { part, args, times, enough: Enough::P99, fraction_ratio, label })
    }

    /// The search for the highest rate that meets the objectives, which begins with what is known.
    ///
    /// # Errors
    /// As [`Lab::run`].
    pub(crate) fn objective(
        &mut self,
        known: Vec<RateTrial>,
        peak_per_s: f64,
        ceiling_per_s: Option<f64>,
        times: Times,
    ) -> Result<RateBounds, Refusal> {
        let mut search = RateSearch::new(rounded(peak_per_s / 2.0), ceiling_per_s, times.least, times.most);
        known.into_iter().for_each(|trial| search.know(trial));
        let expressions: Vec<String> = self.objectives.iter().map(|o| o.expression().to_owned()).collect();
        let mut head = Some(format!("\n{}\n", text::objective_head(&expressions)));
        while let Some(step) = search.next() {
            if let Some(head) = head.take() {
                self.say(&head);
            }
            let rate_per_s = rounded(step.rate_per_s);
            let left = match search.steps_left() {
                Some(steps) => {
                    format!(", up to {} left", Span::from_ns(times.most.as_ns() * u64::from(steps)))
                }
                None => String::new(),
            };
            let label = format!("{} at {rate_per_s}/s{left}", expressions.join(" and "));
            let times = Times { least: step.length, most: step.length };
            let Some((trial, run)) = self.open(Part::Objective, rate_per_s, peak_per_s, times, label)? else {
                break;
            };
            self.say(&text::objective_row(&trial));
            let Some(verdict) = trial.verdict(&run) else { break };
            search.record(RateTrial { rate_per_s, length: step.length, verdict });
        }
        Ok(search.answer())
    }

    /// What `plan` holds of the first trial, before it is run: what the header tells.
    ///
    /// # Errors
    /// All that is wrong with the flags.
    pub(crate) fn announce(&mut self, plan: &mut ProfilePlan, args: &RunArgs) -> Result<(), Refusal> {
        let lowered = lower(args, &self.machine, &self.environment).map_err(|faults| faults.to_string())?;
        let config = RecorderConfig {
            operations: lowered.plan.operations.len(),
            start: Timestamp::ZERO,
            window_end: Timestamp::ZERO,
            window_length: window_length(Span::ZERO),
        };
        let nothing_yet =
            RunV1::new(&lowered.plan, &so_far(Span::ZERO), &Recorder::new(config), &lowered.quantiles, &[]);
        plan.operations = nothing_yet.plan.operations;
        (plan.warmup_ns, plan.timeout_ns, plan.seed) =
            (nothing_yet.plan.warmup_ns, nothing_yet.plan.timeout_ns, nothing_yet.plan.seed);
        lowered.notes.iter().for_each(|note| console::warning(note));
        self.say(&text::header(plan, &nothing_yet.plimsoll.version));
        Ok(())
    }

    /// Publishes what was found and says how the command ends. Of text on standard output the tables are there
    /// already.
    pub(crate) fn publish(
        mut self,
        plan: ProfilePlan,
        peak: Option<Peak>,
        bounds: Option<RateBounds>,
        mut output: Output,
    ) -> Exit {
        // Nothing was measured before the first trial was: an interrupt came, or it was refused.
        let Some(first) = self.first.take() else {
            return self.interrupted().unwrap_or(Exit::NothingMeasured);
        };
        let findings = Findings {
            plan,
            elapsed: Span::from_ns(self.begun.elapsed().as_nanos() as u64),
            interrupted: self.interrupted().is_some(),
            trials: std::mem::take(&mut self.trials),
            peak,
            bounds,
            notes: std::mem::take(&mut self.notes),
        };
        let profile = ProfileV1::new(findings, &first);
        if self.rows {
            output.stdout = None;
            self.say(&format!("\n{}", text::conclusion(&profile)));
        }
        let written = output.write(&|format| match format {
            Format::Text => text::render(&profile).into_bytes(),
            Format::Json => profile.to_json().into_bytes(),
        });
        let answered = profile.trials.iter().any(|trial| trial.answered > 0);
        let measured = if answered { Exit::Measured } else { Exit::NothingMeasured };
        let verdicts = [self.interrupted(), Some(written), self.lost, Some(measured)];
        verdicts.into_iter().flatten().min().unwrap_or(Exit::Measured)
    }
}

/// A rate with four digits: more are nobody's, and less would move a step of 2 %.
pub(crate) fn rounded(rate_per_s: f64) -> f64 {
    format!("{rate_per_s:.3e}").parse().unwrap_or(rate_per_s)
}

/// What is known of a run that is under way, `window` into its measured part.
fn so_far(window: Span) -> RunFacts {
    RunFacts {
        started_at: SystemTime::UNIX_EPOCH,
        elapsed: window,
        window,
        interrupted: false,
        wait_strategy: "auto",
        receive_clock: "user",
        cpu_user: Span::ZERO,
        cpu_system: Span::ZERO,
        busy_ratio: None,
        max_rss_bytes: None,
        connections: ConnectionFacts::default(),
        addresses: Vec::new(),
        workers: 1,
        notes: Vec::new(),
        host: HostFacts::default(),
    }
}

/// An empty plan for a search by `command`, to be filled in.
pub(crate) fn plan_of(command: &str, times: Times) -> ProfilePlan {
    ProfilePlan {
        command: command.to_owned(),
        operations: Vec::new(),
        clients_max: None,
        trial_least_ns: times.least.as_ns(),
        trial_most_ns: times.most.as_ns(),
        rate_precision_ratio: RATE_PRECISION_RATIO,
        peak_given_per_s: None,
        fractions_ratio: Vec::new(),
        step_least_ns: None,
        step_most_ns: None,
        p99_precision_ratio: None,
        arrivals: None,
        objectives: Vec::new(),
        warmup_ns: 0,
        timeout_ns: None,
        seed: 0,
    }
}

/// Reads `args` as every trial will, only to learn what is wrong with them; each fault is added to `faults`
/// once.
pub(crate) fn check(
    args: &RunArgs,
    machine: &Machine,
    environment: &Environment,
    faults: &mut Vec<String>,
) -> Option<Plan> {
    match lower(args, machine, environment) {
        Ok(lowered) => Some(lowered.plan),
        Err(more) => {
            for fault in more.0.into_iter().map(|fault| fault.to_string()) {
                if !faults.contains(&fault) {
                    faults.push(fault);
                }
            }
            None
        }
    }
}
