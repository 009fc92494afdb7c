//! Normalisation, in f32 for halves.

use super::super::{Lowering, Result};
use crate::stablehlo::{Builder, Repeated, Unary, Value};
use burn_ir::{BatchNormOpIr, LayerNormOpIr, ScalarIr};

impl Lowering<'_> {
    /// Over the last dimension.
    pub(super) fn layer_norm(&self, d: &LayerNormOpIr) -> Result<Value> {
        let b = self.b;
        let x = self.get_wide(&d.input)?;
        let last = b.ty(x).rank() - 1;
        let x = b.sub(x, Repeated(b.mean_keep(x, &[last])));
        let scale = b.inverse_deviation(b.mean_keep(b.mul(x, x), &[last]), d.epsilon);
        let y = b.mul(x, Repeated(scale));
        let mut y = b.mul(y, Repeated(self.get_wide(&d.gamma)?));
        if let Some(beta) = &d.beta {
            y = b.add(y, Repeated(self.get_wide(beta)?));
        }
        Ok(y)
    }

    /// With the statistics of each channel, dimension 1, given.
    pub(super) fn batch_norm(&self, d: &BatchNormOpIr) -> Result<Value> {
        let b = self.b;
        let x = self.get_wide(&d.x)?;
        let shape = b.shape(x);
        let scale = b.inverse_deviation(self.get_wide(&d.variance)?, d.epsilon);
        let scale = b.mul(scale, self.get_wide(&d.gamma)?);
        let (mean, beta) = (self.get_wide(&d.mean)?, self.get_wide(&d.beta)?);
        let [mean, scale, beta] = [mean, scale, beta].map(|v| b.broadcast(v, &shape, &[1]));
        Ok(b.add(b.mul(b.sub(x, mean), scale), beta))
    }
}

impl Builder {
    /// 1 / √(variance + ε)
    fn inverse_deviation(&self, variance: Value, epsilon: ScalarIr) -> Value {
        self.unary(Unary::Rsqrt, self.add(variance, epsilon.elem::<f64>()))
    }
}
