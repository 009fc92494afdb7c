//! The gradient of all parameters, shortened where it is too long.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

/// Scales all gradients so that their common norm is at most `longest`.
///
/// Burn's own clipping looks at one parameter at a time, and its sum over all elements adds
/// atomically on some devices, so that two runs differ.
pub(crate) fn clip<M: Module>(
    module: &M,
    mut gradients: GradientsParams,
    longest: f32,
) -> GradientsParams {
    let mut squares = Squares {
        gradients: &gradients,
        sum: None,
    };
    module.visit(&mut squares);
    let Some(sum) = squares.sum else {
        return gradients;
    };
    let factor = sum.sqrt().clamp_min(longest).recip() * longest;
    module.visit(&mut Scale {
        gradients: &mut gradients,
        factor,
    });
    gradients
}

/// Σ g², \[1,1\].
struct Squares<'a> {
    gradients: &'a GradientsParams,
    sum: Option<Tensor<2>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.get::<D>(param.id) else {
            return;
        };
        // A device that failed says so to whoever reads its tensors.
        let _ = moebius::keep_pace(&gradient.device());
        let elements = gradient.shape().num_elements();
        // One axis at a time sums in a fixed order.
        let square = gradient.square().reshape([1, elements]).sum_dim(1);
        self.sum = Some(match self.sum.take() {
            Some(sum) => sum + square,
            None => square,
        });
    }
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: Tensor<2>,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            let factor = self.factor.clone().reshape([1; D]);
            self.gradients.register(param.id, gradient * factor);
        }
    }
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "clip_tests.rs"]
mod tests;
