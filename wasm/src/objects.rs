//! Plain JavaScript objects as arguments, whose properties are all checked and unknown ones refused, and as results.

use burn::tensor::TensorData;
use js_sys::{Array, Float32Array, Function, Object, Reflect, Uint8Array, Uint32Array};
use wasm_bindgen::{JsCast, JsValue};

use crate::failure::Failure;

/// An object of options, and the properties of it that have been read.
pub(crate) struct Options {
    /// Name of the object in errors.
    what: &'static str,
    object: Object,
    read: Vec<&'static str>,
}

impl Options {
    /// Options from an object, or from undefined or null for none.
    pub(crate) fn new(what: &'static str, value: JsValue) -> Result<Self, Failure> {
        let object = match given(value) {
            None => Object::new(),
            Some(value) if value.is_object() => value.unchecked_into(),
            Some(value) => return Err(Failure::expected(what, "an object", shown(&value))),
        };
        Ok(Self {
            what,
            object,
            read: Vec::new(),
        })
    }

    /// The value of a property; `None` if it is missing.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<JsValue> {
        self.read.push(key);
        given(Reflect::get(&self.object, &key.into()).ok()?)
    }

    /// The value of a property as `take` converts it; a value that `take` returns `None` for is refused.
    fn read<T>(
        &mut self,
        key: &'static str,
        expected: impl ToString,
        take: impl FnOnce(&JsValue) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let taken = take(&value).ok_or_else(|| self.refuse(key, expected, &value));
        taken.map(Some)
    }

    /// A property that is a whole number of at least `least`.
    pub(crate) fn count(
        &mut self,
        key: &'static str,
        least: u32,
    ) -> Result<Option<usize>, Failure> {
        let expected = format!("a whole number from {least}");
        self.read(key, expected, |value| whole_number(value, least))
    }

    /// A property that is a whole number of at least 1, or `default` if it is missing.
    pub(crate) fn count_or(&mut self, key: &'static str, default: usize) -> Result<usize, Failure> {
        Ok(self.count(key, 1)?.unwrap_or(default))
    }

    /// A required property that is a whole number of at least 1.
    pub(crate) fn size(&mut self, key: &'static str) -> Result<usize, Failure> {
        let missing = JsValue::UNDEFINED;
        self.count(key, 1)?
            .ok_or_else(|| self.refuse(key, "a whole number from 1", &missing))
    }

    /// Several properties, each read as by [`Options::size`].
    pub(crate) fn sizes<const N: usize>(
        &mut self,
        keys: [&'static str; N],
    ) -> Result<[usize; N], Failure> {
        let mut sizes = [0; N];
        for (size, key) in sizes.iter_mut().zip(keys) {
            *size = self.size(key)?;
        }
        Ok(sizes)
    }

    /// Several properties with defaults, each read as by [`Options::count_or`].
    pub(crate) fn counts_or<const N: usize>(
        &mut self,
        defaults: [(&'static str, usize); N],
    ) -> Result<[usize; N], Failure> {
        let mut counts = [0; N];
        for (count, (key, default)) in counts.iter_mut().zip(defaults) {
            *count = self.count_or(key, default)?;
        }
        Ok(counts)
    }

    /// A property that is a finite number.
    pub(crate) fn number(&mut self, key: &'static str) -> Result<Option<f64>, Failure> {
        let finite = |value: &JsValue| value.as_f64().filter(|number| number.is_finite());
        self.read(key, "a finite number", finite)
    }

    /// A property that is a string.
    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>, Failure> {
        self.read(key, "a text", JsValue::as_string)
    }

    /// A property that is a boolean.
    pub(crate) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, Failure> {
        self.read(key, "true or false", JsValue::as_bool)
    }

    /// A property that is one of the names in `choices`, as the value of that name; the first value if the property is
    /// missing.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<T, Failure> {
        let names: Vec<_> = choices
            .iter()
            .map(|(name, _)| format!("'{name}'"))
            .collect();
        let chosen = self.read(key, format!("one of {}", names.join(", ")), |value| {
            let given = value.as_string()?;
            let found = choices.iter().find(|(name, _)| *name == given);
            found.map(|(_, choice)| *choice)
        })?;
        Ok(chosen.unwrap_or(choices[0].1))
    }

    /// A property that is an array, as its items.
    pub(crate) fn list(&mut self, key: &'static str) -> Result<Option<Vec<JsValue>>, Failure> {
        self.read(key, "an array", |value| {
            value.dyn_ref().map(|array: &Array| array.to_vec())
        })
    }

    /// A property that is a function.
    pub(crate) fn function(&mut self, key: &'static str) -> Result<Option<Function>, Failure> {
        self.read(key, "a function", |value| value.dyn_ref().cloned())
    }

    /// A property that is a `Float32Array`, as its numbers.
    pub(crate) fn floats(&mut self, key: &'static str) -> Result<Option<Vec<f32>>, Failure> {
        self.value(key).map(|value| floats(key, &value)).transpose()
    }

    /// Refuses the object if it has a property that wasn't read.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let unread = Object::keys(&self.object)
            .iter()
            .filter_map(|key| key.as_string())
            .find(|key| !self.read.contains(&key.as_str()));
        match unread {
            Some(key) => {
                let what = format!("property of {}", self.what);
                Err(Failure::expected(&what, self.read.join(", "), key))
            }
            None => Ok(()),
        }
    }

    fn refuse(&self, key: &str, expected: impl ToString, got: &JsValue) -> Failure {
        Failure::expected(&format!("{} {key}", self.what), expected, shown(got))
    }
}

