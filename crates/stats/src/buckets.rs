//! Log-linear counts: the bucket layout of HdrHistogram, kept in pages that exist only where
//! something was counted.
//!
//! A run holds dozens of histograms, most of them narrow. The reference layout, one dense array from
//! 1 ns to 1 h, takes 270 KB for each and reads all of it on every merge. Here each octave is a page
//! of its own: a distribution over four octaves takes four pages, merging and clearing touch those
//! four, and every `u64` has a bucket, so that no value is clamped or refused.

/// Octaves enough for every `u64` with the smallest page in use, of 2^7 counts.
const OCTAVES: usize = 64 - 7 + 1;

/// A count in a bucket.
pub(crate) trait Cell: Copy + Default + PartialEq + Into<u64> {
    /// `self + n`, at most the type's greatest value.
    fn plus(self, n: u64) -> Self;
}

impl Cell for u64 {
    #[inline]
    fn plus(self, n: u64) -> Self {
        self.saturating_add(n)
    }
}

impl Cell for u32 {
    #[inline]
    fn plus(self, n: u64) -> Self {
        self.saturating_add(u32::try_from(n).unwrap_or(u32::MAX))
    }
}

/// Counts of `u64` values in buckets at most 1/N of their value wide; `N` is a power of two, at
/// least 128.
///
/// Page 0 holds 0..N, page 1 holds N..2N, both in steps of one; page p ≥ 1 holds the octave
/// N·2^(p−1) .. N·2^p in steps of 2^(p−1).
#[derive(Clone, Debug)]
pub(crate) struct Buckets<C, const N: usize> {
    pages: [Option<Box<[C; N]>>; OCTAVES],
}

impl<C: Cell, const N: usize> Buckets<C, N> {
    /// log2(N)
    const BITS: u32 = {
        assert!(N.is_power_of_two() && N >= 128);
        N.trailing_zeros()
    };

    pub(crate) fn new() -> Self {
        Self { pages: [const { None }; OCTAVES] }
    }

    #[inline]
    pub(crate) fn record_n(&mut self, value: u64, n: u64) {
        let octave = (u64::BITS - value.leading_zeros()).saturating_sub(Self::BITS);
        let step_bits = octave.saturating_sub(1);
        let slot = (value >> step_bits) as usize & (N - 1);
        let page = self.pages[octave as usize].get_or_insert_with(|| Box::new([C::default(); N]));
        page[slot] = page[slot].plus(n);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.pages.iter_mut().zip(&other.pages) {
            let Some(theirs) = theirs else { continue };
            if theirs.iter().all(|cell| *cell == C::default()) {
                continue;
            }
            let mine = mine.get_or_insert_with(|| Box::new([C::default(); N]));
            for (cell, more) in mine.iter_mut().zip(theirs.iter()) {
                *cell = cell.plus((*more).into());
            }
        }
    }

    /// Sets every count to zero and keeps the pages.
    pub(crate) fn clear(&mut self) {
        for page in self.pages.iter_mut().flatten() {
            page.fill(C::default());
        }
    }

    /// Least value, greatest value and count of every bucket that holds something, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.pages.iter().enumerate().filter_map(|(octave, page)| Some((octave, page.as_ref()?))).flat_map(
            |(octave, page)| {
                let step_bits = octave.saturating_sub(1) as u32;
                let base = if octave == 0 { 0 } else { N as u64 };
                page.iter().enumerate().filter(|(_, cell)| **cell != C::default()).map(move |(slot, cell)| {
                    let low = (base + slot as u64) << step_bits;
                    (low, low + ((1u64 << step_bits) - 1), (*cell).into())
                })
            },
        )
    }

    /// The greatest value of the bucket that holds the value of this rank; ranks count from 1.
    pub(crate) fn value_at_rank(&self, rank: u64) -> Option<u64> {
        let mut seen = 0u64;
        self.iter().find_map(|(_, high, count)| {
            seen = seen.saturating_add(count);
            (seen >= rank).then_some(high)
        })
    }
}

/// The nearest rank of quantile `q` among `n` > 0 values: max(1, ceil(q·n)), at most n (Hyndman and
/// Fan 1996, type 1).
///
/// `q` such as 0.07 is not a binary fraction, so q·n can land a rounding error above a whole number;
/// within 1e-15 of one (relative; the error is at most 2.3e-16) it is taken for it.
pub(crate) fn nearest_rank(q: f64, n: u64) -> u64 {
    debug_assert!((0.0..=1.0).contains(&q) && n > 0);
    if q >= 1.0 {
        return n;
    }
    let position = q * n as f64;
    let whole = position.round();
    let rank = if (position - whole).abs() <= 1e-15 * position { whole } else { position.ceil() };
    (rank as u64).clamp(1, n)
}
