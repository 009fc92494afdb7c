//! Methods of Python's texts and lists, where the engine's library lacks them or has them in another way.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Kwargs, Object, ObjectRepr, Tuple, ValueKind, from_args};
use minijinja::{Error, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::filters::lines;
use super::python::{invalid, is_space};

/// A method of a dictionary that a template names and doesn't call.
#[derive(Debug)]
struct Method(String);

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<built-in method {} of dict object>", self.0)
    }
}

/// What a value has under the name of a dictionary's method: in Python the method counts before a key of a dictionary.
fn member(value: &Value, arguments: &[Value]) -> Result<Value, Error> {
    let (name,): (&str,) = from_args(arguments)?;
    // Namespaces and loops are maps to the engine, too, and have no such methods; only the names of types tell them apart.
    let object = value.as_object();
    if object.is_some_and(|object| object.type_name().contains("Map<")) {
        Ok(Value::from_object(Method(name.to_owned())))
    } else {
        value.get_attr(name)
    }
}

/// Calls the method `name` of a value.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    let found = match value.kind() {
        _ if name == "_member" => Some(member(value, arguments)?),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            of_text(state, text, name, arguments)?
        }
        ValueKind::Seq | ValueKind::Iterable if name == "index" => {
            let (item,): (&Value,) = from_args(arguments)?;
            let mut place = None;
            for (at, other) in value.try_iter()?.checked().enumerate() {
                state.consume_fuel(1)?;
                if other? == *item {
                    place = Some(at);
                    break;
                }
            }
            let place = place.ok_or_else(|| invalid("index: the list has no such item"))?;
            Some(Value::from(place))
        }
        ValueKind::Map if name == "copy" => {
            let () = from_args(arguments)?;
            Some(value.clone())
        }
        _ => None,
    };
    match found {
        Some(found) => Ok(found),
        None => unknown_method_callback(state, value, name, arguments),
    }
}

/// The result of a method of texts; none for those that the engine's library has.
fn of_text(
    state: &State<'_, '_>,
    text: &str,
    name: &str,
    arguments: &[Value],
) -> Result<Option<Value>, Error> {
    Ok(Some(match name {
        "strip" | "lstrip" | "rstrip" => {
            let (characters,): (Option<&str>,) = from_args(arguments)?;
            let is_stripped =
                |c: char| characters.map_or_else(|| is_space(c), |these| these.contains(c));
            Value::from(match name {
                "lstrip" => text.trim_start_matches(is_stripped),
                "rstrip" => text.trim_end_matches(is_stripped),
                _ => text.trim_matches(is_stripped),
            })
        }
        "split" | "rsplit" => {
            let (separator, most, names): (Option<Value>, Option<i64>, Kwargs) =
                from_args(arguments)?;
            let separator = separator.map_or_else(|| names.get("sep"), |given| Ok(Some(given)))?;
            let most = most.map_or_else(|| names.get("maxsplit"), |given| Ok(Some(given)))?;
            names.assert_all_used()?;
            let most = usize::try_from(most.unwrap_or(-1)).unwrap_or(usize::MAX);
            split(state, text, separator.as_ref(), most, name == "rsplit")?
        }
        "splitlines" => {
            let (keeps, names): (Option<bool>, Kwargs) = from_args(arguments)?;
            let keeps = keeps.map_or_else(|| names.get("keepends"), |given| Ok(Some(given)))?;
            names.assert_all_used()?;
            let keeps = keeps.unwrap_or(false);
            let lines = lines(text).map(|(line, whole)| if keeps { whole } else { line });
            list(state, lines)?
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(arguments)?;
            partition(text, separator, name == "rpartition")
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(arguments)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(arguments)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "title" => {
            let () = from_args(arguments)?;
            Value::from(title(text))
        }
        "format" => {
            pay_for_widths(state, text)?;
            return Ok(None);
        }
        _ => return Ok(None),
    }))
}

/// The parts before, at and after a separator, the first or the last one in a text; a text without one is the first part, or the last.
fn partition(text: &str, separator: &str, from_end: bool) -> Value {
    let found = if from_end {
        text.rfind(separator)
    } else {
        text.find(separator)
    };
    let parts = match found {
        Some(at) => [&text[..at], separator, &text[at + separator.len()..]],
        None if from_end => ["", "", text],
        None => [text, "", ""],
    };
    Value::from(Tuple::from(parts.map(Value::from)))
}

/// A list of texts, for which fuel is taken before it is made.
fn list<'a>(state: &State<'_, '_>, parts: impl Iterator<Item = &'a str>) -> Result<Value, Error> {
    let mut list = Vec::new();
    for part in parts {
        state.consume_fuel(1 + part.len() as u64 / 64)?;
        list.push(Value::from(part));
    }
    Ok(Value::from(list))
}

/// The parts of a text between separators, or between spaces without one, after at most `most` splits from the start or the end.
fn split(
    state: &State<'_, '_>,
    text: &str,
    separator: Option<&Value>,
    most: usize,
    from_end: bool,
) -> Result<Value, Error> {
    let most = most.saturating_add(1);
    let Some(separator) = separator else {
        state.consume_fuel(text.len() as u64 / 16)?;
        let parts = if from_end {
            last_words(text, most)
        } else {
            words(text, most)
        };
        return list(state, parts.into_iter());
    };
    let separator = separator.as_str().filter(|text| !text.is_empty());
    let separator =
        separator.ok_or_else(|| invalid("split: expected a separator that isn't empty"))?;
    if from_end {
        let mut parts: Vec<&str> = Vec::new();
        for part in text.rsplitn(most, separator) {
            state.consume_fuel(1)?;
            parts.push(part);
        }
        return list(state, parts.into_iter().rev());
    }
    list(state, text.splitn(most, separator))
}

/// The words of a text, of which the last has all that follows it; at most `most`.
fn words(text: &str, most: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let end = rest.find(is_space).filter(|_| words.len() + 1 < most);
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        words.push(word);
        rest = after.trim_start_matches(is_space);
    }
    words
}

/// The words of a text, of which the first has all that precedes it; at most `most`.
fn last_words(text: &str, most: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        let space = rest.char_indices().rev().find(|(_, c)| is_space(*c));
        let space = space.filter(|_| words.len() + 1 < most);
        let start = space.map_or(0, |(at, c)| at + c.len_utf8());
        let (before, word) = rest.split_at(start);
        words.push(word);
        rest = before.trim_end_matches(is_space);
    }
    words.reverse();
    words
}

/// The text with an upper-case letter after each character that isn't a letter, and lower-case ones otherwise.
fn title(text: &str) -> String {
    let mut titled = String::new();
    let mut within = false;
    for character in text.chars() {
        if within {
            titled.extend(character.to_lowercase());
        } else {
            titled.extend(character.to_uppercase());
        }
        within = character.is_lowercase() || character.is_uppercase();
    }
    titled
}

/// Takes the fuel that the widths in a format may need, which no other check bounds.
fn pay_for_widths(state: &State<'_, '_>, format: &str) -> Result<(), Error> {
    let numbers = format.split(|c: char| !c.is_ascii_digit());
    let numbers = numbers.filter(|digits| !digits.is_empty());
    let wide = |digits: &str| digits.parse().unwrap_or(u64::MAX);
    let bytes = numbers.map(wide).fold(0, u64::saturating_add);
    state.consume_fuel(bytes / 64)
}