/// The value of an argument; `None` if it is undefined or null.
pub(crate) fn given(value: JsValue) -> Option<JsValue> {
    (!value.is_undefined() && !value.is_null()).then_some(value)
}

/// The value as a whole number of at least `least`; `None` if it isn't one.
pub(crate) fn whole_number(value: &JsValue, least: u32) -> Option<usize> {
    let range = f64::from(least)..=f64::from(u32::MAX);
    let fits = |n: &f64| n.fract() == 0.0 && range.contains(n);
    value.as_f64().filter(fits).map(|n| n as usize)
}

/// The numbers of a `Float32Array`; other values are refused.
pub(crate) fn floats(what: &str, value: &JsValue) -> Result<Vec<f32>, Failure> {
    let array = value.dyn_ref().map(Float32Array::to_vec);
    array.ok_or_else(|| Failure::expected(what, "a Float32Array", shown(value)))
}

/// The numbers of a `Uint32Array`; other values are refused.
pub(crate) fn whole(what: &str, value: &JsValue) -> Result<Vec<u32>, Failure> {
    let array = value.dyn_ref().map(Uint32Array::to_vec);
    array.ok_or_else(|| Failure::expected(what, "a Uint32Array", shown(value)))
}

/// The bytes of a `Uint8Array`; other values are refused.
pub(crate) fn bytes(what: &str, value: &JsValue) -> Result<Vec<u8>, Failure> {
    let array = value.dyn_ref().map(Uint8Array::to_vec);
    array.ok_or_else(|| Failure::expected(what, "a Uint8Array", shown(value)))
}

/// A short description of a value for an error.
fn shown(value: &JsValue) -> String {
    let text = match value.as_string() {
        Some(text) => format!("'{text}'"),
        None if value.as_f64().is_some() || value.as_bool().is_some() => format!("{value:?}"),
        None if value.is_null() => "null".to_owned(),
        None if Array::is_array(value) => "an array".to_owned(),
        None if value.is_object() => {
            let object: &Object = value.unchecked_ref();
            format!("a {}", String::from(object.constructor().name()))
        }
        None => value.js_typeof().as_string().unwrap_or_default(),
    };
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A JavaScript object under construction.
pub(crate) struct Record(Object);

impl Record {
    pub(crate) fn new() -> Self {
        Self(Object::new())
    }

    /// Adds a property.
    pub(crate) fn with(self, key: &str, value: impl Into<JsValue>) -> Self {
        // Setting a property of a new plain object can't fail.
        let _ = Reflect::set(&self.0, &key.into(), &value.into());
        self
    }
}

impl From<Record> for JsValue {
    fn from(record: Record) -> Self {
        record.0.into()
    }
}

/// A JavaScript array of the items.
pub(crate) fn list<T: Into<JsValue>>(items: impl IntoIterator<Item = T>) -> Array {
    items.into_iter().map(Into::into).collect()
}

/// The tensor `at` of those that were read, as f32s.
pub(crate) fn numbers(data: &[TensorData], at: usize) -> Float32Array {
    let values: Vec<f32> = data[at].iter().collect();
    Float32Array::from(values.as_slice())
}

/// The only number of the tensor `at` of those that were read.
pub(crate) fn number(data: &[TensorData], at: usize) -> f64 {
    data[at].iter().next().unwrap_or(f64::NAN)
}

/// The tensor `at` of those that were read, as counts.
pub(crate) fn counts(data: &[TensorData], at: usize) -> Uint32Array {
    let values: Vec<u32> = data[at].iter().collect();
    Uint32Array::from(values.as_slice())
}
