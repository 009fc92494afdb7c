//! The filter `tojson`, whose output equals that of Python's `json.dumps`.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, State, Value};

use super::python::{DEEPEST, float, invalid};
use crate::marks::is_mark;

/// Style of the JSON output.
struct Style<'a, 't, 'e> {
    /// Holds the fuel, of which each value takes some: a short template can make a list that contains another many times over.
    state: &'a State<'t, 'e>,
    /// Whether characters beyond ASCII are written as `\u` and four hex digits.
    ascii: bool,
    /// Indent of a line per level; everything is on one line without it.
    indent: Option<String>,
    between_items: String,
    after_key: String,
    sorted: bool,
}

/// `value|tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false)`, with the arguments in this order or by name.
pub(super) fn tojson(
    state: &State<'_, '_>,
    value: Value,
    arguments: Rest<ValueOrKwargs>,
) -> Result<String, Error> {
    let arguments = arguments.into_values();
    let (places, names): (&[Value], Kwargs) = from_args(&arguments)?;
    if places.len() > 4 {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let argument = |place: usize, name: &str| -> Result<Value, Error> {
        let named: Option<Value> = names.get(name)?;
        Ok(named
            .or_else(|| places.get(place).cloned())
            .unwrap_or_default())
    };
    let (ascii, indent) = (argument(0, "ensure_ascii")?, argument(1, "indent")?);
    let (separators, sorted) = (argument(2, "separators")?, argument(3, "sort_keys")?);
    names.assert_all_used()?;
    let indent = indentation(&indent)?;
    // Python omits the space at the ends of lines.
    let between_items = if indent.is_some() { "," } else { ", " };
    let mut style = Style {
        state,
        ascii: ascii.is_true(),
        indent,
        between_items: between_items.to_owned(),
        after_key: ": ".to_owned(),
        sorted: sorted.is_true(),
    };
    if !separators.is_undefined() && !separators.is_none() {
        let pair: Vec<String> = separators
            .try_iter()?
            .map(|part| part.to_string())
            .collect();
        let [between_items, after_key] = <[String; 2]>::try_from(pair)
            .map_err(|_| invalid("tojson: expected two separators"))?;
        style = Style {
            between_items,
            after_key,
            ..style
        };
    }
    let mut text = String::new();
    style.write(&value, 0, &mut text)?;
    Ok(text)
}

/// The indent as a text: the given one, or a number of spaces.
fn indentation(indent: &Value) -> Result<Option<String>, Error> {
    if indent.is_undefined() || indent.is_none() {
        return Ok(None);
    }
    if let Some(text) = indent.as_str() {
        return Ok(Some(text.to_owned()));
    }
    // Python treats a negative number as 0 spaces, but still breaks lines.
    let spaces = i64::try_from(indent.clone())?.max(0);
    match usize::try_from(spaces) {
        Ok(spaces) if spaces <= 64 => Ok(Some(" ".repeat(spaces))),
        _ => Err(invalid("tojson: expected an indent of at most 64")),
    }
}

impl Style<'_, '_, '_> {
    fn write(&self, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
        if depth > DEEPEST {
            return Err(invalid("tojson: expected a value of at most 128 levels"));
        }
        self.state.consume_fuel(1)?;
        match value.kind() {
            ValueKind::None => text.push_str("null"),
            ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.number(value, text)?,
            ValueKind::String => {
                let string = value.as_str().unwrap_or_default();
                self.state.consume_fuel(string.len() as u64 / 64)?;
                self.string(string, text);
            }
            ValueKind::Map => self.object(value, depth, text)?,
            // Slices and sums of lists are iterators here.
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.checked();
                let items: Result<_, Error> = items.map(|item| Ok((None, item?))).collect();
                self.list(['[', ']'], items?, depth, text)?;
            }
            kind => {
                let message = format!("tojson: expected what JSON has, got a value that is {kind}");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
        Ok(())
    }

    fn object(&self, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
        let mut fields = Vec::new();
        for key in value.try_iter()? {
            let name = match key.kind() {
                ValueKind::String => key.to_string(),
                ValueKind::None => "null".to_owned(),
                ValueKind::Bool => key.is_true().to_string(),
                ValueKind::Number => {
                    let mut name = String::new();
                    self.number(&key, &mut name)?;
                    name
                }
                _ => return Err(invalid("tojson: expected keys that are texts")),
            };
            fields.push((Some(name), value.get_item(&key)?));
        }
        if self.sorted {
            fields.sort_by(|one, other| one.0.cmp(&other.0));
        }
        self.list(['{', '}'], fields, depth, text)
    }

    /// Writes a list of items, or an object's items with their names.
    fn list(
        &self,
        [open, close]: [char; 2],
        items: Vec<(Option<String>, Value)>,
        depth: usize,
        text: &mut String,
    ) -> Result<(), Error> {
        text.push(open);
        let empty = items.is_empty();
        for (i, (name, item)) in items.into_iter().enumerate() {
            if i > 0 {
                text.push_str(&self.between_items);
            }
            self.line(depth + 1, text);
            if let Some(name) = name {
                self.string(&name, text);
                text.push_str(&self.after_key);
            }
            self.write(&item, depth + 1, text)?;
        }
        if !empty {
            self.line(depth, text);
        }
        text.push(close);
        Ok(())
    }

    fn line(&self, depth: usize, text: &mut String) {
        if let Some(indent) = &self.indent {
            text.push('\n');
            text.extend(std::iter::repeat_n(indent.as_str(), depth));
        }
    }

    fn number(&self, value: &Value, text: &mut String) -> Result<(), Error> {
        if value.is_integer() {
            text.push_str(&value.to_string());
        } else {
            text.push_str(&fraction(f64::try_from(value.clone())?));
        }
        Ok(())
    }

    fn string(&self, string: &str, text: &mut String) {
        text.push('"');
        for character in string.chars() {
            match character {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\u{8}' => text.push_str("\\b"),
                '\u{c}' => text.push_str("\\f"),
                ' '..='~' => text.push(character),
                // A mark is taken out of the text again.
                _ if is_mark(character) => text.push(character),
                _ if self.ascii || character < ' ' => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        text.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                _ => text.push(character),
            }
        }
        text.push('"');
    }
}

/// Writes a number that isn't an integer.
fn fraction(number: f64) -> String {
    if number.is_finite() {
        float(number)
    } else {
        // Python writes infinities and NaN, too, which JSON doesn't have.
        number.to_string().replace("inf", "Infinity")
    }
}
