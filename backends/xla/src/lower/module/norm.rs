//! Normalisation, in f32 for halves.

use super::super::{LowerError, Lowering};
use crate::stablehlo::{Binary, Unary, Value};
use burn_ir::{BatchNormOpIr, LayerNormOpIr, ScalarIr};

impl Lowering<'_> {
    /// Over the last dimension.
    pub(super) fn layer_norm(&mut self, d: &LayerNormOpIr) -> Result<(), LowerError> {
        let x = self.get_wide(&d.input)?;
        let last = self.b.ty(x).rank() - 1;
        let mean = self.mean_keep(x, &[last]);
        let x = self.b.binary_broadcast(Binary::Subtract, x, mean);
        let square = self.b.mul(x, x);
        let variance = self.mean_keep(square, &[last]);
        let scale = self.inverse_deviation(variance, d.epsilon);
        let y = self.b.binary_broadcast(Binary::Multiply, x, scale);
        let gamma = self.get_wide(&d.gamma)?;
        let mut y = self.b.binary_broadcast(Binary::Multiply, y, gamma);
        if let Some(beta) = &d.beta {
            let beta = self.get_wide(beta)?;
            y = self.b.binary_broadcast(Binary::Add, y, beta);
        }
        self.finish(&d.out, y)
    }

    /// 1 / √(variance + ε)
    fn inverse_deviation(&mut self, variance: Value, epsilon: ScalarIr) -> Value {
        let sum = self.b.binary_scalar(Binary::Add, variance, epsilon.elem());
        self.b.unary(Unary::Rsqrt, sum)
    }

    /// With the statistics of each channel, dimension 1, given.
    pub(super) fn batch_norm(&mut self, d: &BatchNormOpIr) -> Result<(), LowerError> {
        let x = self.get_wide(&d.x)?;
        let shape = self.b.shape(x);
        let variance = self.get_wide(&d.variance)?;
        let scale = self.inverse_deviation(variance, d.epsilon);
        let gamma = self.get_wide(&d.gamma)?;
        let scale = self.b.mul(scale, gamma);
        let (mean, beta) = (self.get_wide(&d.mean)?, self.get_wide(&d.beta)?);
        let [mean, scale, beta] = [mean, scale, beta].map(|v| self.b.broadcast(v, &shape, &[1]));
        let x = self.b.sub(x, mean);
        let x = self.b.mul(x, scale);
        let y = self.b.add(x, beta);
        self.finish(&d.out, y)
    }
}
