//! Rate profiles: how the rate of an open loop changes over the run, and the map from the area
//! under it back to time.
//!
//! Λ(t) is the area under the rate from the schedule's start to t: the mean number of requests due
//! by t. An arrival at position y of a unit-rate stream is due at Λ⁻¹(y) (time rescaling). Areas are
//! kept as exact fractions, so that 30/s for 3 s holds 90 requests and never 89 or 91.

use std::fmt;
use std::str::FromStr;

use crate::rate::{ParseRateError, RATE_FORMS, Rate, gcd};
use crate::time::{ParseSpanError, Span};

/// The length that stands for "until a request count is reached": a hundred years.
pub const ENDLESS: Span = Span::from_secs(100 * 365 * 86_400);

/// A piece of a profile: the rate goes straight from `from` to `to` in `length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The rate at the stage's start.
    pub from: Rate,
    /// The rate at its end; equal to `from` in a constant stage.
    pub to: Rate,
    /// How long it lasts, above zero.
    pub length: Span,
}

/// A rate over time, made of stages that follow each other without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateProfile {
    stages: Vec<Stage>,
    segments: Vec<Segment>,
    /// Area units in one request: 2·D, D being the common denominator of all rates.
    per_request: u128,
    length: Span,
    area: u128,
}

/// A stage placed in time, its rates and areas over the common denominator.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    start_ns: u64,
    length_ns: u64,
    /// Rates in units of 1/D a nanosecond.
    from: u128,
    to: u128,
    /// Area before the segment and inside it, in units of 1/(2·D) request.
    area_before: u128,
    area: u128,
}

