//! Weights of a layer drawn on the host, so that all devices start from the same bits.

use burn::tensor::Device;
use moebius::moe::{MoeConfig, MoeWeights};

use crate::random::{Random, bound};

/// Weights uniform in ±1/√`fan_in` for a layer of `config`, from `seed`.
///
/// A router that learns no matrix has no use for the one that is drawn.
pub fn moe_weights(config: &MoeConfig, seed: u64, device: &Device) -> MoeWeights {
    Random::new(&[seed]).moe_weights(config, device)
}

impl Random {
    /// The next weights of a layer.
    pub(crate) fn moe_weights(&mut self, config: &MoeConfig, device: &Device) -> MoeWeights {
        let (h, f, e) = (config.hidden, config.inter, config.experts);
        let columns = if config.gated { 2 * f } else { f };
        let (narrow, wide) = (bound(h), bound(f));
        let mut weights = MoeWeights {
            router: self.parameter([e, h], narrow, device).val(),
            w_in: self.parameter([e, columns, h], narrow, device).val(),
            b_in: None,
            w_out: self.parameter([e, h, f], wide, device).val(),
            b_out: None,
        };
        if config.bias {
            weights.b_in = Some(self.parameter([e, columns], narrow, device).val());
            weights.b_out = Some(self.parameter([e, h], wide, device).val());
        }
        weights
    }
}
