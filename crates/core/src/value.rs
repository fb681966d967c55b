//! Variables: the parts of a request that differ from one to the next.
//!
//! A value is a pure function of the variable and the request it stands in ([`Key`]), so that it is the
//! same whichever worker draws it.

mod grammar;
mod law;
mod zipf;

pub use grammar::{ParseValueError, VALUE_FORMS};
pub use law::{Column, ValueLaw};
pub use zipf::Zipf;

use crate::random::Stream;

/// What a variable's values depend on, so that they are the same whichever worker draws them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// An open loop's request: its place in the run's stream.
    Seq(u64),
    /// A closed loop's request: the client, and how many it had made before.
    Step {
        /// The client's number, from 0.
        client: u32,
        /// The client's request, from 0.
        step: u64,
    },
}

impl Key {
    /// The place of the request in the order its variables see: the run's, or the client's own.
    #[inline]
    pub(crate) const fn index(self) -> u64 {
        match self {
            Self::Seq(index) | Self::Step { step: index, .. } => index,
        }
    }
}

/// A value of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A whole number.
    Whole(i64),
    /// A text, as it stands in its file.
    Text(&'a str),
}

/// A named source of values.
#[derive(Clone, Debug)]
pub struct Variable {
    name: String,
    law: ValueLaw,
    stream: Stream,
}

impl Variable {
    /// The variable `name` of the run seeded with `seed`.
    pub fn new(name: &str, law: ValueLaw, seed: u64) -> Self {
        let stream = match &law {
            // Of the file, not of the variable: the columns of a file go together.
            ValueLaw::Column(column) => Stream::new(seed, &format!("file {}", column.file())),
            _ => Stream::new(seed, &format!("variable {name}")),
        };
        Self { name: name.to_owned(), law, stream }
    }

    /// Its name, as in `${name}`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The law of its values.
    pub fn law(&self) -> &ValueLaw {
        &self.law
    }

    /// Its value for the request `key` stands for.
    #[inline]
    pub fn value(&self, key: Key) -> Value<'_> {
        match (&self.law, key) {
            (ValueLaw::Uniform { start, end }, Key::Seq(seq)) => {
                Value::Whole(uniform(&self.stream, seq, *start, *end))
            }
            (ValueLaw::Uniform { start, end }, Key::Step { client, step }) => {
                Value::Whole(uniform(&self.stream.child(u64::from(client)), step, *start, *end))
            }
            _ => self.law.draw(&self.stream, key),
        }
    }
}

