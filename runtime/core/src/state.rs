//! Running state of modules: tensors that forward passes change, records hold and optimizers leave alone.

use burn::module::RunningState;
use burn::tensor::{DType, Tensor};

/// The value in f32, whatever a record held it in, with the update of this thread.
pub(crate) fn value(state: &RunningState<Tensor<1>>) -> Tensor<1> {
    state.value_sync().detach().cast(DType::F32)
}

/// Replaces the value at once: a record taken now holds it.
pub(crate) fn set<const D: usize>(state: &RunningState<Tensor<D>>, value: Tensor<D>) {
    let value = if state.value().is_autodiff() && !value.is_autodiff() {
        value.autodiff()
    } else {
        value.detach()
    };
    state.update(value);
    state.value_sync();
}
