//! The laws of values, and how a value is drawn from each.
//!
//! Whole numbers come from half-open ranges, so that a range that names the ids of a table holds them
//! all and no other. `uniform` is drawn by its caller, which is on the path of every request.

use std::sync::Arc;

use super::{Key, Value, Zipf};
use crate::random::{Sequence, Stream};

/// The law of a variable's values.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueLaw {
    /// A whole number drawn evenly from `start..end`.
    Uniform {
        /// The least value.
        start: i64,
        /// One above the greatest value.
        end: i64,
    },
    /// A few values often and most of them seldom: P(start + k) ∝ 1/(k + 1)^s.
    Zipf {
        /// The least value, which comes most often.
        start: i64,
        /// How the ranks are drawn.
        ranks: Zipf,
    },
    /// The normal law around the middle of `start..end`, drawn again outside of it, rounded down.
    Normal {
        /// The least value.
        start: i64,
        /// One above the greatest value.
        end: i64,
        /// The standard deviation of the law before it is cut to the range, above 0.
        sd: f64,
    },
    /// The exponential law of the distance from `start`, drawn again at `end` and beyond, rounded down.
    Exponential {
        /// The least value, which comes most often.
        start: i64,
        /// One above the greatest value.
        end: i64,
        /// The mean distance before the law is cut to the range, above 0.
        mean: f64,
    },
    /// `start`, `start` + 1 … in the order of the requests, and `start` again where `end` is reached; in a
    /// closed loop each client counts for itself.
    Sequence {
        /// The first value.
        start: i64,
        /// One above the last value.
        end: i64,
    },
    /// The cells of a column in the order of the requests, beginning again after the last; in a closed
    /// loop each client begins at a row of its own.
    Column(Column),
}

impl ValueLaw {
    /// 0, 1, 2 …
    pub const SEQUENCE: Self = Self::Sequence { start: 0, end: i64::MAX };

    /// A value of the law for the request `key` stands for.
    pub(super) fn draw(&self, stream: &Stream, key: Key) -> Value<'_> {
        let (start, offset) = match self {
            Self::Uniform { start, end } => {
                return Value::Whole(super::uniform(&of_request(stream, key), 0, *start, *end));
            }
            Self::Column(column) => return Value::Text(column.cell(stream, key)),
            Self::Sequence { start, end } => (*start, key.index() % end.abs_diff(*start)),
            Self::Zipf { start, ranks } => (*start, ranks.draw(&mut Sequence::new(of_request(stream, key)))),
            Self::Normal { start, end, sd } => {
                (*start, normal(end.abs_diff(*start), *sd, &mut Sequence::new(of_request(stream, key))))
            }
            Self::Exponential { start, end, mean } => {
                (*start, exponential(end.abs_diff(*start), *mean, of_request(stream, key).unit(0)))
            }
        };
        Value::Whole(start.wrapping_add_unsigned(offset))
    }
}

/// The numbers of one request.
fn of_request(stream: &Stream, key: Key) -> Stream {
    match key {
        Key::Seq(seq) => stream.child(seq),
        Key::Step { client, step } => stream.child(u64::from(client)).child(step),
    }
}

/// A draw that is refused so often is given up. Each is taken with a probability above 0.6, so that this
/// happens once in 10^39 draws.
const MOST_TRIES: u32 = 100;

/// A number in `0..width` of the normal law around `width` / 2, cut to the range.
///
/// Rounding down leaves it symmetric: x and `width` − x fall into cells that mirror each other.
fn normal(width: u64, sd: f64, numbers: &mut Sequence) -> u64 {
    let wide = width as f64;
    let half = wide / 2.0;
    for _ in 0..MOST_TRIES {
        let x = if sd < half {
            half + sd * numbers.normal()
        } else {
            // So flat over the range that most normal variates would fall outside: an even one is taken
            // with the density's height there over its height in the middle.
            let x = wide * numbers.unit();
            let z = (x - half) / sd;
            if numbers.unit() > libm::exp(-0.5 * z * z) { f64::NAN } else { x }
        };
        if 0.0 <= x && x < wide {
            return below(x, width);
        }
    }
    width / 2
}

/// A number in `0..width` of the exponential law with `mean`, cut to the range, from `u` in (0, 1).
///
/// The inverse of the cut law's distribution function (1 − e^(−x/mean)) / (1 − e^(−width/mean)).
fn exponential(width: u64, mean: f64, u: f64) -> u64 {
    below(-mean * libm::log1p(u * libm::expm1(-(width as f64) / mean)), width)
}

/// `x` rounded down, below `width` whatever the rounding of floating point did.
fn below(x: f64, width: u64) -> u64 {
    // The cast saturates.
    (x as u64).min(width - 1)
}

/// A column of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    file: String,
    cells: Arc<[Box<str>]>,
    /// From the row one client begins at to that of the next; shares no factor with the number of rows.
    stride: u64,
}

impl Column {
    /// The `cells` of a column of `file`, one a row. Columns of one file must have all its rows.
    ///
    /// # Panics
    /// When there are none.
    pub fn new(file: &str, cells: Arc<[Box<str>]>) -> Self {
        assert!(!cells.is_empty(), "a column without rows has no values");
        let rows = cells.len() as u64;
        // The golden ratio keeps the first rows of any number of clients far apart (Steinhaus' three
        // distances); without a common factor no two of them begin at the same row while there are rows
        // left.
        let golden = (rows as f64 * 0.618_033_988_749_894_9) as u64;
        let stride = (golden.max(1)..).find(|stride| common_factor(*stride, rows) == 1).unwrap_or(1);
        Self { file: file.to_owned(), cells, stride }
    }

    /// The file it is from.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Its cells, one a row.
    pub fn cells(&self) -> &[Box<str>] {
        &self.cells
    }

    fn cell(&self, stream: &Stream, key: Key) -> &str {
        let rows = self.cells.len() as u64;
        let first = match key {
            Key::Seq(_) => 0,
            // Below 2^64: the stride is below rows + 1, and clients are u32.
            Key::Step { client, .. } => stream.below(0, rows) + u64::from(client) % rows * self.stride % rows,
        };
        &self.cells[((first + key.index() % rows) % rows) as usize]
    }
}

/// The greatest common divisor, by Euclid.
fn common_factor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
