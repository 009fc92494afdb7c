//! Named values: attributes that plugins, devices and executables report, and options that plugins take.

use std::ffi::c_char;
use std::fmt;

use crate::error::Error;
use crate::ffi;

/// A named value that a plugin reports or takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// An integer.
    Int(i64),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A floating-point number.
    Float(f32),
    /// A boolean.
    Bool(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Int(int) => int.fmt(f),
            Self::Ints(ints) => write!(f, "{ints:?}"),
            Self::Float(float) => float.fmt(f),
            Self::Bool(truth) => truth.fmt(f),
        }
    }
}

macro_rules! values {
    ($($kind:ident: $type:ty)*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$kind(value.into())
            }
        }
    )*};
}

values! { Text: &str  Int: i64  Ints: Vec<i64>  Float: f32  Bool: bool }

const TEXT: i32 = 0;
const INT: i32 = 1;
const INTS: i32 = 2;
const FLOAT: i32 = 3;
const BOOL: i32 = 4;

/// Copies a plugin's text to a string; null gives the empty string.
///
/// # Safety
///
/// `text` is null or points to `size` bytes that live as long as this call.
pub(crate) unsafe fn text(text: *const c_char, size: usize) -> String {
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice(text.cast::<u8>(), size) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Borrows a plugin's list as a slice; null gives the empty slice.
///
/// # Safety
///
/// `items` is null or points to `count` values that live and do not change as long as the slice is used.
pub(crate) unsafe fn slice<'a, T>(items: *const T, count: usize) -> &'a [T] {
    if items.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise, and null is excluded.
    unsafe { std::slice::from_raw_parts(items, count) }
}

/// Reads a plugin's list of named values; kinds of values that API 0.116 does not have are left out.
///
/// # Safety
///
/// `items` is null or points to `count` named values that live as long as this call.
pub(crate) unsafe fn read(items: *const ffi::NamedValue, count: usize) -> Vec<(String, Value)> {
    // SAFETY: the caller's promise.
    let items = unsafe { slice(items, count) };
    let read = items.iter().filter_map(|item| {
        // SAFETY: `kind` says which field of the union is set, and `value_size` how long a list or text is.
        let value = unsafe {
            match item.kind {
                TEXT => Value::Text(text(item.value.text, item.value_size)),
                INT => Value::Int(item.value.int),
                INTS => Value::Ints(slice(item.value.ints, item.value_size).to_vec()),
                FLOAT => Value::Float(item.value.float),
                BOOL => Value::Bool(item.value.truth),
                _ => return None,
            }
        };
        // SAFETY: the name's length is beside it.
        Some((unsafe { text(item.name, item.name_size) }, value))
    });
    read.collect()
}

/// The records that pass `options` to a plugin; they point into `options`.
pub(crate) fn write(options: &[(&str, Value)]) -> Result<Vec<ffi::NamedValue>, Error> {
    let mut seen = std::collections::BTreeSet::new();
    let record = |(name, value): &(&str, Value)| {
        let refuse = |reason| Err(Error::ClientOption(format!("{name:?}: {reason}")));
        if name.is_empty() {
            return refuse("an option needs a name");
        }
        if !seen.insert((*name).to_owned()) {
            return refuse("given twice");
        }
        let mut record = ffi::NamedValue::new();
        record.name = name.as_ptr().cast();
        record.name_size = name.len();
        (record.kind, record.value, record.value_size) = match value {
            Value::Text(text) => {
                let value = ffi::NamedPayload {
                    text: text.as_ptr().cast(),
                };
                (TEXT, value, text.len())
            }
            Value::Int(int) => (INT, ffi::NamedPayload { int: *int }, 1),
            Value::Ints(ints) => {
                let value = ffi::NamedPayload {
                    ints: ints.as_ptr(),
                };
                (INTS, value, ints.len())
            }
            Value::Float(float) => (FLOAT, ffi::NamedPayload { float: *float }, 1),
            Value::Bool(truth) => (BOOL, ffi::NamedPayload { truth: *truth }, 1),
        };
        Ok(record)
    };
    options.iter().map(record).collect()
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
