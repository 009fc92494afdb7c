//! Plain JavaScript objects as results.

use js_sys::{Array, Object, Reflect};
use wasm_bindgen::JsValue;

/// An object that takes its properties one by one.
pub(crate) struct Record(Object);

impl Record {
    pub(crate) fn new() -> Self {
        Self(Object::new())
    }

    /// With one more property.
    pub(crate) fn with(self, key: &str, value: impl Into<JsValue>) -> Self {
        // The object is ours and new: it refuses nothing.
        let _ = Reflect::set(&self.0, &key.into(), &value.into());
        self
    }
}

impl From<Record> for JsValue {
    fn from(record: Record) -> Self {
        record.0.into()
    }
}

/// An array.
pub(crate) fn list<T: Into<JsValue>>(items: impl IntoIterator<Item = T>) -> Array {
    items.into_iter().map(Into::into).collect()
}
