//! Between Burn's data on the host and buffers on a device.

use crate::machine::{Machine, RunError};
use crate::pjrt::Buffer;
use crate::record::element;
use crate::stablehlo::TensorType;
use burn_backend::{BoolStore, DType, Shape, TensorData};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

/// A buffer with these values on the machine's device, to call an [`Executable`](crate::Executable)
/// with.
///
/// # Errors
///
/// The plugin's, and [`RunError::Quantised`].
pub fn upload(machine: &Machine, data: &TensorData) -> Result<Arc<Buffer>, RunError> {
    let dtype = data.dtype();
    let element = element(dtype).ok_or_else(|| RunError::Quantised(format!("{dtype:?}")))?;
    let ty = TensorType::new(data.shape().to_vec(), element);
    let bytes = data.as_bytes();
    let buffer = match dtype {
        // A word each; a buffer has a byte.
        DType::Bool(BoolStore::U32) => {
            let words = bytes.chunks(4);
            let bytes: Vec<u8> = words.map(|word| u8::from(word != [0; 4])).collect();
            machine.upload(&ty, &bytes)
        }
        _ => machine.upload(&ty, bytes),
    };
    buffer.map(Arc::new)
}

/// The values of a buffer, as Burn's `dtype`.
pub(crate) fn read(buffer: &Buffer, dtype: DType) -> Result<TensorData, RunError> {
    let shape: Vec<usize> = buffer.dims().to_vec();
    let mut bytes = buffer.read()?;
    if dtype == DType::Bool(BoolStore::U32) {
        bytes = bytes
            .into_iter()
            .flat_map(|byte| u32::from(byte).to_le_bytes())
            .collect();
    }
    Ok(TensorData::from_bytes_vec(bytes, Shape::from(shape), dtype))
}

/// The state of a random number generator that starts with `seed`.
pub(crate) fn random_state(machine: &Machine, seed: u64) -> Result<Arc<Buffer>, RunError> {
    upload(machine, &TensorData::new(vec![seed, 0], [2]))
}

/// A number that can't be guessed outside the process: the standard library keys its hashes from the
/// system's generator.
pub(crate) fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}
