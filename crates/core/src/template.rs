//! Request bytes with holes for values, ready to be written out.

use crate::value::{Key, Value, Variable};

/// Bytes to send, with places that each request fills in.
///
/// Made of pieces: text that never changes, the value of a variable, and the length in decimal of
/// everything after a mark (an HTTP head names the length of a body that is not written yet).
#[derive(Clone, Debug, Default)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(Vec<u8>),
    /// An index into the plan's variables.
    Value(usize),
    /// The number of bytes that the pieces from this index on come to, in decimal.
    LengthFrom(usize),
}

impl Template {
    /// The template of `text`, in which `${name}` stands for each variable of that name; other
    /// `${…}` are left as they are, byte for byte.
    pub fn parse(text: &[u8], variables: &[Variable]) -> Self {
        let mut pieces = Vec::new();
        let mut plain = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let hole = rest.strip_prefix(b"${").and_then(|tail| {
                let end = tail.iter().position(|b| *b == b'}')?;
                let index = variables.iter().position(|v| v.name().as_bytes() == &tail[..end])?;
                Some((index, &tail[end + 1..]))
            });
            match hole {
                Some((index, tail)) => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Value(index));
                    rest = tail;
                }
                None => {
                    plain.push(rest[0]);
                    rest = &rest[1..];
                }
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Self { pieces }
    }

    /// `before`, then the length of `rest` in decimal, then `between`, then `rest`.
    #[must_use]
    pub fn with_length_of(before: Self, between: &[u8], rest: Self) -> Self {
        let mut pieces = before.pieces;
        let mark = pieces.len() + 2;
        pieces.push(Piece::LengthFrom(mark));
        pieces.push(Piece::Text(between.to_vec()));
        pieces.extend(rest.pieces);
        Self { pieces }
    }

    /// True when the variable with this index stands somewhere in it.
    pub fn uses(&self, variable: usize) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Value(index) if *index == variable))
    }

    /// The bytes, where every request has the same ones.
    pub fn fixed(&self) -> Option<Vec<u8>> {
        let fixed = self.pieces.iter().all(|piece| !matches!(piece, Piece::Value(_)));
        fixed.then(|| {
            let mut out = Vec::new();
            self.write(&[], Key::Seq(0), &mut out);
            out
        })
    }

    /// Appends the bytes of the request `key` stands for to `out`.
    pub fn write(&self, variables: &[Variable], key: Key, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Value(index) => match variables[*index].value(key) {
                    Value::Whole(number) => write_whole(number, out),
                    Value::Text(text) => out.extend_from_slice(text.as_bytes()),
                },
                Piece::LengthFrom(mark) => write_decimal(self.length_from(*mark, variables, key), out),
            }
        }
    }

    fn length_from(&self, mark: usize, variables: &[Variable], key: Key) -> u64 {
        let length = |piece: &Piece| match piece {
            Piece::Text(text) => text.len() as u64,
            Piece::Value(index) => match variables[*index].value(key) {
                Value::Whole(number) => u64::from(number < 0) + decimal_digits(number.unsigned_abs()),
                Value::Text(text) => text.len() as u64,
            },
            Piece::LengthFrom(_) => unreachable!("a template has one length, and it lies before its mark"),
        };
        self.pieces[mark..].iter().map(length).sum()
    }
}

fn decimal_digits(value: u64) -> u64 {
    u64::from(value.checked_ilog10().unwrap_or(0)) + 1
}

#[inline]
fn write_whole(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    write_decimal(number.unsigned_abs(), out);
}

#[inline]
fn write_decimal(value: u64, out: &mut Vec<u8>) {
    // Twenty digits hold every u64; filled from the right, without the formatting machinery.
    let mut digits = [0u8; 20];
    let (mut at, mut left) = (digits.len(), value);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Column, ValueLaw};

    fn render(template: &Template, variables: &[Variable], seq: u64) -> String {
        let mut out = Vec::new();
        template.write(variables, Key::Seq(seq), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_fill_their_places_and_other_braces_stay() {
        let variables = [Variable::new("n", ValueLaw::SEQUENCE, 1)];
        let template = Template::parse(b"/a/${n}?x=${m}&y=$n${n}${", &variables);
        assert_eq!(render(&template, &variables, 12), "/a/12?x=${m}&y=$n12${");
        assert!(template.uses(0) && template.fixed().is_none());
    }

    #[test]
    fn a_length_counts_what_follows_it() {
        let law = ValueLaw::Sequence { start: -1, end: 1_000 };
        let variables = [Variable::new("n", law, 1)];
        let body = Template::parse(b"id=${n}", &variables);
        let template = Template::with_length_of(Template::parse(b"L:", &variables), b"\n", body);
        for (seq, expected) in
            [(0, "L:5\nid=-1"), (1, "L:4\nid=0"), (10, "L:4\nid=9"), (11, "L:5\nid=10"), (101, "L:6\nid=100")]
        {
            assert_eq!(render(&template, &variables, seq), expected);
        }
    }

    #[test]
    fn cells_are_written_as_they_are() {
        let cells = ["ä b", ""].map(Box::from);
        let variables =
            [Variable::new("n", ValueLaw::Column(Column::new("f", std::sync::Arc::from(cells))), 1)];
        let template =
            Template::with_length_of(Template::default(), b":", Template::parse(b"<${n}>", &variables));
        assert_eq!([0, 1].map(|seq| render(&template, &variables, seq)), ["6:<ä b>", "2:<>"]);
    }

    #[test]
    fn every_whole_number_has_its_digits() {
        for number in [i64::MIN, i64::MIN + 1, -10, -9, -1, 0, 9, 10, i64::MAX] {
            let mut out = Vec::new();
            write_whole(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }

    #[test]
    fn a_template_without_values_is_fixed() {
        let template =
            Template::with_length_of(Template::parse(b"L:", &[]), b"\n", Template::parse(b"abc", &[]));
        assert_eq!(template.fixed(), Some(b"L:3\nabc".to_vec()));
    }
}
