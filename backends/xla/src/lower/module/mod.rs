//! Operations of modules.

mod attention;
mod conv;
mod linear;
mod norm;
mod pool;
mod resize;
mod sample;

use super::{LowerError, Lowering};
use burn_ir::ModuleOperationIr;

impl Lowering<'_> {
    pub(super) fn module(&mut self, op: &ModuleOperationIr) -> Result<(), LowerError> {
        use ModuleOperationIr as Op;
        match op {
            Op::BatchNorm(d) => self.batch_norm(d),
            Op::LayerNorm(d) => self.layer_norm(d),
            Op::Embedding(d) => self.embedding(d),
            Op::EmbeddingBackward(d) => self.embedding_backward(d),
            Op::Linear(d) => self.linear(d),
            Op::LinearXBackward(d) => self.linear_x_backward(d),
            Op::LinearWeightBackward(d) => self.linear_weight_backward(d),
            Op::LinearBiasBackward(d) => self.linear_bias_backward(d),
            Op::Attention(d) => self.attention(d),
            Op::Unfold4d(d) => self.unfold_image(d),
            Op::Interpolate(d) => self.interpolate(d),
            Op::InterpolateBackward(d) => self.interpolate_backward(d),
            Op::DeformableConv2d(_)
            | Op::DeformableConv2dBackward(_)
            | Op::CtcLoss(_)
            | Op::CtcLossBackward(_) => unreachable!("not listed as lowered"),
            other => self.convolutions(other),
        }
    }
}
