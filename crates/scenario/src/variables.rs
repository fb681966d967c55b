//! Variables: `--var name=law`, and where requests use them.

use plimsoll_core::template::Template;
use plimsoll_core::value::{VALUE_FORMS, ValueLaw, Variable};

use crate::args::RunArgs;
use crate::fault::Check;

/// Reads the variables that were declared.
pub(crate) fn variables(args: &RunArgs, seed: u64, check: &mut Check) -> Vec<Variable> {
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
        match law.parse::<ValueLaw>() {
            Ok(law) => variables.push(Variable::new(name, law, seed)),
            Err(_) => {
                check.fault(value, format!("'{law}' is not a law of values"), format!("give {VALUE_FORMS}"))
            }
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
