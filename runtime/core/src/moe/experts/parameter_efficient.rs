//! Parameter-efficient experts: one frozen network, and a few trained weights per expert.

use super::{
    Adapted, DType, Device, Error, FeedForwardExperts, Like, Mismatch, Module, MoeConfig, Param,
    Slots, Tensor, activate, apply, bias_of, cast_all, dropped, stacked,
};
use crate::fp8::known_container;
use crate::nn;
use crate::ops::Assignment;
use crate::parameters::zeros;

/// Experts that share the frozen network f(x) = W_out · act(W_in · x + b_in) + b_out and differ in
/// a [`LoraWeights`] or an [`AdapterWeights`]. At first every expert is f.
///
/// Products that don't depend on the expert are computed once per token, not once per slot.
#[derive(Module, Debug)]
pub struct ParameterEfficientExperts {
    /// The weights of the one frozen network; no optimizer changes them.
    pub frozen: FeedForwardExperts,
    /// The trained weights of each expert.
    pub adaptation: Adaptation,
}

known_container!(ParameterEfficientExperts, FROZEN_EXPERTS);

/// The trained weights that each expert adds to the frozen network.
#[derive(Module, Debug)]
pub enum Adaptation {
    /// Low-rank changes of both products.
    Lora(LoraWeights),
    /// A small network after the frozen one.
    Adapter(AdapterWeights),
}

/// Low-rank weights that change both products: W_in + B_in · A_in and W_out + B_out · A_out, of rank r.
#[derive(Module, Debug)]
pub struct LoraWeights {
    /// A_in \[E,r,H\].
    pub down_in: Param<Tensor<3>>,
    /// B_in \[E, F or 2F, r\], at first 0.
    pub up_in: Param<Tensor<3>>,
    /// A_out \[E,r,F\].
    pub down_out: Param<Tensor<3>>,
    /// B_out \[E,H,r\], at first 0.
    pub up_out: Param<Tensor<3>>,
}

/// Weights of an adapter of width r: f(x) + U · act(D · f(x)).
#[derive(Module, Debug)]
pub struct AdapterWeights {
    /// D \[E,r,H\].
    pub down: Param<Tensor<3>>,
    /// U \[E,H,r\], at first 0.
    pub up: Param<Tensor<3>>,
}

impl ParameterEfficientExperts {
    pub(super) fn new(config: &MoeConfig, (form, rank): (Adapted, usize), device: &Device) -> Self {
        let (e, h, f, columns) = config.sizes();
        let zeros = |shape: [usize; 3]| zeros(shape, device);
        let adaptation = match form {
            Adapted::Lora => Adaptation::Lora(LoraWeights {
                down_in: stacked([e, rank, h], device),
                up_in: zeros([e, columns, rank]),
                down_out: stacked([e, rank, f], device),
                up_out: zeros([e, h, rank]),
            }),
            Adapted::Adapter => Adaptation::Adapter(AdapterWeights {
                down: stacked([e, rank, h], device),
                up: zeros([e, h, rank]),
            }),
        };
        Self {
            frozen: FeedForwardExperts::new(config, 1, device).no_grad(),
            adaptation,
        }
    }

    pub(in crate::moe) fn forward(
        &self,
        assignment: &Assignment,
        slots: Slots,
        config: &MoeConfig,
    ) -> Result<Tensor<2>, Error> {
        match &self.adaptation {
            Adaptation::Lora(lora) => self.with_lora(lora, assignment, slots, config),
            Adaptation::Adapter(adapter) => {
                let common = self.frozen.forward_all(slots.x, None, config, None)?;
                let rows = assignment.gather(common)?;
                let small = assignment.linear(rows.clone(), adapter.down.val(), None)?;
                let small = apply(small, config.activation);
                let small = dropped(small, config.activation_dropout);
                let rows = rows + assignment.linear(small, adapter.up.val(), None)?;
                assignment.combine(rows, Some(slots.weights))
            }
        }
    }

    fn with_lora(
        &self,
        lora: &LoraWeights,
        slots_of: &Assignment,
        slots: Slots,
        config: &MoeConfig,
    ) -> Result<Tensor<2>, Error> {
        let change = |rows: Tensor<2>, down: &Param<Tensor<3>>, up: &Param<Tensor<3>>, bias| {
            let small = slots_of.linear(rows, down.val(), None)?;
            slots_of.linear(small, up.val(), bias)
        };
        let b_in = bias_of(&self.frozen.b_in).map(|bias| bias.squeeze_dim(0));
        let w_in = self.frozen.w_in.float()?.squeeze_dim(0);
        let common = nn::linear(slots.x.clone(), w_in, b_in)?;
        let rows = slots_of.gather(slots.x)?;
        let own = change(rows, &lora.down_in, &lora.up_in, None)?;
        let hidden = activate(slots_of.gather(common)? + own, config);
        // The frozen product is linear, so it is applied once to the weighted sum of a token's slots; its bias counts once per slot, so it
        // is added in the slots' own products.
        let b_out = bias_of(&self.frozen.b_out);
        let b_out = b_out.map(|bias| bias.expand([config.experts, config.hidden]));
        let own = change(hidden.clone(), &lora.down_out, &lora.up_out, b_out)?;
        let own = slots_of.combine(own, Some(slots.weights.clone()))?;
        let common = slots_of.combine(hidden, Some(slots.weights))?;
        let w_out = self.frozen.w_out.float()?.squeeze_dim(0);
        Ok(nn::linear(common, w_out, None)? + own)
    }

    pub(super) fn check(&self, like: &Like, config: &MoeConfig) -> Result<(), Mismatch> {
        let (e, h, f, columns) = config.sizes();
        self.frozen.check(like, config, 1)?;
        match &self.adaptation {
            Adaptation::Lora(lora) => {
                let rank = lora.down_in.dims()[1];
                like.check("down_in [E,r,H]", &lora.down_in, [e, rank, h])?;
                like.check("up_in [E, F or 2F, r]", &lora.up_in, [e, columns, rank])?;
                like.check("down_out [E,r,F]", &lora.down_out, [e, rank, f])?;
                like.check("up_out [E,H,r]", &lora.up_out, [e, h, rank])
            }
            Adaptation::Adapter(adapter) => {
                let rank = adapter.down.dims()[1];
                like.check("down [E,r,H]", &adapter.down, [e, rank, h])?;
                like.check("up [E,H,r]", &adapter.up, [e, h, rank])
            }
        }
    }

    pub(super) fn cast(self, dtype: DType) -> Self {
        Self {
            frozen: self.frozen.cast(dtype),
            adaptation: cast_all(self.adaptation, dtype),
        }
    }
}
