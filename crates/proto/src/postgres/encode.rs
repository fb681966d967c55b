//! Messages that carry statements and their values.

use std::io::Write;

use bytes::{BufMut, BytesMut};
use postgres_protocol::IsNull;
use postgres_protocol::escape::escape_literal;
use postgres_protocol::message::frontend;

use super::setup::{Mode, Part, Ready};
use crate::Value;

/// Appends what runs `statement`, whose first parameter has the value with the index `first`.
#[inline]
pub(super) fn run<'a>(
    mode: Mode,
    statement: &Ready,
    first: usize,
    value: &'a dyn Fn(usize) -> Value<'a>,
    out: &mut BytesMut,
) {
    match mode {
        Mode::Prepared | Mode::Unnamed => extended(statement, first, value, out),
        Mode::Simple => simple(statement, first, value, out),
    }
}

/// Values go as text: the server reads each as the type that the statement gives its place, so a number
/// may stand for an int, a numeric or a text alike.
fn extended<'a>(statement: &Ready, first: usize, value: &'a dyn Fn(usize) -> Value<'a>, out: &mut BytesMut) {
    let values = (first..first + statement.parameters).map(value);
    let bound = frontend::bind(
        "",
        &statement.name,
        [],
        values,
        |value, out| {
            match value {
                Value::Whole(number) => write_decimal(number, out),
                Value::Text(text) => out.put_slice(text.as_bytes()),
            }
            Ok(IsNull::No)
        },
        [],
        out,
    );
    debug_assert!(bound.is_ok(), "values are shorter than 2 GiB");
    let executed = frontend::execute("", 0, out);
    debug_assert!(executed.is_ok(), "the unnamed portal has no zero byte");
    frontend::sync(out);
}

fn simple<'a>(statement: &Ready, first: usize, value: &'a dyn Fn(usize) -> Value<'a>, out: &mut BytesMut) {
    out.put_u8(b'Q');
    let at = out.len();
    out.put_u32(0);
    for part in &statement.parts {
        match part {
            Part::Text(text) => out.put_slice(text.as_bytes()),
            Part::Parameter(index) => match value(first + index) {
                // In brackets, since two minus signs begin a comment.
                Value::Whole(number) if number < 0 => {
                    out.put_u8(b'(');
                    write_decimal(number, out);
                    out.put_u8(b')');
                }
                Value::Whole(number) => write_decimal(number, out),
                Value::Text(text) => out.put_slice(escape_literal(text).as_bytes()),
            },
        }
    }
    out.put_u8(0);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn write_decimal(number: i64, out: &mut BytesMut) {
    // 20 places hold every i64.
    let mut digits = [0u8; 20];
    let mut room = digits.as_mut_slice();
    let written = write!(room, "{number}");
    debug_assert!(written.is_ok(), "every i64 fits");
    let left = room.len();
    out.put_slice(&digits[..20 - left]);
}

/// Appends what ends a transaction and undoes it.
pub(super) fn roll_back(out: &mut BytesMut) {
    let written = frontend::query("ROLLBACK", out);
    debug_assert!(written.is_ok(), "the word has no zero byte");
}

/// Appends what refuses to send data. After a failed COPY of the extended protocol the server skips
/// everything up to a Sync, and the one sent before lies behind it.
pub(super) fn refuse_copy(extended: bool, out: &mut BytesMut) {
    let written = frontend::copy_fail("no data is sent for COPY FROM STDIN", out);
    debug_assert!(written.is_ok(), "the sentence has no zero byte");
    if extended {
        frontend::sync(out);
    }
}
