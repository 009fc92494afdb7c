//! Operations of modules.

mod attention;
mod conv;
mod linear;
mod norm;
mod pool;
mod resize;
mod sample;

use super::{Lowering, Result};
use crate::stablehlo::Value;
use burn_ir::ModuleOperationIr;

impl Lowering<'_> {
    /// Operations with one result.
    fn layer(&self, op: &ModuleOperationIr) -> Result<Value> {
        use ModuleOperationIr as Op;
        match op {
            Op::BatchNorm(d) => self.batch_norm(d),
            Op::LayerNorm(d) => self.layer_norm(d),
            Op::Embedding(d) => self.embedding(d),
            Op::EmbeddingBackward(d) => self.embedding_backward(d),
            Op::Linear(d) => self.linear(d),
            Op::LinearXBackward(d) => {
                let (grad, weight) = (self.get(&d.output_grad)?, self.get(&d.weight)?);
                Ok(self.b.contract_last(grad, weight, 1))
            }
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
