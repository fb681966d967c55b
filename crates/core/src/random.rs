//! Named, seeded, counter-based random numbers.
//!
//! A [`Stream`] is a pure function from an index to 64 random bits: the same (seed, name, index)
//! gives the same bits on every machine, whoever asks and in whatever order. So a value does not
//! depend on which worker draws it.
//!
//! The bits are SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
//! OOPSLA 2014): a Weyl sequence put through a mixing function, which makes random access by
//! index free. Written out here, since the generator crates promise neither random access nor
//! that a number never changes between their versions.

/// The odd constant of the Weyl sequence: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of SplitMix64 ("variant 13" of David Stafford's mixers).
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A random function from index to bits, named so that no two uses share their numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// The stream called `name` of the run seeded with `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a spreads the name over 64 bits; the mixer then parts streams whose keys lie close.
        let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        Self { key: mix(mix(seed.wrapping_add(GOLDEN)) ^ hash) }
    }

    /// A stream of its own below this one, say one a client.
    #[inline]
    pub fn child(&self, index: u64) -> Self {
        Self { key: mix(self.bits(index) ^ GOLDEN) }
    }

    /// 64 random bits for `index`.
    #[inline]
    pub const fn bits(&self, index: u64) -> u64 {
        mix(self.key.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN)))
    }

    /// A number in the open interval (0, 1) for `index`, on a grid of 2^-53 with an offset of
    /// half a step, so that its logarithm is always finite.
    #[inline]
    pub fn unit(&self, index: u64) -> f64 {
        ((self.bits(index) >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
    }

    /// A whole number in `0..bound` for `index` (Lemire's multiply-shift; its bias is below
    /// `bound` / 2^64).
    ///
    /// # Panics
    /// When `bound` is zero.
    #[inline]
    pub fn below(&self, index: u64, bound: u64) -> u64 {
        assert!(bound > 0, "no whole number lies below zero");
        ((u128::from(self.bits(index)) * u128::from(bound)) >> 64) as u64
    }
}

/// A stream read one after the other.
#[derive(Clone, Debug)]
pub struct Sequence {
    stream: Stream,
    next: u64,
}

impl Sequence {
    /// Reads `stream` from its first number on.
    pub const fn new(stream: Stream) -> Self {
        Self { stream, next: 0 }
    }

    /// The next number in (0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        let value = self.stream.unit(self.next);
        self.next += 1;
        value
    }

    /// The next exponential variate with mean 1, by inversion: −ln U.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// The next standard normal variate (Marsaglia's polar method; the second of the pair is not
    /// kept, so that a stream's state stays one counter).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let s = x * x + y * y;
            if s < 1.0 && s > 0.0 {
                return x * libm::sqrt(-2.0 * libm::log(s) / s);
            }
        }
    }

    /// The next gamma variate with the given `shape` > 0 and scale 1 (Marsaglia and Tsang, A
    /// simple method for generating gamma variables, ACM TOMS 26, 2000; shapes below 1 by their
    /// remark: a variate of shape + 1 times U^(1/shape)).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        assert!(shape > 0.0, "a gamma law needs a shape above zero, not {shape}");
        if shape < 1.0 {
            let boost = libm::pow(self.unit(), 1.0 / shape);
            return boost * self.gamma(shape + 1.0);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            if libm::log(self.unit()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_splitmix64() {
        // First outputs of the reference splitmix64.c (Vigna) for the seed 1234567.
        let stream = Stream { key: 1_234_567 };
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([0, 1, 2].map(|i| stream.bits(i)), expected);
    }

    #[test]
    fn streams_of_other_names_and_seeds_share_nothing() {
        let first = |seed, name| Stream::new(seed, name).bits(0);
        let mut seen = vec![first(1, "gaps"), first(2, "gaps"), first(1, "id"), first(1, "di")];
        seen.push(Stream::new(1, "gaps").child(0).bits(0));
        seen.push(Stream::new(1, "gaps").child(1).bits(0));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 6);
    }

    /// Mean and variance over a million draws lie within five standard errors of the law's.
    fn check(mut draw: impl FnMut() -> f64, mean: f64, variance: f64, kurtosis: f64) {
        let n = 1_000_000;
        let values: Vec<f64> = (0..n).map(|_| draw()).collect();
        let m = values.iter().sum::<f64>() / n as f64;
        let v = values.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n as f64;
        let root = (n as f64).sqrt();
        assert!((m - mean).abs() < 5.0 * variance.sqrt() / root, "mean {m}, law {mean}");
        let variance_error = variance * (kurtosis - 1.0).sqrt() / root;
        assert!((v - variance).abs() < 5.0 * variance_error, "variance {v}, law {variance}");
    }

    #[test]
    fn laws_have_their_mean_and_variance() {
        let mut s = Sequence::new(Stream::new(7, "test"));
        check(|| s.unit(), 0.5, 1.0 / 12.0, 1.8);
        check(|| s.exponential(), 1.0, 1.0, 9.0);
        check(|| s.normal(), 0.0, 1.0, 3.0);
        for shape in [0.111, 0.5, 1.0, 4.0] {
            check(|| s.gamma(shape), shape, shape, 3.0 + 6.0 / shape);
        }
    }

    #[test]
    fn a_number_below_a_bound_takes_every_value() {
        let stream = Stream::new(3, "below");
        let mut seen = [0u32; 7];
        (0..7000).for_each(|i| seen[stream.below(i, 7) as usize] += 1);
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }
}
