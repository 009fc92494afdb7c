//! Sigmoid scores, balanced by a bias in place of a loss (DeepSeek-V3).

use super::{
    Batch, Bool, DType, Device, Error, Int, Like, Mismatch, Module, Param, Routed, Routes,
    RunningState, SigmoidBiasConfig, Sizes, Tensor, cast_param, check_mask, check_state, choose,
    constant, matrix, router_logits, set, value,
};
use crate::moe::running::total;
use burn::tensor::FloatDType;

/// Chooses by σ(x · Wg_e) + b_e, optionally within the best groups; weights come from the scores
/// alone. After every training forward b_e moves by `rate` towards an even load.
#[derive(Module, Debug)]
pub struct SigmoidBiasRouter {
    /// Wg \[E,H\].
    pub weight: Param<Tensor<2>>,
    /// b \[E\], at first 0.
    pub bias: RunningState<Tensor<1>>,
    #[module(skip)]
    pub(super) config: SigmoidBiasConfig,
    #[module(skip)]
    pub(super) sizes: Sizes,
}

impl SigmoidBiasRouter {
    pub(super) fn new(config: SigmoidBiasConfig, sizes: Sizes, device: &Device) -> Self {
        Self {
            weight: matrix(sizes, device),
            bias: constant(0.0, sizes.experts, device),
            config,
            sizes,
        }
    }

    /// b_e += rate · sign(mean load − load_e): once more by a load \[E\] that the caller measured,
    /// for example over all devices. Masked experts keep their bias and don't count in the mean.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a load or a mask of another length.
    pub fn update_bias(
        &self,
        load: Tensor<1, Int>,
        expert_mask: Option<Tensor<1, Bool>>,
    ) -> Result<(), Error> {
        Mismatch::check("load", self.sizes.experts, load.dims()[0])?;
        let bias = value(&self.bias);
        check_mask(expert_mask.as_ref(), self.sizes.experts, &bias.device())?;
        let load = load.cast(FloatDType::F32);
        let available = match expert_mask {
            Some(mask) => mask.int().cast(FloatDType::F32),
            None => load.ones_like(),
        };
        let sum = |x: &Tensor<1>| total(x.clone().unsqueeze());
        // Whether load < mean, without a quotient: WGSL lets 28 / 7 be less than 4.
        let (all, count) = (sum(&load), sum(&available));
        let step = (all - load * count).sign() * available * self.config.rate;
        set(&self.bias, bias + step);
        Ok(())
    }
}

impl Routes for SigmoidBiasRouter {
    fn route(&self, batch: Batch) -> Result<Routed, Error> {
        let training = batch.training();
        let logits = router_logits(batch.x, self.weight.val())?;
        let bias = value(&self.bias);
        let routing = choose(logits, batch.mask.clone(), Some(bias), &self.config.route)?;
        if training {
            self.update_bias(routing.load()?, batch.mask)?;
        }
        Ok(routing.into())
    }

    fn check(&self, like: &Like) -> Result<(), Mismatch> {
        let experts = self.sizes.experts;
        check_state("bias of the router [E]", &self.bias, experts, &like.device)
    }

    fn cast(self, dtype: DType) -> Self {
        Self {
            weight: cast_param(self.weight, dtype),
            ..self
        }
    }
}
