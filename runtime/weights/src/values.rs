//! Values of safetensors files, read as f32.

use std::ops::Range;

use bytemuck::cast_slice_mut;
use safetensors::Dtype;

use crate::error::{WeightsError, data_length};
use crate::reader::Reader;
use crate::source::{CHUNK, TensorInfo};
use crate::widen::{FLOATS, float_size, to_memory, widen_to};

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
        let count = range.end.saturating_sub(range.start);
        self.float_part(name, range.start, count)?;
        let mut values: Vec<f32> = self.room(name, count)?;
        values.resize(count as usize, 0.0);
        self.read_f32_to(name, range.start, cast_slice_mut(&mut values))?;
        Ok(values)
    }

    /// Fills `out` with values like those of [`Self::read_f32_part`], from value `from` on: f32 as they lie in memory, of which `out` has a whole
    /// number. Several threads may fill parts of one vector at once.
    ///
    /// # Errors
    /// As [`Self::read_f32_part`].
    pub fn read_f32_to(&self, name: &str, from: u64, out: &mut [u8]) -> Result<(), WeightsError> {
        let (info, size, Range { start: mut at, end }) =
            self.float_part(name, from, out.len() as u64 / 4)?;
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

    /// A tensor of floats, the bytes of one, and those of `count` of them from element `from` on.
    fn float_part(
        &self,
        name: &str,
        from: u64,
        count: u64,
    ) -> Result<(&TensorInfo, u64, Range<u64>), WeightsError> {
        let info = self.info(name)?;
        let Some(size) = float_size(info.dtype) else {
            return Err(self.wrong(name, FLOATS, info.dtype));
        };
        let end = from.saturating_add(count);
        let [at, end] = [from, end].map(|value| value.saturating_mul(size));
        if end > info.bytes() {
            return Err(data_length(name, info.bytes(), end));
        }
        Ok((info, size, at..end))
    }
}
