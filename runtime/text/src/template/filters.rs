//! Filters that the engine has in another way than Jinja, and two for what `operands` writes into a template.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::json::tojson;
use super::python::{invalid, is_space, string, text};

/// Gives an environment these filters in place of the engine's.
pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_filter("string", string);
    environment.add_filter("tojson", tojson);
    environment.add_filter("join", join);
    environment.add_filter("trim", trim);
    environment.add_filter("indent", indent);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("escape", escape);
    environment.add_filter("e", escape);
    environment.add_filter("_each", each);
    environment.add_filter("_percent", percent);
    // Jinja doesn't have these.
    for name in ["split", "lines", "chain", "zip", "bool"] {
        environment.remove_filter(name);
    }
}

/// Arguments of a filter, by place or by name.
struct Arguments<'a> {
    places: &'a [Value],
    names: Kwargs,
}

impl<'a> Arguments<'a> {
    /// At most `most` arguments.
    fn new(values: &'a [Value], most: usize) -> Result<Self, Error> {
        let (places, names): (&[Value], Kwargs) = from_args(values)?;
        if places.len() > most {
            return Err(Error::from(ErrorKind::TooManyArguments));
        }
        Ok(Self { places, names })
    }

    /// The argument at a place, or with a name; undefined if there is none.
    fn get(&self, place: usize, name: &str) -> Result<Value, Error> {
        if self.names.has(name) {
            return self.names.get(name);
        }
        Ok(self.places.get(place).cloned().unwrap_or_default())
    }
}

/// `value|join(d="", attribute=none)`: the texts of items, or of an attribute of theirs, with a text between them.
fn join(
    state: &State<'_, '_>,
    value: &Value,
    arguments: Rest<ValueOrKwargs>,
) -> Result<String, Error> {
    let arguments = arguments.into_values();
    let arguments = Arguments::new(&arguments, 2)?;
    let (between, attribute) = (arguments.get(0, "d")?, arguments.get(1, "attribute")?);
    arguments.names.assert_all_used()?;
    let between = text(state, &between)?;
    let mut joined = String::new();
    for (at, item) in value.try_iter()?.checked().enumerate() {
        let mut item = item?;
        if !attribute.is_undefined() && !attribute.is_none() {
            for part in attribute.to_string().split('.') {
                item = match part.parse::<usize>() {
                    Ok(index) => item.get_item_by_index(index)?,
                    Err(_) => item.get_attr(part)?,
                };
            }
        }
        let item = text(state, &item)?;
        let between = if at > 0 { between.as_str() } else { "" };
        state.consume_fuel(1 + (between.len() + item.len()) as u64 / 64)?;
        joined.push_str(between);
        joined.push_str(&item);
    }
    Ok(joined)
}

/// `value|trim(chars=none)`: the value's text without spaces, or some characters, at both ends.
fn trim(
    state: &State<'_, '_>,
    value: &Value,
    arguments: Rest<ValueOrKwargs>,
) -> Result<String, Error> {
    let arguments = arguments.into_values();
    let arguments = Arguments::new(&arguments, 1)?;
    let characters = arguments.get(0, "chars")?;
    arguments.names.assert_all_used()?;
    let text = text(state, value)?;
    Ok(match characters.as_str() {
        Some(characters) => text
            .trim_matches(|c: char| characters.contains(c))
            .to_owned(),
        None => text.trim_matches(is_space).to_owned(),
    })
}

/// `value|indent(width=4, first=false, blank=false)`: the value's text with spaces, or the text `width`, before its lines.
fn indent(
    state: &State<'_, '_>,
    value: &Value,
    arguments: Rest<ValueOrKwargs>,
) -> Result<String, Error> {
    let arguments = arguments.into_values();
    let arguments = Arguments::new(&arguments, 3)?;
    let width = arguments.get(0, "width")?;
    let first = arguments.get(1, "first")?.is_true();
    let blank = arguments.get(2, "blank")?.is_true();
    arguments.names.assert_all_used()?;
    let before = match width.as_str() {
        Some(text) => text.to_owned(),
        None if width.is_undefined() => " ".repeat(4),
        None => {
            let width = i64::try_from(width.clone())?.max(0);
            let width = usize::try_from(width).unwrap_or(usize::MAX);
            state.consume_fuel(width as u64 / 64)?;
            " ".repeat(width)
        }
    };
    let text = text(state, value)? + "\n";
    let mut indented = String::new();
    for (at, line) in lines(&text).map(|(line, _)| line).enumerate() {
        state.consume_fuel(1 + (before.len() + line.len()) as u64 / 64)?;
        if at > 0 {
            indented.push('\n');
        }
        let is_indented = match at {
            0 => first,
            _ => blank || !line.is_empty(),
        };
        if is_indented {
            indented.push_str(&before);
        }
        indented.push_str(line);
    }
    Ok(indented)
}

/// The lines of a text as Python's `splitlines` finds them, each without and with its end.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let ends = [
        '\n', '\r', '\u{B}', '\u{C}', '\u{1C}', '\u{1D}', '\u{1E}', '\u{85}', '\u{2028}',
        '\u{2029}',
    ];
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(ends).unwrap_or(rest.len());
        let length = match rest[end..].chars().next() {
            Some('\r') if rest[end..].starts_with("\r\n") => 2,
            character => character.map_or(0, char::len_utf8),
        };
        let (line, after) = rest.split_at(end + length);
        rest = after;
        Some((&line[..end], line))
    })
}

