//! Counts what an optimizer trains.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// Numbers of `module` that are trained.
pub(crate) fn parameters<M: Module>(module: &M) -> usize {
    let mut count = Count(0);
    module.visit(&mut count);
    count.0
}

struct Count(usize);

impl ModuleVisitor for Count {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let param = param.val();
        if param.is_require_grad() {
            self.0 += param.shape().num_elements();
        }
    }
}
