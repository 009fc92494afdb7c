//! Numbers of other dtypes as f32.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use safetensors::Dtype;

/// Dtypes whose values are read as f32, for an error.
pub(crate) const FLOATS: &str = "F64, F32, F16 or BF16";

/// Bytes of an element of a dtype that is read as f32; `None` for other dtypes.
pub(crate) fn float_size(dtype: Dtype) -> Option<u64> {
    match dtype {
        Dtype::F64 => Some(8),
        Dtype::F32 => Some(4),
        Dtype::F16 | Dtype::BF16 => Some(2),
        _ => None,
    }
}

/// Fills `out` with values as they lie in memory.
pub(crate) fn to_memory(values: impl Iterator<Item = f32>, out: &mut [u8]) {
    for (out, value) in out.as_chunks_mut::<4>().0.iter_mut().zip(values) {
        *out = value.to_ne_bytes();
    }
}

/// Values that are widened at a time.
const MANY: usize = 256;

/// Fills `out` with the values of `bytes`, which must be as many elements, as they lie in memory.
pub(crate) fn widen_to(dtype: Dtype, bytes: &[u8], out: &mut [u8]) {
    let mut wide = [0.0; MANY];
    let size = float_size(dtype).map_or(4, |size| size as usize);
    for (bytes, out) in bytes.chunks(size * MANY).zip(out.chunks_mut(4 * MANY)) {
        let wide = &mut wide[..out.len() / 4];
        fill(dtype, bytes, wide);
        to_memory(wide.iter().copied(), out);
    }
}

/// Appends the values of `bytes`, which must be whole elements.
pub(crate) fn widen(dtype: Dtype, bytes: &[u8], values: &mut Vec<f32>) {
    let size = float_size(dtype).map_or(4, |size| size as usize);
    let before = values.len();
    values.resize(before + bytes.len() / size, 0.0);
    fill(dtype, bytes, &mut values[before..]);
}

/// Fills `out` with the values of `bytes`, which must be as many elements.
fn fill(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::F16 => halves(bytes, out),
        Dtype::BF16 => {
            for (out, pair) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *out = bf16::from_le_bytes(*pair).to_f32();
            }
        }
        Dtype::F64 => {
            for (out, eight) in out.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *out = f64::from_le_bytes(*eight) as f32;
            }
        }
        _ => {
            for (out, four) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *out = f32::from_le_bytes(*four);
            }
        }
    }
}

/// Decodes many F16 values at a time, for which the crate `half` uses vector instructions.
pub(crate) fn halves(bytes: &[u8], out: &mut [f32]) {
    let mut wide = [f16::ZERO; MANY];
    for (bytes, out) in bytes.chunks(2 * MANY).zip(out.chunks_mut(MANY)) {
        for (pair, wide) in bytes.as_chunks::<2>().0.iter().zip(&mut wide) {
            *wide = f16::from_le_bytes(*pair);
        }
        wide[..out.len()].convert_to_f32_slice(out);
    }
}
