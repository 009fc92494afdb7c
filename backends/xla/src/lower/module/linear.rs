//! Linear layers and embeddings.

use super::super::{Lowering, Result};
use crate::stablehlo::{Builder, DotDims, Reduction, Repeated, Value};
use burn_ir::{
    EmbeddingBackwardOpIr, EmbeddingOpIr, LinearBiasBackwardOpIr, LinearOpIr,
    LinearWeightBackwardOpIr,
};

impl Lowering<'_> {
    /// \[…, in\] × \[in, out\] + \[out\]
    pub(super) fn linear(&self, d: &LinearOpIr) -> Result<Value> {
        let (x, weight) = (self.get(&d.x)?, self.get(&d.weight)?);
        let mut y = self.b.contract_last(x, weight, 0);
        if let Some(bias) = &d.bias {
            let bias = self.b.cast(self.get(bias)?, self.b.element(y));
            y = self.b.add(y, Repeated(bias));
        }
        Ok(y)
    }

    pub(super) fn linear_weight_backward(&self, d: &LinearWeightBackwardOpIr) -> Result<Value> {
        let (x, grad) = (self.get(&d.x)?, self.get(&d.output_grad)?);
        let grad = self.b.cast(grad, self.b.element(x));
        let rows: Vec<usize> = (0..self.b.ty(x).rank() - 1).collect();
        let dims = DotDims {
            lhs_contract: rows.clone(),
            rhs_contract: rows,
            ..DotDims::default()
        };
        Ok(self.b.dot(x, grad, &dims, self.b.sum_element(x)))
    }

    pub(super) fn linear_bias_backward(&self, d: &LinearBiasBackwardOpIr) -> Result<Value> {
        let grad = self.get_wide(&d.output_grad)?;
        let rows: Vec<usize> = (0..self.b.ty(grad).rank() - 1).collect();
        Ok(self.b.sum(grad, &rows))
    }

    pub(super) fn embedding(&self, d: &EmbeddingOpIr) -> Result<Value> {
        let (weights, at) = (self.get(&d.weights)?, self.get(&d.indices)?);
        let at = self.b.reshape(at, &[self.b.ty(at).elements()]);
        Ok(self.b.take(weights, at))
    }

    pub(super) fn embedding_backward(&self, d: &EmbeddingBackwardOpIr) -> Result<Value> {
        let (grad, at) = (self.get_wide(&d.out_grad)?, self.get(&d.indices)?);
        let count = self.b.ty(at).elements();
        let at = self.b.reshape(at, &[count]);
        let shape = d.out.shape.to_vec();
        let mut y = self.b.splat(0.0, self.b.ty(grad).with_shape(shape.clone()));
        if count > 0 {
            let grad = self.b.reshape(grad, &[count, shape[1]]);
            y = self.b.put(y, at, grad, Some(Reduction::Sum));
        }
        Ok(y)
    }
}

impl Builder {
    /// The last dimension of x times dimension `dim` of a matrix.
    pub(super) fn contract_last(&self, x: Value, matrix: Value, dim: usize) -> Value {
        let matrix = self.cast(matrix, self.element(x));
        let dims = DotDims::batched(0, self.ty(x).rank() - 1, dim);
        self.dot(x, matrix, &dims, self.sum_element(x))
    }
}
