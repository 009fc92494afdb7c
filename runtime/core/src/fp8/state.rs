//! Delayed scaling on the device: histories and scales as state that records hold.

use burn::module::{Module, RunningState};
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::Mismatch;

/// The histories and scales of a product's inputs, weights and gradients, in this order.
///
/// A history holds an amax a step. Slot 0 is staging: it holds the amax of the step that runs, and 0
/// between steps. After a step
///
/// 1. amax = the largest of all slots, or slot 0's for the most recent;
/// 2. slots move down by one, slot 0 to the end; then slot 0 is set to 0 (so the oldest goes);
/// 3. scale = amax · 2^margin / MAX; it stays as it was when amax is 0 or not finite.
///
/// A step's own scale is that of the steps before it, 1 at first. Source: Transformer Engine 2,
/// `transformer_engine/pytorch/fp8.py` and `common/recipe/delayed_scaling.cu`, whose scale is the
/// reciprocal of ours.
///
/// Nothing is read back: an update is a few operations on the device. Clones of a layer share this
/// state, as they share all running state of Burn's modules; for a copy that trains by itself, make a
/// layer anew and load a record into it.
#[derive(Module, Debug)]
pub struct Fp8State {
    /// \[3, history\]: amaxes, slot 0 for the step that runs.
    pub history: RunningState<Tensor<2>>,
    /// \[3\]: the scales of the next step.
    pub scales: RunningState<Tensor<1>>,
    /// \[3\]: steps in which a value was beyond the range of its scale by more than rounding takes.
    pub saturated: RunningState<Tensor<1>>,
}

impl Fp8State {
    pub(crate) fn new(history_len: usize, device: &Device) -> Self {
        let options = || (device, DType::F32);
        Self {
            history: RunningState::new(Tensor::zeros([3, history_len], options())),
            scales: RunningState::new(Tensor::ones([3], options())),
            saturated: RunningState::new(Tensor::zeros([3], options())),
        }
    }

    /// \[1\]: the scale of the inputs (0), weights (1) or gradients (2) now.
    pub(crate) fn scale(&self, of: usize) -> Tensor<1> {
        value(&self.scales).narrow(0, of, 1)
    }

    pub(crate) fn check(&self, history_len: usize) -> Result<(), Mismatch> {
        let (history, scales) = (self.history.value_sync(), self.scales.value_sync());
        let counts = self.saturated.value_sync();
        let right =
            history.dims() == [3, history_len] && [scales.dims(), counts.dims()] == [[3]; 2];
        let got = format_args!("{:?} and {:?}", history.dims(), scales.dims());
        let expected = format_args!("[3, {history_len}] and [3]");
        Mismatch::unless(right, "fp8 histories and scales", expected, got)
    }
}

/// The value in f32, whatever a record held it in, without a graph.
pub(super) fn value<const D: usize>(state: &RunningState<Tensor<D>>) -> Tensor<D> {
    state.value_sync().without_autodiff().cast(DType::F32)
}
