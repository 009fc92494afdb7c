//! What the layers of a pass take on a device.

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::decoder::Model;
use crate::error::Error;

/// What a layer takes in a forward pass that waits for the device behind each layer. Such a pass isn't one that is compared: a wait keeps a device
/// from compiling operations of two layers together, which may change its bits, and takes time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Index of the layer; `None` for the embedding, which comes before the layers, and for the head, which comes after them.
    pub layer: Option<usize>,
    /// Median of the seconds from the end of what came before until the device was done, of [`Cost::PASSES`] passes.
    pub seconds: f64,
    /// Bytes of live buffers on the device then, weights included; `None` where no allocator tells (`flex`, XLA).
    pub memory_bytes: Option<u64>,
}

impl Cost {
    /// Number of passes that are timed, after one for the compilation of kernels.
    pub const PASSES: usize = 3;

    /// What the embedding, each layer of `model` and the head take on `device` for the tokens `ids`, in this order. On XLA each is a program of
    /// its own then.
    ///
    /// # Errors
    /// As [`Computation::of`](super::Computation::of).
    pub fn of_layers(model: &Model, ids: &[u32], device: &Device) -> Result<Vec<Self>, Error> {
        Error::check(!ids.is_empty(), "tokens", "at least one", ids.len())?;
        let pass = || model.forward_waiting(model.tokens(ids, device)?);
        pass()?;
        let passes = (0..Self::PASSES).map(|_| pass());
        let passes = passes.collect::<Result<Vec<_>, _>>()?;
        let layers = model.spec().layers.len();
        let cost = |at: usize| {
            let mut seconds: Vec<f64> = passes.iter().map(|pass| pass[at].seconds).collect();
            seconds.sort_by(f64::total_cmp);
            Self {
                layer: at.checked_sub(1).filter(|layer| *layer < layers),
                seconds: seconds[Self::PASSES / 2],
                memory_bytes: passes[Self::PASSES - 1][at].memory_bytes,
            }
        };
        Ok((0..layers + 2).map(cost).collect())
    }
}
