//! Adaptations of this Jinja engine to Python's: how values are printed, three tests, and the function `raise_exception`.
//!
//! Differences that remain: `is sequence` is true for what `items`, `keys` and `values` give; integers beyond 128 bits are errors; text
//! marked by the filter `safe` doesn't escape what is added to it.

use std::error::Error as _;
use std::fmt;
use std::fmt::Write as _;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Output, State, Value, escape_formatter};

use crate::marks::is_mark;

/// Largest depth of a value; deeper ones are refused, so that no template overflows the stack.
pub(super) const DEEPEST: usize = 128;

/// The error of an invalid operation in a template.
pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Prints a value like Python.
pub(super) fn print(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    if is_printed_here(value) {
        Ok(out.write_str(&text(state, value)?)?)
    } else {
        escape_formatter(out, state, value)
    }
}

/// The filter `string`, which prints a value as text.
pub(super) fn string(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => Ok(value.clone()),
        _ => text(state, value).map(Value::from),
    }
}

/// Whether the engine may print a value in another way than Python.
fn is_printed_here(value: &Value) -> bool {
    let kinds = [ValueKind::Seq, ValueKind::Map, ValueKind::Iterable];
    kinds.contains(&value.kind()) || is_float(value)
}

/// The text of a value, as Python's `str` gives it; it takes fuel for each item of a list.
pub(super) fn text(state: &State<'_, '_>, value: &Value) -> Result<String, Error> {
    if !is_printed_here(value) {
        return Ok(value.to_string());
    }
    let mut text = String::new();
    represent(state, value, 0, &mut text)?;
    Ok(text)
}

/// The test `iterable`, which is false for none.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// The test `sequence`, which all values with a length and items pass: texts, dictionaries and lists.
pub(super) fn is_sequence(value: &Value) -> bool {
    let kinds = [
        ValueKind::Seq,
        // A slice of a list.
        ValueKind::Iterable,
        ValueKind::Map,
        ValueKind::String,
        ValueKind::Undefined,
    ];
    kinds.contains(&value.kind())
}

/// The test `callable`.
pub(super) fn is_callable(value: &Value) -> bool {
    value.kind() == ValueKind::Plain
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

/// Whether a value is a float.
pub(super) fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

/// Appends a value to `text` as Python's `repr` writes it.
fn represent(
    state: &State<'_, '_>,
    value: &Value,
    depth: usize,
    text: &mut String,
) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(invalid("expected a value of at most 128 levels"));
    }
    // A short template can make a list that contains another many times over.
    state.consume_fuel(1)?;
    match value.kind() {
        ValueKind::Map => {
            text.push('{');
            for (at, key) in value.try_iter()?.enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                represent(state, &key, depth + 1, text)?;
                text.push_str(": ");
                represent(state, &value.get_item(&key)?, depth + 1, text)?;
            }
            text.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let [open, close] = if value.is_tuple() {
                ['(', ')']
            } else {
                ['[', ']']
            };
            text.push(open);
            for (at, item) in value.try_iter()?.checked().enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                represent(state, &item?, depth + 1, text)?;
            }
            if value.is_tuple() && value.len() == Some(1) {
                text.push(',');
            }
            text.push(close);
        }
        ValueKind::String => {
            let string = value.as_str().unwrap_or_default();
            state.consume_fuel(string.len() as u64 / 64)?;
            quoted(string, text);
        }
        ValueKind::Undefined => text.push_str("Undefined"),
        _ if is_float(value) => text.push_str(&float(f64::try_from(value.clone())?)),
        _ => text.push_str(&value.to_string()),
    }
    Ok(())
}

/// Appends a string in quotes, with escapes for what can't be printed.
fn quoted(string: &str, text: &mut String) {
    let double = string.contains('\'') && !string.contains('"');
    let quote = if double { '"' } else { '\'' };
    text.push(quote);
    for character in string.chars() {
        let code = u32::from(character);
        // Writing to a string can't fail.
        let _ = match character {
            '\\' => write!(text, "\\\\"),
            '\n' => write!(text, "\\n"),
            '\r' => write!(text, "\\r"),
            '\t' => write!(text, "\\t"),
            _ if character == quote => write!(text, "\\{quote}"),
            _ if is_printable(character) => {
                text.push(character);
                Ok(())
            }
            _ if code < 0x100 => write!(text, "\\x{code:02x}"),
            _ if code < 0x10000 => write!(text, "\\u{code:04x}"),
            _ => write!(text, "\\U{code:08x}"),
        };
    }
    text.push(quote);
}

/// Format characters of Unicode (Cf), as ranges of codes.
const FORMATS: &[[u32; 2]] = &[
    [0xAD, 0xAD],
    [0x600, 0x605],
    [0x61C, 0x61C],
    [0x6DD, 0x6DD],
    [0x70F, 0x70F],
    [0x890, 0x891],
    [0x8E2, 0x8E2],
    [0x180E, 0x180E],
    [0x200B, 0x200F],
    [0x202A, 0x202E],
    [0x2060, 0x206F],
    [0xFEFF, 0xFEFF],
    [0xFFF9, 0xFFFB],
    [0x110BD, 0x110BD],
    [0x110CD, 0x110CD],
    [0x13430, 0x1343F],
    [0x1BCA0, 0x1BCA3],
    [0x1D173, 0x1D17A],
    [0xE0001, 0xE007F],
];

/// Private use and noncharacters, as ranges of codes.
const UNNAMED: &[[u32; 2]] = &[
    [0xE000, 0xF8FF],
    [0xFDD0, 0xFDEF],
    [0xFFFE, 0xFFFF],
    [0xF0000, 0x10FFFF],
];

/// Whether Python's `repr` writes a character as it is: not separators but the space, nor control, format and unnamed characters. A mark
/// stays, since it is taken out of the text again.
fn is_printable(character: char) -> bool {
    let code = u32::from(character);
    let within = |ranges: &[[u32; 2]]| {
        ranges
            .iter()
            .any(|[from, to]| (*from..=*to).contains(&code))
    };
    let other = character.is_control() || within(FORMATS) || within(UNNAMED);
    character == ' ' || is_mark(character) || !(other || character.is_whitespace())
}

/// Whether Python's `str.isspace` takes a character for a space.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1C}'..='\u{1F}').contains(&character)
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
    fn strings_are_those_of_python() {
        for (string, expected) in [
            ("", "''"),
            ("it's", "\"it's\""),
            ("\"it's\"", "'\"it\\'s\"'"),
            (
                "a\\\n\r\t\u{0}\u{7f}\u{a0}é",
                "'a\\\\\\n\\r\\t\\x00\\x7f\\xa0é'",
            ),
            (
                "👩\u{200d}👧\u{fe0f} \u{3000}",
                "'👩\\u200d👧\u{fe0f} \\u3000'",
            ),
            ("\u{e000}\u{e0041}", "'\\ue000\\U000e0041'"),
        ] {
            let mut text = String::new();
            quoted(string, &mut text);
            assert_eq!(text, expected);
        }
    }

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
            (1e20, "1e+20"),
            (5e-324, "5e-324"),
            (1.25e100, "1.25e+100"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float(number), expected);
        }
    }
}
