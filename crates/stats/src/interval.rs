//! Intervals: how far a measured number can be from what it stands for.

/// The confidence level of every interval, 0..=1.
pub const LEVEL_RATIO: f64 = 0.95;

/// A confidence interval at [`LEVEL_RATIO`], in the unit of the number it belongs to; low ≤ high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The low end.
    pub low: f64,
    /// The high end.
    pub high: f64,
}
