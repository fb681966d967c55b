//! Variables: `--var name=law`, and where requests use them.

use plimsoll_core::template::Template;
use plimsoll_core::value::{VALUE_FORMS, ValueLaw, Variable};

use crate::args::RunArgs;
use crate::fault::Check;
use crate::files::Laws;

/// Reads the variables that were declared.
pub(crate) fn variables(args: &RunArgs, seed: u64, check: &mut Check) -> Vec<Variable> {
    let mut laws = Laws::new(&args.files);
    let mut variables: Vec<Variable> = Vec::with_capacity(args.variables.len());
    for text in &args.variables {
        let value = format!("--var {text}");
        let Some((name, law)) = text.split_once('=') else {
            check.fault(value, "has no '='", format!("write NAME=LAW, the law being {VALUE_FORMS}"));
            continue;
        };
        if !is_name(name) {
            check.fault(
                value,
                format!("'{name}' is not a name"),
                "write letters, digits and '_', not a digit first",
            );
            continue;
        }
        if variables.iter().any(|variable| variable.name() == name) {
            check.fault(value, format!("'{name}' is declared twice"), "keep one, or give another name");
            continue;
        }
        match laws.read(law) {
            Ok(law) => variables.push(Variable::new(name, law, seed)),
            Err(refusal) => check.fault(value, refusal.reason, refusal.remedy),
        }
    }
    variables
}

/// Says which of `variables` the request leaves unused, and which places have no variable.
pub(crate) fn check_use(variables: &[Variable], request: &Template, parts: &[&[u8]], check: &mut Check) {
    for (index, variable) in variables.iter().enumerate() {
        if !request.uses(index) {
            let name = variable.name();
            check.fault(
                format!("--var {name}"),
                "is not used",
                format!(
                    "write ${{{name}}} where its value belongs (path, query, header or body), or leave it out"
                ),
            );
        }
    }
    for name in parts.iter().flat_map(|part| places(part)) {
        if !variables.iter().any(|variable| variable.name() == name) {
            check.note(format!("${{{name}}} is sent as it stands, since there is no --var {name}=…"));
        }
    }
}

/// Refuses cells that would end a line of the request's head, or a word of its first line: `target` is the
/// request target, `head` everything before the body.
pub(crate) fn check_cells(variables: &[Variable], target: &str, head: &[u8], check: &mut Check) {
    for variable in variables {
        let ValueLaw::Column(column) = variable.law() else { continue };
        let stands_in = |text: &[u8]| places(text).any(|name| name == variable.name());
        let (in_target, in_head) = (stands_in(target.as_bytes()), stands_in(head));
        let breaks = |b: u8| (in_head && (b < b' ' || b == 0x7f)) || (in_target && b == b' ');
        if let Some(row) = column.cells().iter().position(|cell| cell.bytes().any(breaks)) {
            check.fault(
                format!("--var {}", variable.name()),
                format!(
                    "row {} of {} has a space or control character, which would break the request's head",
                    row + 1,
                    column.file()
                ),
                "write it as an escape in the file, such as %20; cells are sent as they are",
            );
        }
    }
}

/// The length of `text` without the places that `variables` fill.
pub(crate) fn fixed_length(text: &[u8], variables: &[Variable]) -> u64 {
    let filled = places(text)
        .filter(|name| variables.iter().any(|variable| variable.name() == *name))
        .map(|name| name.len() + "${}".len())
        .sum::<usize>();
    (text.len() - filled) as u64
}

/// The names in `${name}`, in order.
fn places(text: &[u8]) -> impl Iterator<Item = &str> {
    text.windows(2).enumerate().filter(|(_, window)| *window == b"${").filter_map(|(at, _)| {
        let tail = &text[at + 2..];
        let end = tail.iter().position(|b| *b == b'}')?;
        std::str::from_utf8(&tail[..end]).ok().filter(|name| is_name(name))
    })
}

/// Names are kept plain so that no place can hold another one.
fn is_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_without_variables_leaves_out_their_places_only() {
        let variables = [Variable::new("id", ValueLaw::SEQUENCE, 1)];
        for (text, length) in [
            ("", 0),
            ("abc", 3),
            ("${id}", 0),
            ("a${id}b${id}", 2),
            ("${other}", 8),
            ("${${id}", 2),
            ("${id", 4),
        ] {
            assert_eq!(fixed_length(text.as_bytes(), &variables), length, "{text}");
        }
    }
}
