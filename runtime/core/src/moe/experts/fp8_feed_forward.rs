//! Feed-forward experts that train in FP8.

use super::{FeedForwardExperts, Slots, activate, bias_of};
use crate::Error;
use crate::fp8::training::{Fp8Product, Fp8Recipe};
use crate::moe::check::Like;
use crate::moe::config::MoeConfig;
use crate::ops::Assignment;
use burn::module::Module;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::ShapeError;

/// [`FeedForwardExperts`] whose two products are of rounded values, forward and backward; see
/// [`crate::fp8::training`].
///
/// The weights are the parameters and stay in full precision. All experts of a layer share a scale for
/// each of their two weights; tokens are rounded before they are sorted. The biases' gradients are sums
/// of rounded gradients.
#[derive(Module, Debug)]
pub struct Fp8FeedForwardExperts {
    /// The parameters.
    pub experts: FeedForwardExperts,
    /// Scales of x, W_in and the gradient of their product.
    pub product_in: Fp8Product,
    /// Scales of the hidden rows, W_out and the gradient of their product.
    pub product_out: Fp8Product,
}

impl FeedForwardExperts {
    /// The same in FP8; the recipe is checked.
    pub(in crate::moe) fn in_fp8(
        self,
        recipe: Fp8Recipe,
        device: &Device,
    ) -> Fp8FeedForwardExperts {
        Fp8FeedForwardExperts {
            experts: self,
            product_in: Fp8Product::new(recipe, device),
            product_out: Fp8Product::new(recipe, device),
        }
    }
}

impl Fp8FeedForwardExperts {
    pub(super) fn forward(
        &self,
        assignment: &Assignment,
        slots: Slots,
        config: &MoeConfig,
    ) -> Result<Tensor<2>, Error> {
        let (w_in, w_out) = (self.experts.w_in.val(), self.experts.w_out.val());
        let rows = self.product_in.apply(slots.x, w_in, |x, w| {
            let rows = assignment.gather(x)?;
            assignment.linear(rows, w, bias_of(&self.experts.b_in))
        })?;
        // An amax sees all rows, also those past the last expert's.
        let hidden = activate(assignment.defined(rows), &config.feed_forward());
        let rows = self.product_out.apply(hidden, w_out, |x, w| {
            assignment.linear(x, w, bias_of(&self.experts.b_out))
        })?;
        assignment.combine(assignment.defined(rows), Some(slots.weights))
    }

    pub(super) fn check(&self, like: &Like, config: &MoeConfig) -> Result<(), ShapeError> {
        for product in [&self.product_in, &self.product_out] {
            product.check()?;
        }
        self.experts
            .check(like, &config.feed_forward(), config.experts)
    }

    pub(super) fn cast(self, dtype: DType) -> Self {
        Self {
            experts: self.experts.cast(dtype),
            ..self
        }
    }
}
