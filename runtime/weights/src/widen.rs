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

/// Fills `out` with the values of `bytes`, which must be as many elements, as they lie in memory.
pub(crate) fn widen_to(dtype: Dtype, bytes: &[u8], out: &mut [u8]) {
    match dtype {
        Dtype::F16 => {
            let mut wide = [0.0; MANY];
            for (bytes, out) in bytes.chunks(2 * MANY).zip(out.chunks_mut(4 * MANY)) {
                halves(bytes, &mut wide[..out.len() / 4]);
                to_memory(wide.into_iter(), out);
            }
        }
        Dtype::BF16 => {
            let pairs = bytes.as_chunks::<2>().0.iter();
            to_memory(pairs.map(|&pair| bf16::from_le_bytes(pair).to_f32()), out);
        }
        Dtype::F64 => {
            let eights = bytes.as_chunks::<8>().0.iter();
            to_memory(eights.map(|&eight| f64::from_le_bytes(eight) as f32), out);
        }
        _ => {
            let fours = bytes.as_chunks::<4>().0.iter();
            to_memory(fours.map(|&four| f32::from_le_bytes(four)), out);
        }
    }
}

/// F16 values that are widened at a time.
const MANY: usize = 256;

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

/// Appends the values of `bytes`, which must be whole elements.
pub(crate) fn widen(dtype: Dtype, bytes: &[u8], values: &mut Vec<f32>) {
    match dtype {
        Dtype::F16 => {
            let pairs = bytes.as_chunks::<2>().0.iter();
            values.extend(pairs.map(|&pair| f16::from_le_bytes(pair).to_f32()));
        }
        Dtype::BF16 => {
            let pairs = bytes.as_chunks::<2>().0.iter();
            values.extend(pairs.map(|&pair| bf16::from_le_bytes(pair).to_f32()));
        }
        Dtype::F64 => {
            let eights = bytes.as_chunks::<8>().0.iter();
            values.extend(eights.map(|&eight| f64::from_le_bytes(eight) as f32));
        }
        _ => {
            let fours = bytes.as_chunks::<4>().0.iter();
            values.extend(fours.map(|&four| f32::from_le_bytes(four)));
        }
    }
}
