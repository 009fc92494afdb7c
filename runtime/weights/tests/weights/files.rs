//! Builds files for tests byte by byte, so that they can be invalid.

use std::fs;
use std::path::Path;

use moebius_weights::Dtype;
use serde_json::{Map, Value, json};

/// A file with this header and this data.
pub(crate) fn raw(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// A tensor: name, dtype, shape and bytes.
pub(crate) type Tensor = (&'static str, Dtype, Vec<usize>, Vec<u8>);

/// A valid file with these tensors.
pub(crate) fn file(tensors: &[Tensor]) -> Vec<u8> {
    file_with(tensors, &[])
}

/// A valid file with these tensors and free-text metadata.
pub(crate) fn file_with(tensors: &[Tensor], metadata: &[(&str, &str)]) -> Vec<u8> {
    let mut header = Map::new();
    if !metadata.is_empty() {
        let text = metadata
            .iter()
            .map(|(key, text)| (key.to_string(), json!(text)));
        header.insert("__metadata__".to_owned(), Value::Object(text.collect()));
    }
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets });
        header.insert((*name).to_owned(), entry);
        data.extend_from_slice(bytes);
    }
    raw(&Value::Object(header).to_string(), &data)
}

/// An f32 tensor.
pub(crate) fn f32s(name: &'static str, shape: &[usize], values: &[f32]) -> Tensor {
    let bytes = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    (name, Dtype::F32, shape.to_vec(), bytes)
}

/// A tensor of one-byte elements, all `fill`.
pub(crate) fn bytes(name: &'static str, dtype: Dtype, shape: &[usize], fill: u8) -> Tensor {
    let count = shape.iter().product();
    (name, dtype, shape.to_vec(), vec![fill; count])
}

pub(crate) fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    fs::write(folder.join(name), bytes).unwrap();
}

/// Pseudo-random numbers in 0..1, the same for the same seed.
pub(crate) fn uniform(seed: u32) -> impl Iterator<Item = f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / 16_777_216.0
    })
}

/// Values of both signs and many magnitudes.
pub(crate) fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut from = uniform(seed).map(|value| 2.0 * value - 1.0);
    let mut next = || from.next().unwrap_or(0.0);
    (0..count).map(|_| next() * (4.0 * next()).exp()).collect()
}

/// The sorted names of the entries of a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
