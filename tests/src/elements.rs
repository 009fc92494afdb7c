//! Buffers of a kernel's element type, filled from f32 values and read back, and values of tensors.

use burn::tensor::Tensor;
use cubecl::client::Client;
use cubecl::prelude::*;
use cubecl::server::Handle;
use half::{bf16, f16};
use moebius_ops::Element;

use crate::data;
use crate::target::{download_f32, nans, upload_f32};

/// Rounds values to `element`.
pub fn rounded(values: Vec<f32>, element: Element) -> Vec<f32> {
    let values = values.into_iter();
    values.map(|value| data::rounded(value, element)).collect()
}

/// Uploads values, rounded to `element`; the buffer is never empty.
pub fn upload(client: &Client, values: &[f32], element: Element) -> Handle {
    let halves = |to_bits: fn(f32) -> u16| {
        let mut halves: Vec<u16> = values.iter().map(|v| to_bits(*v)).collect();
        halves.resize(halves.len().next_multiple_of(2).max(2), 0);
        client.create_from_slice(u16::as_bytes(&halves))
    };
    match element {
        Element::F32 if values.is_empty() => nans(client, 1),
        Element::F32 => upload_f32(client, values),
        Element::F16 => halves(|v| f16::from_f32(v).to_bits()),
        Element::Bf16 => halves(|v| bf16::from_f32(v).to_bits()),
    }
}

/// A buffer of `len` NaN: an output that the kernel must overwrite.
pub fn unwritten(client: &Client, len: usize, element: Element) -> Handle {
    upload(client, &vec![f32::NAN; len], element)
}

/// Reads the first `len` values of a buffer, after the device has finished.
pub fn download(client: &Client, buffer: Handle, len: usize, element: Element) -> Vec<f32> {
    if element == Element::F32 {
        return download_f32(client, buffer, len);
    }
    let bytes = client
        .read_one(buffer)
        .unwrap_or_else(|error| panic!("{error}"));
    let halves = u16::from_bytes(&bytes)[..len].iter();
    match element {
        Element::F16 => halves.map(|bits| f16::from_bits(*bits).to_f32()).collect(),
        _ => halves.map(|bits| bf16::from_bits(*bits).to_f32()).collect(),
    }
}

/// A tensor's values.
pub fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().convert::<f32>().iter::<f32>().collect()
}

/// The values as f64, for an oracle.
pub fn exact(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}
