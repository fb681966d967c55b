//! The highest rate a server sustains: a closed loop with ever more clients, until more bring nothing.

use super::{Figure, Standing};

/// A doubling gains when the middle of the ratio to the best rate so far is at least this …
const GAIN_MIN_RATIO: f64 = 1.02;
/// … and its interval lies above this.
const NO_GAIN_RATIO: f64 = 1.0;
/// So many doublings in a row without a gain end the sweep.
const WITHOUT_GAIN_MAX: u32 = 2;

/// The sweep: clients doubling from one, each held against the best so far; then the best once more.
///
/// - A trial that the generator limited drives the sweep on while rates rise, but is never the peak: where it
///   is the best in the end, or one of those that brought no more, the answer is a lower bound.
/// - One that fails otherwise counts as a doubling without gain.
/// - Without an interval on both sides a gain is decided on the middle of the ratio alone.
///
/// The best trial is run again and the peak is that second figure, since the greatest of several measured
/// numbers is, on average, greater than what it stands for.
#[derive(Clone, Debug)]
pub struct PeakSearch {
    /// At least 1.
    clients_max: u32,
    phase: Phase,
    /// The last trial that gained.
    best: Option<PeakTrial>,
    /// The best, measured again.
    again: Option<PeakTrial>,
    without_gain: u32,
    /// The generator limited one of them.
    generator_since: bool,
    stop: Option<Stop>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Sweep { clients: u32 },
    Again { clients: u32 },
    Done,
}

/// What to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeakStep {
    /// The number of clients.
    pub clients: u32,
    /// The best trial is run again.
    pub again: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakTrial {
    /// The number of clients.
    pub clients: u32,
    /// Whole answers a second.
    pub rate_per_s: Figure,
    /// Whether it can be used.
    pub standing: Standing,
}

/// Why the sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Two doublings brought no gain.
    Plateau,
    /// The server let no further connections stand.
    Connections {
        /// So many stood.
        established: u64,
    },
    /// The most clients were reached while rates might still rise.
    ClientsMax,
    /// One client got no answer.
    NothingAnswered,
    /// An interrupt came.
    Interrupted,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// The fewest clients of the sweep that reached it.
    pub clients: u32,
    /// Whole answers a second.
    pub rate_per_s: Figure,
    /// The generator was the limit: the server does at least this much.
    pub is_lower_bound: bool,
    /// It was measured a second time, and this is the second figure.
    pub confirmed: bool,
    /// Why the sweep ended.
    pub stop: Stop,
}

impl PeakSearch {
    /// A sweep up to `clients_max` clients.
    pub fn new(clients_max: u32) -> Self {
        Self {
            clients_max: clients_max.max(1),
            phase: Phase::Sweep { clients: 1 },
            best: None,
            again: None,
            without_gain: 0,
            generator_since: false,
            stop: None,
        }
    }

    /// Takes what came of the step last asked for.
    pub fn record(&mut self, trial: PeakTrial) {
        match self.phase {
            Phase::Sweep { .. } => self.sweep(trial),
            Phase::Again { .. } => {
                let measured = matches!(trial.standing, Standing::Usable | Standing::Generator);
                self.again = Some(trial).filter(|_| measured);
                self.phase = Phase::Done;
            }
            Phase::Done => {}
        }
    }

    /// What to try; `None` when there is nothing more to learn.
    pub fn next(&self) -> Option<PeakStep> {
        match self.phase {
            Phase::Sweep { clients } => Some(PeakStep { clients, again: false }),
            Phase::Again { clients } => Some(PeakStep { clients, again: true }),
            Phase::Done => None,
        }
    }

    /// How many trials follow the one that [`PeakSearch::next`] asks for, at the least.
    pub fn at_least_left(&self) -> u32 {
        match self.phase {
            Phase::Sweep { .. } => WITHOUT_GAIN_MAX - self.without_gain.min(WITHOUT_GAIN_MAX),
            Phase::Again { .. } | Phase::Done => 0,
        }
    }

    /// The peak as far as it is known; `None` where nothing could be measured.
    pub fn answer(&self) -> Option<Peak> {
        let best = self.best?;
        let shown = self.again.unwrap_or(best);
        Some(Peak {
            clients: best.clients,
            rate_per_s: shown.rate_per_s,
            is_lower_bound: shown.standing == Standing::Generator || self.generator_since,
            confirmed: self.again.is_some(),
            stop: self.stop.unwrap_or(Stop::Interrupted),
        })
    }

    /// Why the sweep ended; `None` while it goes on.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    fn sweep(&mut self, trial: PeakTrial) {
        match trial.standing {
            Standing::Interrupted => {
                self.stop = Some(Stop::Interrupted);
                self.phase = Phase::Done;
                return;
            }
            Standing::Connections { established, .. } => return self.end(Stop::Connections { established }),
            Standing::NothingAnswered if self.best.is_none() => return self.end(Stop::NothingAnswered),
            Standing::NothingAnswered | Standing::Failures { .. } => self.without_gain += 1,
            Standing::Usable | Standing::Generator => self.compare(trial),
        }
        if self.without_gain >= WITHOUT_GAIN_MAX {
            self.end(Stop::Plateau);
        } else if trial.clients >= self.clients_max {
            self.end(Stop::ClientsMax);
        } else {
            let clients = trial.clients.saturating_mul(2).min(self.clients_max);
            self.phase = Phase::Sweep { clients };
        }
    }

    /// Holds a measured `trial` against the best so far.
    fn compare(&mut self, trial: PeakTrial) {
        let Some(best) = self.best else {
            self.best = Some(trial);
            return;
        };
        let ratio = trial.rate_per_s.ratio_to(&best.rate_per_s);
        let above = ratio.interval.is_none_or(|interval| interval.low > NO_GAIN_RATIO);
        if above && ratio.value >= GAIN_MIN_RATIO {
            (self.best, self.without_gain, self.generator_since) = (Some(trial), 0, false);
            return;
        }
        self.without_gain += 1;
        // A generator without room brings no more either, so this doubling says nothing of the server.
        self.generator_since |= trial.standing == Standing::Generator;
        // The same rate, and this time the generator had room: it is the server's.
        let limited = best.standing == Standing::Generator && trial.standing == Standing::Usable;
        if limited && ratio.value * GAIN_MIN_RATIO >= 1.0 {
            self.best = Some(trial);
        }
    }

    fn end(&mut self, stop: Stop) {
        self.stop = Some(stop);
        self.phase = self.best.map_or(Phase::Done, |best| Phase::Again { clients: best.clients });
    }
}