/// A profile that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileError {
    /// No stage was given.
    Empty,
    /// A stage of no length.
    ZeroLength,
    /// Every rate is zero.
    NoRequests,
    /// Rates with so many digits that their areas leave 128 bits.
    TooFine,
    /// A stage that is not `RATE:DURATION` or `RATE..RATE:DURATION`.
    Form(String),
    /// A rate inside a stage.
    Rate(ParseRateError),
    /// A duration inside a stage.
    Span(ParseSpanError),
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no stage given; give at least one, such as 100/s:30s"),
            Self::ZeroLength => f.write_str("a stage needs a length above zero, such as 100/s:30s"),
            Self::NoRequests => {
                f.write_str("the rate is zero throughout, so nothing would be sent; give a rate above 0")
            }
            Self::TooFine => f.write_str("the rates have too many digits to add up exactly; round them"),
            Self::Form(text) => {
                write!(
                    f,
                    "'{text}' is not a stage; give RATE:DURATION or RATE..RATE:DURATION, a rate being {RATE_FORMS}"
                )
            }
            Self::Rate(error) => error.fmt(f),
            Self::Span(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ProfileError {}

impl RateProfile {
    /// One `rate` for `length`; [`ENDLESS`] where a request count ends the run.
    ///
    /// # Errors
    /// When the rate or the length is zero.
    pub fn constant(rate: Rate, length: Span) -> Result<Self, ProfileError> {
        Self::new(vec![Stage { from: rate, to: rate, length }])
    }

    /// The profile of `stages` one after the other.
    ///
    /// # Errors
    /// When there is no stage, one has no length, or no request would ever be due.
    pub fn new(stages: Vec<Stage>) -> Result<Self, ProfileError> {
        if stages.is_empty() {
            return Err(ProfileError::Empty);
        }
        let mut denominator = 1u128;
        for rate in stages.iter().flat_map(|stage| [stage.from, stage.to]) {
            let per_ns = u128::from(rate.per_ns());
            denominator =
                (denominator / gcd(per_ns, denominator)).checked_mul(per_ns).ok_or(ProfileError::TooFine)?;
        }
        let scaled =
            |rate: Rate| u128::from(rate.requests()).checked_mul(denominator / u128::from(rate.per_ns()));
        let (mut start_ns, mut area_before) = (0u64, 0u128);
        let mut segments = Vec::with_capacity(stages.len());
        for stage in &stages {
            let length_ns = stage.length.as_ns();
            if length_ns == 0 {
                return Err(ProfileError::ZeroLength);
            }
            let segment = (|| {
                let (from, to) = (scaled(stage.from)?, scaled(stage.to)?);
                // The area of a trapezium is (from + to) / 2 · length; the factor 2 is in the unit.
                let area = from.checked_add(to)?.checked_mul(u128::from(length_ns))?;
                Some(Segment { start_ns, length_ns, from, to, area_before, area })
            })()
            .ok_or(ProfileError::TooFine)?;
            area_before = area_before.checked_add(segment.area).ok_or(ProfileError::TooFine)?;
            start_ns = start_ns.checked_add(length_ns).ok_or(ProfileError::TooFine)?;
            segments.push(segment);
        }
        if area_before == 0 {
            return Err(ProfileError::NoRequests);
        }
        let per_request = denominator.checked_mul(2).ok_or(ProfileError::TooFine)?;
        Ok(Self { stages, segments, per_request, length: Span::from_ns(start_ns), area: area_before })
    }

    /// The stages it was made of.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// How long the profile lasts.
    pub fn length(&self) -> Span {
        self.length
    }

    /// Λ(length): the mean number of requests.
    pub fn mean_count(&self) -> f64 {
        self.area as f64 / self.per_request as f64
    }

    /// The number of even arrivals: ceil(Λ(length)), since t = 0 is in and the end is out.
    pub fn even_count(&self) -> u64 {
        u64::try_from(self.area.div_ceil(self.per_request)).unwrap_or(u64::MAX)
    }

    /// Λ⁻¹(k): when even arrival `k` is due, rounded down to a nanosecond, or `None` past the end.
    /// `cursor` is the caller's place in the profile: 0 at first; `k` must not go back.
    pub(crate) fn due_of_index(&self, k: u64, cursor: &mut usize) -> Option<Span> {
        let position = u128::from(k).checked_mul(self.per_request)?;
        let segment = self.segment(cursor, |s| position < s.area_before + s.area)?;
        let inside = position - segment.area_before;
        let offset_ns = if segment.from == segment.to {
            (inside / (2 * segment.from)) as u64
        } else {
            segment.ramp_offset_ns(inside as f64 / 2.0)
        };
        Some(Span::from_ns(segment.start_ns + offset_ns))
    }

    /// Λ⁻¹(position), `position` in requests, rounded down to a nanosecond, or `None` past the end.
    /// `cursor` as in [`RateProfile::due_of_index`].
    pub(crate) fn due_of_position(&self, position: f64, cursor: &mut usize) -> Option<Span> {
        let position = position * self.per_request as f64;
        let segment = self.segment(cursor, |s| position < (s.area_before + s.area) as f64)?;
        let inside = (position - segment.area_before as f64).max(0.0);
        Some(Span::from_ns(segment.start_ns + segment.ramp_offset_ns(inside / 2.0)))
    }

    /// The first segment from `cursor` on for which `holds` is true.
    fn segment(&self, cursor: &mut usize, holds: impl Fn(&Segment) -> bool) -> Option<&Segment> {
        loop {
            let segment = self.segments.get(*cursor)?;
            if holds(segment) {
                return Some(segment);
            }
            *cursor += 1;
        }
    }
}

impl Segment {
    /// The time into the segment at which its area reaches `area` (in units of 1/D request).
    ///
    /// With rates a and b at the ends and length L, the area up to t is a·t + (b − a)·t²/(2L). Its
    /// root is written as 2·area / (a + √(a² + 2·area·(b − a)/L)), which loses no digits for b near
    /// a. Only +, −, ·, / and the square root are used, which IEEE 754 rounds alike everywhere.
    fn ramp_offset_ns(&self, area: f64) -> u64 {
        let (a, b, length) = (self.from as f64, self.to as f64, self.length_ns as f64);
        let root = libm::sqrt((a * a + 2.0 * area * (b - a) / length).max(0.0));
        let offset = 2.0 * area / (a + root);
        // A position at a segment's very start of rate zero is 0 / 0; it lies at the start.
        if offset.is_nan() { 0 } else { (offset as u64).min(self.length_ns - 1) }
    }
}

impl FromStr for RateProfile {
    type Err = ProfileError;

    /// Reads `100/s:30s,100/s..500/s:60s`: steps and ramps, parted by commas.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let stage = |text: &str| {
            let (rates, length) = text.rsplit_once(':').ok_or_else(|| ProfileError::Form(text.to_owned()))?;
            let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
            let rate = |text: &str| text.parse().map_err(ProfileError::Rate);
            Ok(Stage {
                from: rate(from)?,
                to: rate(to)?,
                length: length.parse().map_err(ProfileError::Span)?,
            })
        };
        Self::new(text.split(',').map(|part| stage(part.trim())).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for RateProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, stage) in self.stages.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match stage.from == stage.to {
                true => write!(f, "{comma}{}:{}", stage.from, stage.length)?,
                false => write!(f, "{comma}{}..{}:{}", stage.from, stage.to, stage.length)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn even(profile: &RateProfile) -> Vec<u64> {
        let mut cursor = 0;
        (0..).map_while(|k| profile.due_of_index(k, &mut cursor)).map(Span::as_ns).collect()
    }

    #[test]
    fn even_counts_follow_the_documented_rule() {
        // OVL-08, OVL-12: t = 0 in, the end out, whatever the rate's fraction.
        for (rate, seconds, count) in [
            ("30", 3, 90),
            ("0.1", 30, 3),
            ("0.1", 25, 3),
            ("340", 1, 340),
            ("7", 1, 7),
            ("1001", 1, 1001),
            ("1/3s", 10, 4),
        ] {
            let profile = RateProfile::constant(rate.parse().unwrap(), Span::from_secs(seconds)).unwrap();
            assert_eq!(profile.even_count(), count, "{rate} for {seconds} s");
            assert_eq!(even(&profile).len() as u64, count, "{rate} for {seconds} s");
        }
    }

    #[test]
    fn even_arrivals_of_a_constant_rate_lie_at_k_over_rate_to_the_nanosecond() {
        // OVL-06: rates whose gap is no whole number of milliseconds or nanoseconds.
        for per_second in [667, 1500, 2500, 3333, 7777] {
            let profile = RateProfile::constant(Rate::per_second(per_second), Span::from_secs(5)).unwrap();
            for (k, due) in even(&profile).into_iter().enumerate() {
                assert_eq!(due, k as u64 * 1_000_000_000 / per_second);
            }
        }
    }

    #[test]
    fn a_ramp_holds_the_area_under_it() {
        // 0 to 100/s in 10 s holds 500 requests; half of them lie in the last 10·(1 − √½) s.
        let profile: RateProfile = "0/s..100/s:10s".parse().unwrap();
        let dues = even(&profile);
        assert_eq!((profile.even_count(), dues.len()), (500, 500));
        let half = 10e9 * 0.5f64.sqrt();
        assert!((dues[250] as f64 - half).abs() <= 1.0, "{} against {half}", dues[250]);
    }

    #[test]
    fn nothing_is_due_while_the_rate_is_zero() {
        let profile: RateProfile = "10/s:1s,0/s:5s,10/s:1s".parse().unwrap();
        let dues = even(&profile);
        assert_eq!(dues.len(), 20);
        assert!(dues.iter().all(|ns| *ns < 1_000_000_000 || *ns >= 6_000_000_000), "{dues:?}");
    }

    #[test]
    fn faulty_profiles_are_refused() {
        for text in ["", "100/s", "100/s:0s", "0/s:5s", "x:5s", "100/s:y", "1..2..3:5s", "100/s:5s,,"] {
            assert!(text.parse::<RateProfile>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn arrivals_never_go_back_and_agree_with_the_count(
            stages in prop::collection::vec((0u64..5000, 0u64..5000, 1u64..4000), 1..5)
        ) {
            let stages = stages.into_iter().map(|(from, to, ms)| Stage {
                from: Rate::per_second(from),
                to: Rate::per_second(to),
                length: Span::from_ms(ms),
            });
            let Ok(profile) = RateProfile::new(stages.collect()) else { return Ok(()) };
            let dues = even(&profile);
            prop_assert_eq!(dues.len() as u64, profile.even_count());
            prop_assert!(dues.is_sorted());
            prop_assert!(dues.iter().all(|ns| *ns < profile.length().as_ns()));
        }

        #[test]
        fn position_and_index_lie_at_the_same_moment(from in 0u64..1000, to in 1u64..1000, k in 0u64..200) {
            let profile = RateProfile::new(vec![Stage {
                from: Rate::per_second(from), to: Rate::per_second(to), length: Span::from_secs(10),
            }]).unwrap();
            let by_index = profile.due_of_index(k, &mut 0);
            let by_position = profile.due_of_position(k as f64, &mut 0);
            if let (Some(a), Some(b)) = (by_index, by_position) {
                prop_assert!(a.as_ns().abs_diff(b.as_ns()) <= 1, "{:?} {:?}", a, b);
            }
        }
    }
}
