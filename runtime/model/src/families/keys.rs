//! Reads a `config.json` key by key, and collects everything that is wrong with it in one error.

use moebius_weights::{Unfit, quoted};
use serde_json::{Map, Value};

/// Upper bound of a size: larger than any extent of a model, and small enough that products of a few fit 64 bits.
pub(super) const MAX_SIZE: u64 = 1 << 24;

/// The keys of a configuration, or of an object in it.
pub(super) struct Keys<'a> {
    entries: &'a Map<String, Value>,
    /// Path of the object, which errors put before the name of a key.
    place: String,
    /// Values that are missing or of the wrong kind, which leaves sizes of the model unknown.
    pub(super) wrong: Vec<Unfit>,
    /// Settings that are understood but that the decoder doesn't support.
    pub(super) unsupported: Vec<Unfit>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(entries: &'a Map<String, Value>) -> Self {
        Self {
            entries,
            place: String::new(),
            wrong: Vec::new(),
            unsupported: Vec::new(),
        }
    }

    /// The keys of the object `name` in the configuration. Their faults are collected separately, until [`Self::join`] adds them to those
    /// of the whole.
    pub(super) fn within(&self, name: &str, entries: &'a Map<String, Value>) -> Self {
        Self {
            place: format!("{}{name}.", self.place),
            ..Self::new(entries)
        }
    }

    pub(super) fn join(&mut self, inner: Keys<'_>) {
        self.wrong.extend(inner.wrong);
        self.unsupported.extend(inner.unsupported);
    }

    /// The value of a key, if the key is there and not null.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.entries.get(name).filter(|value| !value.is_null())
    }

    /// Whether a key is there and null.
    pub(super) fn is_null(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(Value::is_null)
    }

    /// The object that describes rotary positions, and its name. As in transformers 5, `rope_scaling` (of transformers 4, where θ was a
    /// separate key) comes before `rope_parameters`, unless it is empty.
    pub(super) fn rotation(&self) -> Option<(&'static str, &'a Map<String, Value>)> {
        let object = |name: &'static str| Some((name, self.get(name)?.as_object()?));
        let older = object("rope_scaling").filter(|(_, entries)| !entries.is_empty());
        older.or_else(|| object("rope_parameters"))
    }

    /// Refuses a value that is neither an object nor null.
    pub(super) fn only_object(&mut self, name: &str) {
        if let Some(value) = self.get(name).filter(|value| !value.is_object()) {
            self.refuse(name, "an object", value);
        }
    }

    fn refuse(&mut self, name: &str, expected: &str, got: &Value) {
        let what = format!("{}{name}", self.place);
        let got = quoted(&got.to_string());
        self.wrong.push(Unfit::new(what, expected, got));
    }

    /// Notes that the decoder doesn't support what a key asks for.
    pub(super) fn lack(&mut self, name: &str, expected: &str, got: impl ToString) {
        let what = format!("{}{name}", self.place);
        let got = quoted(&got.to_string());
        self.unsupported.push(Unfit::new(what, expected, got));
    }

    /// Refuses any value of `name` but `supported`; a missing value is accepted, too.
    pub(super) fn only(&mut self, name: &str, supported: &str) {
        match self.get(name) {
            Some(value) if value.as_str() != Some(supported) => {
                self.lack(name, &quoted(supported), value);
            }
            _ => {}
        }
    }

    pub(super) fn optional_size(&mut self, name: &str) -> Option<usize> {
        let value = self.get(name)?;
        match value.as_u64() {
            Some(size) if size <= MAX_SIZE => Some(size as usize),
            _ => {
                self.refuse(name, "a whole number up to 2^24", value);
                None
            }
        }
    }

    pub(super) fn size_or(&mut self, name: &str, default: usize) -> usize {
        self.optional_size(name).unwrap_or(default)
    }

    /// A size of at least 1, under the first of the names that is there.
    pub(super) fn size(&mut self, names: &[&str]) -> usize {
        let found = names.iter().find(|name| self.get(name).is_some());
        let name = found.or(names.first()).copied().unwrap_or_default();
        match self.get(name) {
            None => self.refuse(name, "a whole number", &Value::Null),
            Some(zero) if zero.as_u64() == Some(0) => self.refuse(name, "at least 1", zero),
            Some(_) => return self.size_or(name, 1),
        }
        1
    }

    pub(super) fn optional_number(&mut self, name: &str) -> Option<f64> {
        let value = self.get(name)?;
        let number = value.as_f64().filter(|number| number.is_finite());
        if number.is_none() {
            self.refuse(name, "a number", value);
        }
        number
    }

    pub(super) fn number_or(&mut self, name: &str, default: f64) -> f64 {
        self.optional_number(name).unwrap_or(default)
    }

    /// A number above 0, such as a divisor or the argument of a logarithm.
    pub(super) fn positive_or(&mut self, name: &str, default: f64) -> f64 {
        let number = self.number_or(name, default);
        if number > 0.0 {
            return number;
        }
        self.refuse(name, "a positive number", &Value::from(number));
        default
    }

    /// A number above 0 that can't be left out.
    pub(super) fn positive(&mut self, name: &str) -> f64 {
        if self.get(name).is_none() {
            self.refuse(name, "a positive number", &Value::Null);
        }
        self.positive_or(name, 1.0)
    }

    /// A flag; `default` where the key is left out. A flag that is null is false, as in transformers.
    pub(super) fn flag_or(&mut self, name: &str, default: bool) -> bool {
        match self.entries.get(name) {
            None => default,
            Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(value) => {
                self.refuse(name, "true or false", value);
                default
            }
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Option<&'a str> {
        let value = self.get(name)?;
        if value.as_str().is_none() {
            self.refuse(name, "a text", value);
        }
        value.as_str()
    }

    /// The integers of a list; empty if there is no list.
    pub(super) fn sizes(&mut self, name: &str) -> Vec<usize> {
        let Some(value) = self.get(name) else {
            return Vec::new();
        };
        let numbers = value.as_array().map(|list| {
            let number = |value: &Value| value.as_u64().map(|number| number as usize);
            list.iter().map(number).collect::<Option<Vec<_>>>()
        });
        numbers.flatten().unwrap_or_else(|| {
            self.refuse(name, "a list of whole numbers", value);
            Vec::new()
        })
    }

    /// The texts of a list of length `count`; `None` where there is no list.
    pub(super) fn texts(&mut self, name: &str, count: usize) -> Option<Vec<&'a str>> {
        let value = self.get(name)?;
        let texts = value.as_array();
        let texts = texts.map(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let texts = texts.flatten().filter(|texts| texts.len() == count);
        if texts.is_none() {
            self.refuse(name, &format!("a list of {count} texts"), value);
        }
        texts
    }

    /// The `count` numbers above 0 of a list, such as divisors.
    pub(super) fn positive_numbers(&mut self, name: &str, count: usize) -> Vec<f32> {
        static NONE: Value = Value::Null;
        let value = self.get(name).unwrap_or(&NONE);
        let number = |value: &Value| {
            let number = value.as_f64()? as f32;
            (number.is_finite() && number > 0.0).then_some(number)
        };
        let numbers = value.as_array().filter(|list| list.len() == count);
        let numbers = numbers.map(|list| list.iter().map(number).collect::<Option<Vec<_>>>());
        numbers.flatten().unwrap_or_else(|| {
            self.refuse(name, &format!("a list of {count} positive numbers"), value);
            Vec::new()
        })
    }
}