/// A whole number from `start..end`, which may be as wide as an `i64` allows.
#[inline]
fn uniform(stream: &Stream, index: u64, start: i64, end: i64) -> i64 {
    // Differences of two i64 fit a u64, and wrapping back gives the sum that was meant.
    start.wrapping_add_unsigned(stream.below(index, end.abs_diff(start)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The whole number of `law` for `key`.
    pub(super) fn whole(variable: &Variable, key: Key) -> i64 {
        match variable.value(key) {
            Value::Whole(number) => number,
            Value::Text(text) => panic!("'{text}' is no number"),
        }
    }

    fn variable(law: &str) -> Variable {
        Variable::new("id", law.parse().unwrap_or_else(|error| panic!("{law}: {error}")), 1)
    }

    /// How often each value of `low..low + cells` came in `draws` requests.
    fn counts(law: &str, low: i64, cells: usize, draws: u64) -> Vec<f64> {
        let variable = variable(law);
        let mut counts = vec![0.0; cells];
        (0..draws).for_each(|seq| counts[(whole(&variable, Key::Seq(seq)) - low) as usize] += 1.0);
        counts
    }

    /// Pearson's chi-square of `counts` against `weights` (any scale) stays below a bound that a right
    /// law passes with probability 1 − 10⁻⁶: d + 2√(dx) + 2x with d degrees of freedom and x = 14
    /// (Laurent and Massart, Annals of Statistics 28, 2000, lemma 1: with probability 1 − e^−x).
    fn assert_law(name: &str, counts: &[f64], weights: &[f64]) {
        let (draws, total): (f64, f64) = (counts.iter().sum(), weights.iter().sum());
        let expected = weights.iter().map(|weight| draws * weight / total);
        assert!(expected.clone().all(|e| e >= 5.0), "{name}: a cell expects fewer than five draws");
        let square: f64 = counts.iter().zip(expected).map(|(o, e)| (o - e) * (o - e) / e).sum();
        let freedom = counts.len() as f64 - 1.0;
        let bound = freedom + 2.0 * (14.0 * freedom).sqrt() + 28.0;
        assert!(square < bound, "{name}: chi-square {square} of {freedom} degrees, bound {bound}");
    }

    #[test]
    fn uniform_values_fill_the_half_open_range() {
        assert_law("uniform", &counts("uniform:-2..5", -2, 7, 100_000), &[1.0; 7]);
    }

    #[test]
    fn uniform_values_are_those_that_were_promised() {
        // Values of the first version, which printed them as unsigned numbers: the same requests come
        // of the same seed.
        let id = variable("uniform:0..1000000");
        assert_eq!([0, 1, 2, 1_000].map(|seq| whole(&id, Key::Seq(seq))), UNIFORM_OPEN);
        let step = |client, step| whole(&id, Key::Step { client, step });
        assert_eq!([step(0, 0), step(0, 1), step(3, 4)], UNIFORM_CLOSED);
    }
    const UNIFORM_OPEN: [i64; 4] = [941_030, 192_871, 250_825, 195_668];
    const UNIFORM_CLOSED: [i64; 3] = [734_579, 868_165, 271_221];

    #[test]
    fn a_value_depends_on_the_request_alone() {
        for law in [
            "uniform:0..9000000000",
            "zipf:0..9000000000,s=0.5",
            "normal:0..9000000000",
            "exponential:0..9000000000",
        ] {
            let id = variable(law);
            let step = |client, step| whole(&id, Key::Step { client, step });
            assert_eq!(whole(&id, Key::Seq(7)), whole(&id.clone(), Key::Seq(7)));
            assert_eq!(step(3, 4), step(3, 4));
            assert!(step(3, 4) != step(4, 3) && step(3, 4) != step(3, 5), "{law}");
            let other = Variable::new("di", id.law().clone(), 1);
            assert_ne!(whole(&id, Key::Seq(7)), whole(&other, Key::Seq(7)));
        }
    }

    #[test]
    fn zipf_ranks_come_as_often_as_their_weights_say() {
        for (s, weight) in [("0.5", 0.5), ("0.99", 0.99), ("1", 1.0), ("1.2", 1.2), ("3", 3.0)] {
            let weights: Vec<f64> = (1..=20).map(|rank| f64::from(rank).powf(-weight)).collect();
            assert_law(s, &counts(&format!("zipf:5..25,s={s}"), 5, 20, 400_000), &weights);
        }
        let weights: Vec<f64> = (1..=20).map(|rank| 1.0 / f64::from(rank)).collect();
        assert_law("s left out", &counts("zipf:5..25", 5, 20, 200_000), &weights);
    }

    #[test]
    fn zipf_shares_of_the_first_ranks_are_right_among_a_billion() {
        // The sum of 1/k^s over k up to n = 10^9: for s = 1 by ln n + γ + 1/(2n), for others summed up to
        // 10^5 and Euler and Maclaurin's formula beyond.
        let n = 1e9_f64;
        let sum = |s: f64| {
            if s == 1.0 {
                return n.ln() + 0.577_215_664_901_532_9 + 0.5 / n;
            }
            let m = 1e5_f64;
            let head: f64 = (1..100_000).map(|k| f64::from(k).powf(-s)).sum();
            head + (n.powf(1.0 - s) - m.powf(1.0 - s)) / (1.0 - s) + 0.5 * (m.powf(-s) + n.powf(-s))
        };
        for s in [0.8_f64, 1.0, 1.2] {
            let id = variable(&format!("zipf:0..1000000000,s={s}"));
            let draws = 400_000;
            let mut seen = [0.0; 8];
            for seq in 0..draws {
                let rank = whole(&id, Key::Seq(seq)) as usize;
                seen[rank.min(7)] += 1.0;
            }
            let mut weights: Vec<f64> = (1..8).map(|k| f64::from(k).powf(-s)).collect();
            weights.push(sum(s) - weights.iter().sum::<f64>());
            assert_law(&format!("s={s}"), &seen, &weights);
        }
    }

    /// The share of the standard normal law below `z`.
    fn normal_below(z: f64) -> f64 {
        0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
    }

    #[test]
    fn normal_values_have_their_law_inside_the_range() {
        // Narrow, as by default, and wider than the range, where another way of drawing is taken.
        for (law, sd) in [
            ("normal:-10..10", 20.0 / 6.0),
            ("normal:-10..10,sd=5.5", 5.5),
            ("normal:-10..10,sd=100", 100.0),
            ("normal:-10..10,sd=10", 10.0),
        ] {
            let cell = |at: i64| normal_below((at + 1) as f64 / sd) - normal_below(at as f64 / sd);
            let weights: Vec<f64> = (-10..10).map(cell).collect();
            let counts = counts(law, -10, 20, 800_000);
            assert_law(law, &counts, &weights);
            // Mirrored around the middle, -0.5 between the whole numbers; no law here is wider than an even
            // one, whose standard deviation is 5.8.
            let mean = counts.iter().zip(-10..).map(|(n, at)| n * f64::from(at)).sum::<f64>() / 800_000.0;
            assert!((mean + 0.5).abs() < 5.0 * sd.min(5.8) / 800_000f64.sqrt(), "{law}: mean {mean}");
        }
    }

    #[test]
    fn exponential_values_have_their_law_up_to_the_end_of_the_range() {
        for (law, mean) in [
            ("exponential:100..120", 4.0),
            ("exponential:100..120,mean=50", 50.0),
            ("exponential:100..120,mean=6.5", 6.5),
        ] {
            let weights: Vec<f64> =
                (0..20).map(|k| (-f64::from(k) / mean).exp() - (-f64::from(k + 1) / mean).exp()).collect();
            assert_law(law, &counts(law, 100, 20, 200_000), &weights);
        }
    }

    #[test]
    fn sequences_count_in_the_order_of_the_requests_and_begin_again() {
        let plain = variable("sequence");
        assert_eq!([0, 1, 2].map(|seq| whole(&plain, Key::Seq(seq))), [0, 1, 2]);
        assert_eq!(whole(&plain, Key::Step { client: 9, step: 4 }), 4);
        let ring = variable("sequence:-1..2");
        assert_eq!([0, 1, 2, 3, 7].map(|seq| whole(&ring, Key::Seq(seq))), [-1, 0, 1, -1, 0]);
    }

    fn column(file: &str, cells: &[&str]) -> ValueLaw {
        ValueLaw::Column(Column::new(file, cells.iter().map(|cell| Box::from(*cell)).collect()))
    }

    #[test]
    fn columns_give_their_rows_in_order_and_those_of_one_file_the_same_row() {
        let ids = Variable::new("id", column("users.csv", &["a", "b", "c", "d", "e"]), 7);
        let names = Variable::new("name", column("users.csv", &["A", "B", "C", "D", "E"]), 7);
        let open: Vec<_> = (0..7).map(|seq| ids.value(Key::Seq(seq))).collect();
        assert_eq!(open, ["a", "b", "c", "d", "e", "a", "b"].map(Value::Text));
        let mut first = Vec::new();
        for client in 0..5 {
            let row = |step| (ids.value(Key::Step { client, step }), names.value(Key::Step { client, step }));
            for step in 0..6 {
                let (Value::Text(id), Value::Text(name)) = row(step) else { panic!("text") };
                assert_eq!(id.to_uppercase(), name);
                let (Value::Text(next), _) = row(step + 1) else { panic!("text") };
                assert_eq!((id.as_bytes()[0] - b'a' + 1) % 5, next.as_bytes()[0] - b'a');
            }
            first.push(ids.value(Key::Step { client, step: 0 }));
        }
        // Five clients begin at five rows.
        first.sort_by_key(|value| format!("{value:?}"));
        assert_eq!(first, ["a", "b", "c", "d", "e"].map(Value::Text));
    }

    proptest! {
        #[test]
        fn no_value_leaves_its_range(
            name in "uniform|zipf|normal|exponential|sequence",
            a in any::<i64>(), width in any::<u64>(), narrow in any::<bool>(),
            shape in 0.001f64..1e6, seed in any::<u64>(), client in any::<u32>(),
        ) {
            let width = if narrow { width % 5 + 1 } else { width.max(1) };
            let b = a.saturating_add_unsigned(width);
            prop_assume!(a < b);
            let option = match name.as_str() {
                "zipf" => format!(",s={shape}"),
                "normal" => format!(",sd={shape}"),
                "exponential" => format!(",mean={shape}"),
                _ => String::new(),
            };
            let law: ValueLaw = format!("{name}:{a}..{b}{option}").parse().unwrap();
            let variable = Variable::new("x", law, seed);
            for step in 0..20 {
                for key in [Key::Seq(step), Key::Step { client, step }] {
                    let value = whole(&variable, key);
                    prop_assert!(a <= value && value < b, "{value} outside {a}..{b}");
                }
            }
        }
    }
}
