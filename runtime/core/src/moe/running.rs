//! Running state, which training forwards change; records hold it, optimizers don't touch it.

use crate::check::{check_device, check_same, check_within};
use crate::parameters::{set, value};
use crate::reduce::sum_dim;
use burn::module::RunningState;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor};
use moebius_ops::Mismatch;
use serde::{Deserialize, Serialize};

/// The rate and bounds of a running value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Follow {
    /// Share of the new measurement in an update.
    pub rate: f64,
    /// Least value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl Follow {
    /// A running value that takes `rate` of each new measurement and stays in `min..=max`.
    pub fn new(rate: f64, min: f64, max: f64) -> Self {
        Self { rate, min, max }
    }

    pub(super) fn check(&self) -> Result<(), Mismatch> {
        check_within("rate of a running value", self.rate, 0.0, 1.0)?;
        // A capacity needs a factor above 0.
        check_within("least running value", self.min, f64::MIN_POSITIVE, self.max)?;
        check_within("largest running value", self.max, self.min, f64::MAX)
    }
}

pub(super) fn constant(value: f64, len: usize, device: &Device) -> RunningState<Tensor<1>> {
    RunningState::new(Tensor::full([len], value, (device, DType::F32)))
}

/// Checks a state of `len` values, which a record may have replaced.
pub(super) fn check_state(
    what: &'static str,
    state: &RunningState<Tensor<1>>,
    len: usize,
    device: &Device,
) -> Result<(), Mismatch> {
    let state = value(state);
    check_same(what, state.dims(), [len])?;
    check_device(what, state.device().inner(), &device.clone().inner())
}

/// Updates value ← (1 − rate) · value + rate · `measured`, held within the bounds; a NaN, as in a step that loss scaling skips, changes
/// nothing.
pub(super) fn follow(state: &RunningState<Tensor<1>>, measured: Tensor<1>, how: &Follow) {
    let (rate, old) = (how.rate, value(state));
    let new = old.clone().mul_scalar(1.0 - rate) + measured.detach().mul_scalar(rate);
    let unknown = new.clone().is_nan();
    set(state, new.clamp(how.min, how.max).mask_where(unknown, old));
}

/// Sums all elements to \[1\], one axis at a time: Burn's sum over everything adds atomically on some devices, in any order.
pub(super) fn total(x: Tensor<2>) -> Tensor<1> {
    let [rows, columns] = x.dims();
    sum_dim(x.reshape([1, rows * columns]), 1).reshape([1])
}

/// Computes the load relative to an even one: E · A_e / Σ A, or 0 if nothing was assigned.
pub(super) fn relative_load(load: Tensor<1, Int>) -> Tensor<1> {
    let experts = load.dims()[0];
    let load = load.cast(FloatDType::F32);
    let all = total(load.clone().unsqueeze()).clamp_min(1.0);
    load / all * experts as f64
}
