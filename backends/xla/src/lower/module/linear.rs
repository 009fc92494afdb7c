//! Linear layers and embeddings.

use super::super::{LowerError, Lowering};
use crate::stablehlo::{Binary, DotDims, Reduction, Value};
use burn_ir::{
    EmbeddingBackwardOpIr, EmbeddingOpIr, LinearBiasBackwardOpIr, LinearOpIr,
    LinearWeightBackwardOpIr, LinearXBackwardOpIr,
};

impl Lowering<'_> {
    /// \[…, in\] × \[in, out\] + \[out\]
    pub(super) fn linear(&mut self, d: &LinearOpIr) -> Result<(), LowerError> {
        let (x, weight) = (self.get(&d.x)?, self.get(&d.weight)?);
        let mut y = self.contract_last(x, weight, 0);
        if let Some(bias) = &d.bias {
            let bias = self.get(bias)?;
            let bias = self.cast(bias, self.b.element(y));
            y = self.b.binary_broadcast(Binary::Add, y, bias);
        }
        self.finish(&d.out, y)
    }

    /// The last dimension of x times dimension `dim` of a matrix.
    fn contract_last(&mut self, x: Value, matrix: Value, dim: usize) -> Value {
        let matrix = self.cast(matrix, self.b.element(x));
        let dims = DotDims {
            lhs_contract: vec![self.b.ty(x).rank() - 1],
            rhs_contract: vec![dim],
            ..DotDims::default()
        };
        self.b.dot(x, matrix, &dims, self.sum_element(x))
    }

    pub(super) fn linear_x_backward(&mut self, d: &LinearXBackwardOpIr) -> Result<(), LowerError> {
        let (grad, weight) = (self.get(&d.output_grad)?, self.get(&d.weight)?);
        let y = self.contract_last(grad, weight, 1);
        self.finish(&d.out, y)
    }

    pub(super) fn linear_weight_backward(
        &mut self,
        d: &LinearWeightBackwardOpIr,
    ) -> Result<(), LowerError> {
        let (x, grad) = (self.get(&d.x)?, self.get(&d.output_grad)?);
        let grad = self.cast(grad, self.b.element(x));
        let rows: Vec<usize> = (0..self.b.ty(x).rank() - 1).collect();
        let dims = DotDims {
            lhs_contract: rows.clone(),
            rhs_contract: rows,
            ..DotDims::default()
        };
        let y = self.b.dot(x, grad, &dims, self.sum_element(x));
        self.finish(&d.out, y)
    }

    pub(super) fn linear_bias_backward(
        &mut self,
        d: &LinearBiasBackwardOpIr,
    ) -> Result<(), LowerError> {
        let grad = self.get_wide(&d.output_grad)?;
        let rows: Vec<usize> = (0..self.b.ty(grad).rank() - 1).collect();
        let y = self.b.reduce(Reduction::Sum, grad, &rows);
        self.finish(&d.out, y)
    }

    pub(super) fn embedding(&mut self, d: &EmbeddingOpIr) -> Result<(), LowerError> {
        let (weights, at) = (self.get(&d.weights)?, self.get(&d.indices)?);
        let count = self.b.ty(at).elements();
        let at = self.b.reshape(at, &[count]);
        let rows = self.b.take(weights, at);
        self.finish(&d.out, rows)
    }

    pub(super) fn embedding_backward(
        &mut self,
        d: &EmbeddingBackwardOpIr,
    ) -> Result<(), LowerError> {
        let (grad, at) = (self.get_wide(&d.out_grad)?, self.get(&d.indices)?);
        let count = self.b.ty(at).elements();
        let at = self.b.reshape(at, &[count]);
        let shape = d.out.shape.to_vec();
        let ty = self.b.ty(grad).with_shape(shape.clone());
        let mut y = self.b.splat(0.0, ty);
        if count > 0 {
            let grad = self.b.reshape(grad, &[count, shape[1]]);
            y = self.b.put(y, at, grad, Some(Reduction::Sum));
        }
        self.finish(&d.out, y)
    }
}