/// `value|int(default=0, base=10)`: a whole number, or the default for what is none.
fn int(value: &Value, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    let arguments = Arguments::new(&arguments, 2)?;
    let (default, base) = (arguments.get(0, "default")?, arguments.get(1, "base")?);
    arguments.names.assert_all_used()?;
    let base = if base.is_undefined() {
        10
    } else {
        u32::try_from(base)?
    };
    let whole = match value.kind() {
        ValueKind::Bool => Some(Value::from(i64::from(value.is_true()))),
        ValueKind::Number if value.is_integer() => Some(value.clone()),
        ValueKind::Number => f64::try_from(value.clone()).ok().and_then(truncated),
        ValueKind::String => whole_number(value.as_str().unwrap_or_default(), base)?,
        _ => None,
    };
    let default = if default.is_undefined() {
        Value::from(0)
    } else {
        default
    };
    Ok(whole.unwrap_or(default))
}

/// The whole number that a text writes in a base, or the whole part of the number that it writes in decimals.
fn whole_number(text: &str, base: u32) -> Result<Option<Value>, Error> {
    if !(2..=36).contains(&base) {
        return Err(invalid(format!(
            "int: expected a base of 2 to 36, got {base}"
        )));
    }
    let text = text.trim_matches(is_space);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let prefixes = match base {
        2 => ["0b", "0B"],
        8 => ["0o", "0O"],
        16 => ["0x", "0X"],
        _ => ["", ""],
    };
    let bare = prefixes
        .iter()
        .find_map(|prefix| digits.strip_prefix(*prefix));
    let digits = bare.unwrap_or(digits);
    let digits = if digits.starts_with(['+', '-']) {
        ""
    } else {
        digits
    };
    let number = i128::from_str_radix(&format!("{sign}{digits}"), base).ok();
    let number =
        number.map(|number| i64::try_from(number).map_or(Value::from(number), Value::from));
    Ok(number.or_else(|| decimal(text).and_then(truncated)))
}

/// The number without its fraction; none where it is too large.
fn truncated(number: f64) -> Option<Value> {
    let fits = number.is_finite() && number.abs() < 1e38;
    fits.then(|| {
        let whole = number as i128;
        i64::try_from(whole).map_or(Value::from(whole), Value::from)
    })
}

/// `value|float(default=0.0)`: a number, or the default for what is none.
fn float(value: &Value, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    let arguments = Arguments::new(&arguments, 1)?;
    let default = arguments.get(0, "default")?;
    arguments.names.assert_all_used()?;
    let number = match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        ValueKind::String => decimal(value.as_str().unwrap_or_default()),
        _ => None,
    };
    let default = if default.is_undefined() {
        Value::from(0.0)
    } else {
        default
    };
    Ok(number.map_or(default, Value::from))
}

/// The number that a text writes in decimals, with spaces around it.
fn decimal(text: &str) -> Option<f64> {
    text.trim_matches(is_space).parse().ok()
}

/// `value|default(default_value="", boolean=false)`: the value, or the default where it is undefined or, with `boolean`, false.
fn default(value: &Value, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    let arguments = Arguments::new(&arguments, 2)?;
    let (default, boolean) = (
        arguments.get(0, "default_value")?,
        arguments.get(1, "boolean")?,
    );
    arguments.names.assert_all_used()?;
    let stays = !value.is_undefined() && (value.is_true() || !boolean.is_true());
    let given = !arguments.places.is_empty() || arguments.names.has("default_value");
    Ok(match (stays, given) {
        (true, _) => value.clone(),
        (false, true) => default,
        (false, false) => Value::from(""),
    })
}

/// `value|escape`: the value's text with the characters that HTML reserves written as entities.
fn escape(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    let text = text(state, value)?;
    // Each character becomes five at most.
    state.consume_fuel(text.len() as u64 / 16)?;
    let text = text.replace('&', "&amp;").replace('>', "&gt;");
    let text = text.replace('<', "&lt;").replace('\'', "&#39;");
    Ok(Value::from_safe_string(text.replace('"', "&#34;")))
}

/// What a loop goes over: a list of a text's characters, and of items whose number is unknown, so that the loop knows its length.
fn each(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::None => Err(invalid("expected something to loop over, got none")),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            state.consume_fuel(text.chars().count() as u64 / 2)?;
            Ok(Value::from(
                text.chars().map(Value::from).collect::<Vec<_>>(),
            ))
        }
        ValueKind::Iterable if value.len().is_none() => {
            let mut items = Vec::new();
            for item in value.try_iter()?.checked() {
                state.consume_fuel(1)?;
                items.push(item?);
            }
            Ok(Value::from(items))
        }
        _ => Ok(value),
    }
}

/// The operator `%` after a text: the text with values in its places, `%s` and the like.
fn percent(state: &mut State<'_, '_>, format: Value, values: Value) -> Result<Value, Error> {
    let mut arguments = vec![format];
    if values.is_tuple() {
        arguments.extend(values.try_iter()?);
    } else if values.kind() == ValueKind::Map {
        let mut names = Vec::new();
        for key in values.try_iter()? {
            names.push((key.to_string(), values.get_item(&key)?));
        }
        arguments.push(names.into_iter().collect::<Kwargs>().into());
    } else {
        arguments.push(values);
    }
    state.apply_filter("format", &arguments)
}
