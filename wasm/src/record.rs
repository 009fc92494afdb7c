//! Plain JavaScript objects as results.

use burn::tensor::TensorData;
use js_sys::{Array, Float32Array, Object, Reflect, Uint32Array};
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

/// The f32s of one tensor of a read.
pub(crate) fn numbers(data: &[TensorData], at: usize) -> Float32Array {
    let values: Vec<f32> = data[at].iter().collect();
    Float32Array::from(values.as_slice())
}

/// The one number of a tensor of a read.
pub(crate) fn number(data: &[TensorData], at: usize) -> f64 {
    data[at].iter().next().unwrap_or(f64::NAN)
}

/// The counts of one tensor of a read.
pub(crate) fn counts(data: &[TensorData], at: usize) -> Uint32Array {
    let values: Vec<u32> = data[at].iter().collect();
    Uint32Array::from(values.as_slice())
}
