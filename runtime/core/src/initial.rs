//! First values of weights, drawn when they are first used.
//!
//! Burn's `Initializer` does this and more, and the more is sent along to every browser: orthogonal
//! weights take a QR decomposition, and that takes Burn's matrix products of every kind.

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Distribution, Shape, Tensor};

/// Uniform in ±1/√`fan_in`, as PyTorch's `Linear`.
pub(crate) fn uniform<const D: usize>(
    shape: [usize; D],
    fan_in: usize,
    device: &Device,
) -> Param<Tensor<D>> {
    let bound = 1.0 / (fan_in as f64).sqrt();
    let distribution = Distribution::Uniform(-bound, bound);
    lazily(shape, device, move |device| {
        Tensor::random(shape, distribution, device)
    })
}

pub(crate) fn zeros<const D: usize>(shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
    lazily(shape, device, move |device| Tensor::zeros(shape, device))
}

fn lazily<const D: usize>(
    shape: [usize; D],
    device: &Device,
    values: impl Fn(&Device) -> Tensor<D> + Send + Sync + 'static,
) -> Param<Tensor<D>> {
    let init = move |device: &Device, require_grad: bool| {
        device.memory_persistent_allocations((), |()| {
            let values = values(device);
            if require_grad {
                values.require_grad()
            } else {
                values
            }
        })
    };
    Param::uninitialized(
        ParamId::new(),
        init,
        device.clone(),
        true,
        Shape::from(shape),
    )
}
