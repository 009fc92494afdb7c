//! Adam that counts its steps on the device.

use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{DType, Device, Tensor, TensorData};

/// Adam (Kingma and Ba 2015) as [`burn::optim::Adam`] computes it, but for the powers of its betas: these
/// are a tensor of the state, where Burn's are numbers that the host computes in every step. So a step
/// with it can be recorded once ([`crate::Step`]), with the learning rate that it was recorded with.
///
/// # Panics
/// Like Burn's own optimizers, when a record is made of moments that the device can no longer give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// How much of the first moment stays, in \[0, 1).
    pub beta_1: f32,
    /// How much of the second moment stays, in \[0, 1).
    pub beta_2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
}

impl Default for Adam {
    /// The usual 0.9, 0.999 and 1e-8.
    fn default() -> Self {
        Self {
            beta_1: 0.9,
            beta_2: 0.999,
            epsilon: 1e-8,
        }
    }
}

/// What [`Adam`] knows of a parameter.
#[derive(Clone)]
pub struct AdamState<const D: usize> {
    /// Mean of gradients.
    pub moment_1: Tensor<D>,
    /// Mean of their squares.
    pub moment_2: Tensor<D>,
    /// f32\[2\]: β₁ᵗ and β₂ᵗ after t steps.
    pub powers: Tensor<1>,
}

impl Optimizer for Adam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        rate: LearningRate,
        tensor: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamState<D>>,
    ) -> (Tensor<D>, Option<AdamState<D>>) {
        let device = gradient.device();
        let state = state.unwrap_or_else(|| AdamState {
            moment_1: gradient.zeros_like(),
            moment_2: gradient.zeros_like(),
            powers: Tensor::ones([2], (&device, DType::F32)),
        });
        let mean = |old: Tensor<D>, new: Tensor<D>, beta: f32| {
            old.mul_scalar(beta) + new.mul_scalar(1.0 - beta)
        };
        let moment_1 = mean(state.moment_1, gradient.clone(), self.beta_1);
        let moment_2 = mean(state.moment_2, gradient.clone().square(), self.beta_2);
        let betas = TensorData::from([self.beta_1, self.beta_2]);
        let betas = Tensor::<1>::from_data(betas, (&device, DType::F32));
        let powers = state.powers * betas;
        let rest = powers.clone().neg().add_scalar(1.0);
        // In bf16 0.999 is 1.
        let rest = rest.cast(gradient.dtype());
        let [rest_1, rest_2] = [0, 1].map(|at| rest.clone().narrow(0, at, 1).reshape([1; D]));
        let scale = (moment_2.clone() / rest_2).sqrt() + self.epsilon;
        let delta = moment_1.clone() / rest_1 / scale;
        let state = AdamState {
            moment_1,
            moment_2,
            powers,
        };
        (tensor - delta.mul_scalar(rate), Some(state))
    }

    fn to_device<const D: usize>(state: AdamState<D>, device: &Device) -> AdamState<D> {
        AdamState {
            moment_1: state.moment_1.to_device(device),
            moment_2: state.moment_2.to_device(device),
            powers: state.powers.to_device(device),
        }
    }
}

impl<const D: usize> RecordState for AdamState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_tensor(prefix, "moment_1", self.moment_1.clone().into_data());
        out.push_tensor(prefix, "moment_2", self.moment_2.clone().into_data());
        out.push_tensor(prefix, "powers", self.powers.clone().into_data());
    }

    fn state_unflatten(prefix: &str, source: &mut StateSource, device: &Device) -> Option<Self> {
        let mut data = |name| source.take_tensor(prefix, name);
        Some(Self {
            moment_1: saved(data("moment_1")?, device),
            moment_2: saved(data("moment_2")?, device),
            powers: saved(data("powers")?, device),
        })
    }
}

/// A tensor in the dtype that it was saved in, which needn't be the device's own.
fn saved<const D: usize>(data: TensorData, device: &Device) -> Tensor<D> {
    let dtype = data.dtype();
    Tensor::from_data(data, (device, dtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_dtypes() {
        let device = Device::flex();
        let parameter = || Tensor::<1>::ones([2], (&device, DType::BF16));
        let (_, state) = Adam::default().step(0.1, parameter(), parameter(), None);
        let mut sink = StateSink::default();
        state.unwrap().state_flatten("weight", &mut sink);
        let mut source = StateSource::default();
        for (name, data) in sink.tensors {
            source.insert_tensor(name, data);
        }
        let state = AdamState::<1>::state_unflatten("weight", &mut source, &device).unwrap();
        assert_eq!(state.moment_1.dtype(), DType::BF16);
        assert_eq!(state.moment_2.dtype(), DType::BF16);
        assert_eq!(state.powers.dtype(), DType::F32);
        let powers: Vec<f32> = state.powers.into_data().try_to_vec().unwrap();
        assert_eq!(powers, [0.9, 0.999]);
    }
}
