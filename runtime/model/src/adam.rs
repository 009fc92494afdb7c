//! Burn's AdamW, with moments that find their device by themselves.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{
    AdamW, AdamWState, AdaptiveMomentumState, LearningRate, Optimizer, RecordState, StateSink,
    StateSource,
};
use burn::tensor::{Bytes, DType, Device, Tensor, TensorData};
use burn_pack::Reader;

use crate::error::CheckpointError;

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

/// Checks that an optimizer's record holds both moments of every parameter of `module`, after `step`
/// steps, and nothing else.
///
/// Burn panics at some wrong records, and starts moments anew where it finds none.
pub(crate) fn check_record<M: Module>(
    record: &Bytes,
    module: &M,
    step: usize,
) -> Result<(), CheckpointError> {
    let refused = |error: burn_pack::Error| CheckpointError::Record(error.to_string());
    let reader = Reader::from_bytes(record.clone()).map_err(refused)?;
    let scalars = reader.scalars().clone();
    let tensors = reader.into_tensors().map_err(refused)?;
    let mut got = Entries::new();
    for tensor in tensors {
        let (shape, id) = (tensor.shape.to_vec(), tensor.param_id);
        let what = format!("{:?} {shape:?} of {id:?}", tensor.dtype);
        got.insert(tensor.name, what);
    }
    for (name, value) in scalars {
        // The kind of a number depends on who wrote it.
        let value = usize::try_from(value).map_or("no count".to_owned(), |n| n.to_string());
        got.insert(name, value);
    }
    let mut expected = Expected {
        step,
        entries: Entries::new(),
    };
    if step > 0 {
        module.visit(&mut expected);
    }
    let expected = expected.entries;
    for name in expected.keys().chain(got.keys()) {
        if expected.get(name) != got.get(name) {
            let say = |entry: Option<&String>| entry.map_or("nothing".to_owned(), String::clone);
            let (expected, got) = (say(expected.get(name)), say(got.get(name)));
            let message = format!("optimizer's {name}: expected {expected}, got {got}");
            return Err(CheckpointError::Record(message));
        }
    }
    Ok(())
}

/// What a record says under every name.
type Entries = BTreeMap<String, String>;

/// The record of moments that fit the parameters visited.
struct Expected {
    step: usize,
    entries: Entries,
}

impl ModuleVisitor for Expected {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let (id, shape) = (param.id.val(), param.val().dims().to_vec());
        for moment in ["first", "second"] {
            let what = format!("{:?} {shape:?} of {:?}", DType::F32, Some(id));
            self.entries.insert(format!("{id}.{moment}"), what);
        }
        let numbers = [("time", self.step), ("__rank", D)];
        for (name, number) in numbers {
            self.entries
                .insert(format!("{id}.{name}"), number.to_string());
        }
    }
}

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

#[cfg(test)]
#[cfg(feature = "flex")]
mod tests {
    use super::*;
    use burn::nn::{RmsNorm, RmsNormConfig};
    use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
    use burn_pack::{Scalar, Writer};

    /// A module after two steps, and its optimizer's record.
    fn trained() -> (RmsNorm, Bytes) {
        let device = Device::flex().autodiff();
        let mut module = RmsNormConfig::new(3).init(&device);
        let mut optimizer = ModuleOptimizer::from(Adam(AdamWConfig::new().build()));
        for _ in 0..2 {
            let x = Tensor::<2>::ones([1, 3], &device);
            let loss = module.forward(x).powi_scalar(2).sum_dim(1);
            let gradients = GradientsParams::from_grads(loss.backward(), &module);
            module = optimizer.step(0.1, module, gradients);
        }
        let record = optimizer.to_record().into_bytes().unwrap();
        (module, record)
    }

    /// The record with other entries.
    fn changed(
        record: &Bytes,
        change: impl Fn(&mut Vec<burn_pack::Tensor>, &mut BTreeMap<String, Scalar>),
    ) -> Bytes {
        let reader = Reader::from_bytes(record.clone()).unwrap();
        let mut scalars = reader.scalars().clone();
        let mut tensors = reader.into_tensors().unwrap();
        change(&mut tensors, &mut scalars);
        let writer = Writer::new(tensors);
        let add =
            |writer: Writer, (name, value): (&String, &Scalar)| writer.with_scalar(name, *value);
        scalars.iter().fold(writer, add).into_bytes().unwrap()
    }

    #[test]
    fn only_whole_records_of_the_same_parameters_pass() {
        let (module, record) = trained();
        check_record(&record, &module, 2).unwrap();
        let id = module.gamma.id.val();
        let wrong = [
            changed(&record, |tensors, _| drop(tensors.pop())),
            changed(&record, |tensors, _| tensors[0].shape = [1, 3].into()),
            changed(&record, |tensors, _| tensors[0].param_id = None),
            changed(&record, |tensors, _| tensors[1].name = "0.first".into()),
            changed(&record, |_, scalars| scalars.clear()),
            changed(&record, |_, scalars| {
                scalars.insert(format!("{id}.__rank"), 99usize.into());
            }),
            changed(&record, |_, scalars| {
                scalars.insert(format!("{id}.time"), u64::MAX.into());
            }),
            Bytes::from_bytes_vec(vec![0; 40]),
        ];
        for (at, record) in wrong.iter().enumerate() {
            let error = check_record(record, &module, 2).unwrap_err();
            assert!(matches!(error, CheckpointError::Record(_)), "{at}: {error}");
        }
        let error = check_record(&record, &module, 3).unwrap_err().to_string();
        assert!(error.ends_with("time: expected 3, got 2"), "{error}");
        assert!(check_record(&record, &module, 0).is_err());
    }
}
