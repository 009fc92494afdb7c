//! Running state of modules: tensors that forward passes change, records hold and optimizers leave alone.

use burn::module::RunningState;
use burn::tensor::{DType, Tensor};

/// The value in f32, whatever a record held it in, with the update of this thread.
pub(crate) fn value(state: &RunningState<Tensor<1>>) -> Tensor<1> {
    state.value_sync().detach().cast(DType::F32)
}

/// Replaces the value at once: a record taken now holds it.
pub(crate) fn set(state: &RunningState<Tensor<1>>, value: Tensor<1>) {
    state.update(value.detach());
    state.value_sync();
}
