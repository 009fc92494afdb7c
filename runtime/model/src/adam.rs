//! Burn's AdamW, with moments that find their device by themselves, and steps that the device can
//! leave out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{
    AdamW, AdamWConfig, AdamWState, AdaptiveMomentumState, LearningRate, Optimizer, RecordState,
    StateSink, StateSource,
};
use burn::tensor::{Bytes, DType, Device, Tensor, TensorData};
use burn_pack::Reader;
use moebius::fp8::training::Finite;

use crate::error::{CheckpointError, Error};

const BETA_1: f32 = 0.9;
/// Adam forgets old squares after about a hundred steps, which is what short trainings want.
const BETA_2: f32 = 0.99;
const EPSILON: f32 = 1e-5;

/// [`AdamW`] whose records can be loaded where Burn's default device can't be opened.
///
/// Burn loads an optimizer's record onto its default device, which is a GPU wherever support for one
/// is built in, and panics without a driver. Here loaded moments stay on the host until the first
/// step says where its gradients are.
#[derive(Clone)]
pub(crate) struct Adam {
    plain: AdamW,
    weight_decay: f32,
    guard: Guard,
}

/// Whether a step counts is known to the device alone: then it chooses between the parameters and
/// moments after the step and those before, without a wait. Shared by all copies.
#[derive(Clone, Default)]
pub(crate) struct Guard(Arc<Mutex<Option<Guarded>>>);

/// A step that may not count.
#[derive(Clone)]
struct Guarded {
    finite: Finite,
    /// \[1\] each: 1 − βᵗ of the t steps that counted, this one included.
    corrections: [Tensor<1>; 2],
}

/// \[2\]: β₁ᵗ and β₂ᵗ after t steps that counted. Burn counts steps on the host, where it isn't known
/// which ones do.
#[derive(Clone)]
pub(crate) struct Powers(Tensor<1>);

impl Powers {
    /// After no step, or those read from a checkpoint.
    pub(crate) fn new(values: Option<[f32; 2]>, device: &Device) -> Self {
        let values = values.unwrap_or([1.0, 1.0]);
        Self(Tensor::from_floats(values, &device.clone().inner()))
    }

    /// After one more step, if it counts.
    fn step(&mut self, finite: &Finite) {
        let betas = Tensor::<1>::from_floats([BETA_1, BETA_2], &self.0.device());
        self.0 = finite.choose(self.0.clone() * betas, self.0.clone());
    }

    /// Waits for the device.
    pub(crate) fn read(&self) -> Result<[f32; 2], Error> {
        let values = self.0.clone().try_into_vec_as::<f32>();
        let values = values.map_err(Error::device)?;
        Ok([values[0], values[1]])
    }
}

impl Guard {
    /// The next step of the optimizer counts if `finite`.
    pub(crate) fn set(&self, finite: &Finite, powers: &mut Powers) {
        powers.step(finite);
        let rest = powers.0.clone().neg().add_scalar(1.0);
        let corrections = [0, 1].map(|at| rest.clone().narrow(0, at, 1));
        let guarded = Guarded {
            finite: finite.clone(),
            corrections,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(guarded);
    }

    fn get(&self) -> Option<Guarded> {
        let guarded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        guarded.clone()
    }
}

impl Adam {
    /// With the guard of its steps.
    pub(crate) fn new(weight_decay: f32) -> (Self, Guard) {
        let plain = AdamWConfig::new()
            .with_beta_1(BETA_1)
            .with_beta_2(BETA_2)
            .with_epsilon(EPSILON)
            .with_weight_decay(weight_decay)
            .build();
        let guard = Guard::default();
        let adam = Self {
            plain,
            weight_decay,
            guard: guard.clone(),
        };
        (adam, guard)
    }

    /// AdamW's step, and the state before it where it doesn't count.
    fn guarded<const D: usize>(
        &self,
        rate: LearningRate,
        (tensor, gradient): (Tensor<D>, Tensor<D>),
        state: Option<AdamWState<D>>,
        guarded: &Guarded,
    ) -> (Tensor<D>, AdamWState<D>) {
        let old = state.map_or_else(
            || {
                let zeros = Tensor::zeros_like(&gradient);
                AdaptiveMomentumState::new(0, zeros.clone(), zeros)
            },
            |state| state.momentum,
        );
        let moment = |old: &Tensor<D>, new: Tensor<D>, beta: f32| {
            let new = old.clone().mul_scalar(beta) + new.mul_scalar(1.0 - beta);
            guarded.finite.choose(new, old.clone())
        };
        let first = moment(&old.moment_1, gradient.clone(), BETA_1);
        let second = moment(&old.moment_2, gradient.square(), BETA_2);
        let [c1, c2] = guarded.corrections.clone().map(|c| c.reshape([1; D]));
        let scale = (second.clone() / c2).sqrt().add_scalar(EPSILON);
        let delta = first.clone() / c1 / scale;
        let decayed = tensor
            .clone()
            .mul_scalar(1.0 - rate * f64::from(self.weight_decay));
        let stepped = decayed - delta.mul_scalar(rate);
        let state = AdaptiveMomentumState::new(old.time + 1, first, second);
        let tensor = guarded.finite.choose(stepped, tensor);
        (tensor, AdamWState::new(state))
    }
}

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
        // Running state isn't trained.
        if !param.val().is_require_grad() {
            return;
        }
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
                let data = |tensor: &Tensor<D>| tensor.clone().try_into_data().ok();
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
            } => (*time, Some(first.clone()), Some(second.clone())),
        };
        out.push_scalar(prefix, "time", time.into());
        // Burn lets no error out of here. What the device didn't give is missing, and `check_record` says so.
        for (name, data) in [("first", first), ("second", second)] {
            if let Some(data) = data {
                out.push_tensor(prefix, name, data);
            }
        }
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
        if let Some(guarded) = self.guard.get() {
            let (tensor, state) = self.guarded(lr, (tensor, grad), state, &guarded);
            return (tensor, Some(Moments::Live(state)));
        }
        let (tensor, state) = self.plain.step(lr, tensor, grad, state);
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
    use burn::optim::{GradientsParams, ModuleOptimizer};
    use burn_pack::{Scalar, Writer};

    /// A module after two steps, and its optimizer's record.
    fn trained() -> (RmsNorm, Bytes) {
        let device = Device::flex().autodiff();
        let mut module = RmsNormConfig::new(3).init(&device);
        let mut optimizer = ModuleOptimizer::from(Adam::new(0.01).0);
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
