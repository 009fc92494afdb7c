//! Adaptations of this Jinja engine to Python's: printed floats, two tests, and the function `raise_exception`.
//!
//! Differences that remain: parts joined by `~` or `join` print floats in the engine's way; a loop over none is empty here and an error in
//! Python; text marked by the filter `safe` doesn't escape what is added to it.

use std::error::Error as _;
use std::fmt;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Output, State, Value, escape_formatter};

/// Largest depth of a value; deeper ones are refused, so that no template overflows the stack.
pub(super) const DEEPEST: usize = 128;

/// The error of an invalid operation in a template.
pub(super) fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// Prints a value: floats, also inside other values, like Python, and everything else like the engine, which agrees with Python.
pub(super) fn print(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    if has_float(value, 0)? {
        Ok(out.write_str(&representation(value)?)?)
    } else {
        escape_formatter(out, state, value)
    }
}

/// The filter `string`, which prints a value as text.
pub(super) fn string(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => Ok(value.clone()),
        _ if has_float(value, 0)? => representation(value).map(Value::from),
        _ => Ok(Value::from(value.to_string())),
    }
}

/// The test `iterable`, which is false for none.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// The test `sequence`, which all values with a length and items pass: texts, dictionaries and lists.
pub(super) fn is_sequence(value: &Value) -> bool {
    let kinds = [
        ValueKind::Seq,
        ValueKind::Map,
        ValueKind::String,
        ValueKind::Undefined,
    ];
    kinds.contains(&value.kind())
}

/// Formats a float like Python: the fewest digits that give the same value, with an exponent below 1e-4 and from 1e16 on.
pub(super) fn float(number: f64) -> String {
    if !number.is_finite() {
        // Rust writes NaN as "NaN".
        return number.to_string().to_lowercase();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{number:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

/// Whether a value is a float or contains one in lists and dictionaries.
fn has_float(value: &Value, depth: usize) -> Result<bool, Error> {
    if depth > DEEPEST {
        return Err(invalid("expected a value of at most 128 levels"));
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Map => {
            for key in value.try_iter()? {
                let item = match value.kind() {
                    ValueKind::Map => value.get_item(&key)?,
                    _ => key,
                };
                if has_float(&item, depth + 1)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Ok(is_float(value)),
    }
}

/// Formats a value like Python's `repr`; [`has_float`] has checked its depth.
fn representation(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Map => {
            let fields = value.try_iter()?.map(|key| {
                let field = value.get_item(&key)?;
                Ok(format!(
                    "{}: {}",
                    representation(&key)?,
                    representation(&field)?
                ))
            });
            let fields: Result<Vec<String>, Error> = fields.collect();
            Ok(format!("{{{}}}", fields?.join(", ")))
        }
        ValueKind::Seq => {
            let items = value.try_iter()?.map(|item| representation(&item));
            let items: Result<Vec<String>, Error> = items.collect();
            Ok(format!("[{}]", items?.join(", ")))
        }
        _ if is_float(value) => Ok(float(f64::try_from(value.clone())?)),
        _ => Ok(format!("{value:?}")),
    }
}

/// The message with which a template refused a conversation.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// The function `raise_exception`, with which a template refuses a conversation.
pub(super) fn raise_exception(message: &Value) -> Result<Value, Error> {
    let error = Error::new(ErrorKind::InvalidOperation, "raise_exception was called");
    Err(error.with_source(Refusal(message.to_string())))
}

/// The template's message, if `error` comes from `raise_exception`.
pub(super) fn refusal(error: &Error) -> Option<String> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(Refusal(message)) = cause.downcast_ref() {
            return Some(message.clone());
        }
        source = cause.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are those of `repr` in Python 3.11.
    #[test]
    fn floats_are_those_of_python() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123456789.125, "123456789.125"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e100, "1.25e+100"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float(number), expected);
        }
    }
}
