//! Values of safetensors files, read as f32.

use std::ops::Range;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use safetensors::Dtype;

use crate::error::{WeightsError, data_length};
use crate::reader::Reader;
use crate::source::CHUNK;

impl Reader {
    /// Reads the values of an F32, F16 or BF16 tensor, widened without loss, or of an F64 tensor, rounded.
    ///
    /// # Errors
    /// [`WeightsError::WrongTensor`] for another dtype, and the errors of [`Self::read`].
    pub fn read_f32(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let info = self.info(name)?;
        let elements = info.bytes() * 8 / info.dtype.bitsize() as u64;
        self.read_f32_part(name, 0..elements)
    }

    /// Reads the elements in `range` of a tensor, like [`Self::read_f32`].
    ///
    /// # Errors
    /// As [`Self::read_f32`], and [`WeightsError::DataLength`] when the tensor ends before the range.
    pub fn read_f32_part(&self, name: &str, range: Range<u64>) -> Result<Vec<f32>, WeightsError> {
        let info = self.info(name)?;
        let Some(size) = float_size(info.dtype) else {
            return Err(self.wrong(name, FLOATS, info.dtype));
        };
        let (mut at, end) = (
            range.start.saturating_mul(size),
            range.end.saturating_mul(size),
        );
        if end > info.bytes() {
            return Err(data_length(name, info.bytes(), end));
        }
        if let Some(values) = self.unpacked(name)? {
            self.count(name, at..end, info.bytes());
            return Ok(values[(at / size) as usize..(end / size) as usize].to_vec());
        }
        let mut values = self.room(name, end.saturating_sub(at) / size)?;
        let mut bytes = vec![0; CHUNK.min(end.saturating_sub(at) as usize)];
        while at < end {
            let part = (end - at).min(CHUNK as u64) as usize;
            self.read_part(name, at, &mut bytes[..part])?;
            widen(info.dtype, &bytes[..part], &mut values);
            at += part as u64;
        }
        Ok(values)
    }

    /// Fills `out` with values like those of [`Self::read_f32_part`], from value `from` on: f32 as they lie in memory, of which `out` has a whole
    /// number. Several threads may fill parts of one vector at once.
    ///
    /// # Errors
    /// As [`Self::read_f32_part`].
    pub fn read_f32_to(&self, name: &str, from: u64, out: &mut [u8]) -> Result<(), WeightsError> {
        let info = self.info(name)?;
        let Some(size) = float_size(info.dtype) else {
            return Err(self.wrong(name, FLOATS, info.dtype));
        };
        let end = from.saturating_add(out.len() as u64 / 4);
        let [mut at, end] = [from, end].map(|value| value.saturating_mul(size));
        if end > info.bytes() {
            return Err(data_length(name, info.bytes(), end));
        }
        if let Some(values) = self.unpacked(name)? {
            to_memory(values[from as usize..].iter().copied(), out);
            self.count(name, at..end, info.bytes());
            return Ok(());
        }
        if info.dtype == Dtype::F32 && cfg!(target_endian = "little") {
            return self.read_part(name, at, out);
        }
        let mut bytes = vec![0; CHUNK.min((end - at) as usize)];
        for out in out.chunks_mut(CHUNK / size as usize * 4) {
            let bytes = &mut bytes[..out.len() / 4 * size as usize];
            self.read_part(name, at, bytes)?;
            widen_to(info.dtype, bytes, out);
            at += bytes.len() as u64;
        }
        Ok(())
    }
}

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
fn widen_to(dtype: Dtype, bytes: &[u8], out: &mut [u8]) {
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
