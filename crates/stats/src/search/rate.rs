//! The highest rate of an open loop at which an objective is met: as a lower and an upper bound, never a
//! point (RFC 9971, Multiple Loss Ratio Search, states results of such searches so).

use plimsoll_core::Span;

/// The bounds are close enough when the upper one is at most this many times the lower one.
const CLOSE_RATIO: f64 = 1.02;
/// While a side has no bound the rate is doubled or halved.
const STRIDE: f64 = 2.0;
/// Below this share of the first rate tried no lower bound is looked for any more.
const FLOOR_RATIO: f64 = 0.01;
/// No search takes more trials: some forty halvings of any bracket there is, and a guard against noise.
const TRIALS_MAX: usize = 40;

/// A search over the rate, geometric while a side has no bound, then by bisection. Everything recorded is
/// kept, and the bounds follow from all of it:
///
/// - high is the lowest rate that missed the objective;
/// - low is the highest below it that met it.
///
/// A trial that cannot decide is run again, twice as long, up to the longest time of a trial. If it still
/// cannot, the search goes on below and above it, so that each bound is as near as it can be.
#[derive(Clone, Debug)]
pub struct RateSearch {
    first_per_s: f64,
    /// A rate known to be more than the server sustains, without a trial.
    ceiling_per_s: Option<f64>,
    least: Span,
    most: Span,
    trials: Vec<RateTrial>,
    /// How many of them were steps of this search.
    steps: usize,
}

/// What to try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateStep {
    /// The rate.
    pub rate_per_s: f64,
    /// How long.
    pub length: Span,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateTrial {
    /// The rate that was asked for.
    pub rate_per_s: f64,
    /// How long it was asked for.
    pub length: Span,
    /// Whether the objective was met.
    pub verdict: Verdict,
}

/// Whether the objective was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was.
    Met,
    /// It was not, or fewer than 99 % of the requests succeeded.
    Missed,
    /// The trial does not say; a longer one may.
    Undecided,
    /// The generator could not make this load; neither a longer trial nor a higher rate will help.
    Invalid,
}

/// The answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateBounds {
    /// The highest rate at which the objective was met; `None` where it was at none.
    pub low_per_s: Option<f64>,
    /// The lowest at which it was missed; `None` where it was at none.
    pub high_per_s: Option<f64>,
    /// The least and the greatest rate between them that could not be decided.
    pub undecided_per_s: Option<(f64, f64)>,
    /// The lowest rate from which on the generator was the limit.
    pub generator_per_s: Option<f64>,
    /// The search ended by itself.
    pub complete: bool,
}

impl RateSearch {
    /// A search that begins at `first_per_s` with trials of at least `least` and at most `most`. Rates from
    /// `ceiling_per_s` on need no trial: the server does not sustain them.
    pub fn new(first_per_s: f64, ceiling_per_s: Option<f64>, least: Span, most: Span) -> Self {
        Self { first_per_s, ceiling_per_s, least, most, trials: Vec::new(), steps: 0 }
    }

    /// Takes a trial that was made for another purpose.
    pub fn know(&mut self, trial: RateTrial) {
        // Nothing of it is undecided for want of time: it was not asked for by this search.
        self.trials.push(trial);
    }

    /// Takes what came of the step last asked for.
    pub fn record(&mut self, trial: RateTrial) {
        self.steps += 1;
        self.trials.push(trial);
    }

    /// What to try; `None` when the bounds are as close as they get.
    pub fn next(&self) -> Option<RateStep> {
        if self.steps >= TRIALS_MAX {
            return None;
        }
        let bounds = self.bounds();
        if let Some(last) = self.trials.last().filter(|_| self.steps > 0)
            && last.verdict == Verdict::Undecided
            && last.length < self.most
            && !self.is_decided(last.rate_per_s)
        {
            let length = last.length.saturating_add(last.length).min(self.most);
            return Some(RateStep { rate_per_s: last.rate_per_s, length });
        }
        let rate_per_s = self.untried(&bounds)?;
        // Near what a long trial could not decide a short one cannot either.
        let length = if bounds.undecided_per_s.is_some() { self.most } else { self.least };
        Some(RateStep { rate_per_s, length })
    }

    /// How many further steps of the longest time there may be, this one included; `None` while a side has no
    /// bound.
    pub fn steps_left(&self) -> Option<u32> {
        let bounds = self.bounds();
        let top = [bounds.high_per_s, bounds.generator_per_s, self.ceiling_per_s];
        let (low, top) = (bounds.low_per_s?, top.into_iter().flatten().reduce(f64::min)?);
        let halvings = libm::log2(((top - low) / ((CLOSE_RATIO - 1.0) * low)).max(1.0));
        // Every rate may be undecided at first, and at two shorter times.
        Some((libm::ceil(halvings) as u32).clamp(1, (TRIALS_MAX - self.steps.min(TRIALS_MAX)) as u32))
    }

    /// The bounds so far.
    pub fn answer(&self) -> RateBounds {
        RateBounds { complete: self.next().is_none() && self.steps < TRIALS_MAX, ..self.bounds() }
    }

    fn bounds(&self) -> RateBounds {
        let of =
            |verdict: Verdict| self.trials.iter().filter(move |t| t.verdict == verdict).map(|t| t.rate_per_s);
        let high_per_s = of(Verdict::Missed).reduce(f64::min);
        let below = high_per_s.unwrap_or(f64::INFINITY);
        let low_per_s = of(Verdict::Met).filter(|rate| *rate < below).reduce(f64::max);
        let above = low_per_s.unwrap_or(0.0);
        let between = |rate: &f64| *rate > above && *rate < below;
        let undecided = || of(Verdict::Undecided).filter(between).filter(|rate| !self.is_decided(*rate));
        RateBounds {
            low_per_s,
            high_per_s,
            undecided_per_s: undecided().reduce(f64::min).zip(undecided().reduce(f64::max)),
            generator_per_s: of(Verdict::Invalid).filter(between).reduce(f64::min),
            complete: false,
        }
    }

    /// A later trial at the very same rate did decide.
    fn is_decided(&self, rate_per_s: f64) -> bool {
        self.trials
            .iter()
            .any(|t| t.rate_per_s == rate_per_s && matches!(t.verdict, Verdict::Met | Verdict::Missed))
    }

    /// The next rate to try: above what could not be decided first, since a rate that is met there decides all
    /// below it.
    fn untried(&self, bounds: &RateBounds) -> Option<f64> {
        let top = [bounds.high_per_s, bounds.generator_per_s, self.ceiling_per_s];
        let top = top.into_iter().flatten().reduce(f64::min);
        let Some((least, greatest)) = bounds.undecided_per_s else {
            return match (bounds.low_per_s, top) {
                (Some(low), Some(top)) => between(low, top),
                (Some(low), None) => Some(low * STRIDE),
                (None, Some(top)) if !self.trials.is_empty() => {
                    Some(top / STRIDE).filter(|rate| *rate >= self.first_per_s * FLOOR_RATIO)
                }
                (None, top) => Some(top.map_or(self.first_per_s, |top| self.first_per_s.min(top / STRIDE))),
            };
        };
        let above = match top {
            Some(top) => between(greatest, top),
            None => Some(greatest * STRIDE),
        };
        // Below the least undecided rate trials have fewer requests to decide with, so without a bound there
        // is nothing to be halved towards.
        above.or_else(|| between(bounds.low_per_s?, least))
    }
}

/// The middle of `low` and `high`; `None` where they are close enough.
fn between(low: f64, high: f64) -> Option<f64> {
    (high > low * CLOSE_RATIO).then_some((low + high) / 2.0)
}
