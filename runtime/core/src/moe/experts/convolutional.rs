//! Convolutional experts: what an expert sees of a sequence is a sequence, too.

use super::{
    Device, Error, ExpertKind, Like, Mismatch, Module, MoeConfig, Param, Slots, Tensor, activate,
    bias_of, biases, stacked,
};
use crate::ops::Assignment;

/// Rows a convolution sees at once.
const WIDTH: usize = 3;

/// expert(x) = conv(act(conv(x))), H → F → H: convolutions of width 3, zeros beyond the ends,
/// along the tokens of one sequence that were routed to the expert, in their order.
///
/// Row r sees rows r − 1, r, r + 1 of them, or r − 2, r − 1, r when causal; a weight holds the
/// columns of these three one after the other.
#[derive(Module, Debug)]
pub struct ConvolutionalExperts {
    /// \[E, F, 3H\], gated \[E, 2F, 3H\]: gate rows, then up rows.
    pub w_in: Param<Tensor<3>>,
    /// \[E,F\] or \[E,2F\].
    pub b_in: Option<Param<Tensor<2>>>,
    /// \[E, H, 3F\].
    pub w_out: Param<Tensor<3>>,
    /// \[E,H\].
    pub b_out: Option<Param<Tensor<2>>>,
}

impl ConvolutionalExperts {
    pub(super) fn new(config: &MoeConfig, device: &Device) -> Self {
        let (e, h, f, columns) = config.sizes();
        Self {
            w_in: stacked([e, columns, WIDTH * h], device),
            b_in: biases(config.bias, [e, columns], WIDTH * h, device),
            w_out: stacked([e, h, WIDTH * f], device),
            b_out: biases(config.bias, [e, h], WIDTH * f, device),
        }
    }

    pub(in crate::moe) fn forward(
        &self,
        assignment: &Assignment,
        slots: Slots,
        config: &MoeConfig,
    ) -> Result<Tensor<2>, Error> {
        let causal = matches!(config.kind, ExpertKind::Convolutional { causal: true });
        let see = |rows| assignment.neighbours(rows, slots.sequence, causal);
        let rows = see(assignment.gather(slots.x)?);
        let rows = assignment.linear(rows, self.w_in.val(), bias_of(&self.b_in))?;
        let rows = see(activate(rows, config));
        let rows = assignment.linear(rows, self.w_out.val(), bias_of(&self.b_out))?;
        assignment.combine(rows, Some(slots.weights))
    }

    pub(super) fn check(&self, like: &Like, config: &MoeConfig) -> Result<(), Mismatch> {
        let (e, h, f, columns) = config.sizes();
        like.check("w_in [E, F or 2F, 3H]", &self.w_in, [e, columns, WIDTH * h])?;
        like.check("w_out [E,H,3F]", &self.w_out, [e, h, WIDTH * f])?;
        like.check_optional("b_in", &self.b_in, config.bias, [e, columns])?;
        like.check_optional("b_out", &self.b_out, config.bias, [e, h])
    }
}
