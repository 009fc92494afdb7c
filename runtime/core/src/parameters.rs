//! Parameters of modules, whose initial values are drawn at their first use, and running state: tensors that forward passes change, records
//! hold and optimizers leave alone.
//!
//! Burn's `Initializer` can do this, too, but its orthogonal weights need a QR decomposition and thereby all kinds of Burn's matrix
//! products, which every browser would have to download.

use burn::module::{Module, ModuleMapper, Param, ParamId, RunningState};
use burn::tensor::{DType, Device, Distribution, Shape, Tensor};

/// A parameter with values uniform in ±1/√`fan_in`, like those of PyTorch's `Linear`.
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

/// Casts a parameter to another dtype; it stays a leaf, trained or frozen as before.
pub(crate) fn cast_param<const D: usize>(
    param: Param<Tensor<D>>,
    dtype: DType,
) -> Param<Tensor<D>> {
    param.map(|tensor| {
        let trained = tensor.is_require_grad();
        tensor.cast(dtype).detach().set_require_grad(trained)
    })
}

/// Casts every parameter of a module to another dtype. Modules with running state, which stays f32, cast parameter by parameter instead.
pub(crate) fn cast_all<M: Module>(module: M, dtype: DType) -> M {
    struct Cast(DType);
    impl ModuleMapper for Cast {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            cast_param(param, self.0)
        }
    }
    module.map(&mut Cast(dtype))
}

/// Returns the value in f32, whatever dtype a record held it in, including this thread's update.
pub(crate) fn value(state: &RunningState<Tensor<1>>) -> Tensor<1> {
    state.value_sync().detach().cast(DType::F32)
}

/// Replaces the value at once, so that a record taken now holds the new value.
pub(crate) fn set<const D: usize>(state: &RunningState<Tensor<D>>, value: Tensor<D>) {
    let value = if state.value().is_autodiff() && !value.is_autodiff() {
        value.autodiff()
    } else {
        value.detach()
    };
    state.update(value);
    state.value_sync();
}
