//! Between Burn's data on the host and buffers on a device.

use crate::lower::value_type;
use crate::machine::{Machine, RunError};
use burn_backend::{BoolStore, DType, Shape, TensorData};
use moebius_pjrt::Buffer;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

/// A buffer with these values on the machine's device, to call a
/// [`CompiledFunction`](crate::CompiledFunction) with.
///
/// # Errors
///
/// The plugin's, and [`LowerError::Quantised`](crate::lower::LowerError::Quantised).
pub fn upload(machine: &Machine, data: &TensorData) -> Result<Arc<Buffer>, RunError> {
    let ty = value_type(data.shape(), data.dtype())?;
    let bytes = data.as_bytes();
    let device = machine.device();
    let buffer = match data.dtype() {
        // A word each; a buffer has a byte.
        DType::Bool(BoolStore::U32) => {
            let words = bytes.chunks(4);
            let bytes: Vec<u8> = words.map(|word| u8::from(word != [0; 4])).collect();
            Buffer::from_host(device, &ty, &bytes)?
        }
        _ => Buffer::from_host(device, &ty, bytes)?,
    };
    Ok(Arc::new(buffer))
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
