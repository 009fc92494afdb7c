//! Burn's AdamW, with moments that find their device by themselves.

use burn::optim::{
    AdamW, AdamWState, AdaptiveMomentumState, LearningRate, Optimizer, RecordState, StateSink,
    StateSource,
};
use burn::tensor::{Device, Tensor, TensorData};

/// [`AdamW`] whose records can be loaded where Burn's default device can't be opened.
///
/// Burn loads an optimizer's record onto its default device, which is a GPU wherever support for one
/// is built in, and panics without a driver. Here loaded moments stay on the host until the first
/// step says where its gradients are.
#[derive(Clone)]
pub(crate) struct Adam(pub(crate) AdamW);

/// The moments of one parameter.
#[derive(Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "tensors are large on the stack, and nearly all moments are live"
)]
pub(crate) enum Moments<const D: usize> {
    /// On the device of the parameter.
    Live(AdamWState<D>),
    /// From a record.
    Loaded {
        time: usize,
        first: TensorData,
        second: TensorData,
    },
}

/// Tensors in the record of each parameter.
pub(crate) const TENSORS: usize = 2;

impl<const D: usize> RecordState for Moments<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        let (time, first, second) = match self {
            Self::Live(state) => {
                let moments = &state.momentum;
                let data = |tensor: &Tensor<D>| tensor.clone().into_data();
                (
                    moments.time,
                    data(&moments.moment_1),
                    data(&moments.moment_2),
                )
            }
            Self::Loaded {
                time,
                first,
                second,
            } => (*time, first.clone(), second.clone()),
        };
        out.push_scalar(prefix, "time", time.into());
        out.push_tensor(prefix, "first", first);
        out.push_tensor(prefix, "second", second);
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, _device: &Device) -> Option<Self> {
        Some(Self::Loaded {
            time: src.take_scalar(prefix, "time")?.try_into().ok()?,
            first: src.take_tensor(prefix, "first")?,
            second: src.take_tensor(prefix, "second")?,
        })
    }
}

impl<const D: usize> Moments<D> {
    fn on(self, device: &Device) -> AdamWState<D> {
        match self {
            Self::Live(state) => AdamW::to_device(state, device),
            Self::Loaded {
                time,
                first,
                second,
            } => {
                let tensor = |data| Tensor::from_data(data, device);
                AdamWState::new(AdaptiveMomentumState::new(
                    time,
                    tensor(first),
                    tensor(second),
                ))
            }
        }
    }
}

impl Optimizer for Adam {
    type State<const D: usize> = Moments<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Moments<D>>,
    ) -> (Tensor<D>, Option<Moments<D>>) {
        let state = state.map(|state| state.on(&grad.device()));
        let (tensor, state) = self.0.step(lr, tensor, grad, state);
        (tensor, state.map(Moments::Live))
    }

    fn to_device<const D: usize>(state: Moments<D>, device: &Device) -> Moments<D> {
        Moments::Live(state.on(device))
    }
}
