//! Zipf's law over a range of any length, without a table.

use crate::random::Sequence;

/// Ranks 0, 1 … n − 1 with P(k) ∝ 1/(k + 1)^s, drawn by rejection-inversion.
///
/// Hörmann and Derflinger: Rejection-inversion to generate variates from monotone discrete distributions,
/// ACM TOMACS 6, 1996. With h(x) = x^−s and its integral H, an even variate u between H(3/2) − h(1) and
/// H(n + 1/2) gives x = H⁻¹(u), and the whole number nearest to x is taken or refused. Ranks are counted
/// from 1 inside, as in the paper. About one draw in ten is refused at worst.
#[derive(Clone, Debug, PartialEq)]
pub struct Zipf {
    ranks: u64,
    exponent: f64,
    /// H(3/2) − h(1): where the area of rank 1 begins.
    low: f64,
    /// H(n + 1/2).
    high: f64,
    /// A number so near below its rank is taken without another look.
    near: f64,
}

/// As for the other laws that refuse draws: never reached.
const MOST_TRIES: u32 = 100;

impl Zipf {
    /// The law over `ranks` ranks, at least 1, with `exponent` s above 0.
    pub fn new(ranks: u64, exponent: f64) -> Self {
        assert!(ranks > 0 && exponent > 0.0, "Zipf's law needs ranks and an exponent above zero");
        let mut law = Self { ranks, exponent, low: 0.0, high: 0.0, near: 0.0 };
        law.low = law.area(1.5) - 1.0;
        law.high = law.area(ranks as f64 + 0.5);
        law.near = 2.0 - law.at_area(law.area(2.5) - law.height(2.0));
        law
    }

    /// A rank from 0.
    pub(super) fn draw(&self, numbers: &mut Sequence) -> u64 {
        for _ in 0..MOST_TRIES {
            let u = self.high + numbers.unit() * (self.low - self.high);
            let x = self.at_area(u);
            // The cast rounds down and saturates.
            let rank = ((x + 0.5) as u64).clamp(1, self.ranks);
            let k = rank as f64;
            if k - x <= self.near || u >= self.area(k + 0.5) - self.height(k) {
                return rank - 1;
            }
        }
        0
    }

    /// h(x) = x^−s.
    fn height(&self, x: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(x))
    }

    /// H(x) = (x^(1−s) − 1) / (1 − s), and ln x where s is 1; one formula that is exact near 1 as well.
    fn area(&self, x: f64) -> f64 {
        let log = libm::log(x);
        log * ratio(libm::expm1, (1.0 - self.exponent) * log)
    }

    /// The inverse of [`Zipf::area`].
    fn at_area(&self, area: f64) -> f64 {
        // Rounding may step over the pole, where H⁻¹ is infinite.
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        libm::exp(area * ratio(libm::log1p, t))
    }
}

/// f(x) / x, and 1 at 0, for expm1 and log1p.
fn ratio(f: fn(f64) -> f64, x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { f(x) / x }
}
