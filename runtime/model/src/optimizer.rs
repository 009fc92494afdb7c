//! The optimizer of the trainings: AdamW, the check of its records, gradient clipping, and the count of trained parameters.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Bytes, DType, Device, Tensor};
use burn_pack::Reader;
use moebius::fp8::training::{GuardedAdamW, GuardedAdamWConfig, StepGuard};
use moebius::reduce::sum_dim;

use crate::error::{CheckpointError, Error};

/// AdamW, and the guard that skips steps whose gradients overflowed.
pub(crate) fn adam(weight_decay: f32) -> (GuardedAdamW, StepGuard) {
    GuardedAdamW::new(GuardedAdamWConfig {
        // AdamW forgets old squares after about a hundred steps, which suits short trainings.
        beta_2: 0.99,
        epsilon: 1e-5,
        weight_decay,
        ..GuardedAdamWConfig::default()
    })
}

/// Checks that an optimizer's record holds both moments of every parameter of `module`, after `step`
/// steps, and nothing else.
///
/// Burn panics at some wrong records, and restarts moments that a record lacks.
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
        // The number type of a scalar depends on what wrote the record.
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

/// Entries of a record by name, each described as text.
type Entries = BTreeMap<String, String>;

/// The entries that a record must have to fit the visited parameters.
struct Expected {
    step: usize,
    entries: Entries,
}

impl ModuleVisitor for Expected {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // Running state isn't trained and has no moments.
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

/// Scales all gradients so that their common norm is at most `longest`.
///
/// Burn's own clipping norms one parameter at a time, and its sum over all elements adds atomically on some devices, so that two runs
/// differ.
pub(crate) fn clip<M: Module>(
    module: &M,
    mut gradients: GradientsParams,
    longest: f32,
) -> GradientsParams {
    let mut squares = Squares {
        gradients: &gradients,
        sum: None,
    };
    module.visit(&mut squares);
    let Some(sum) = squares.sum else {
        return gradients;
    };
    let factor = sum.sqrt().clamp_min(longest).recip() * longest;
    module.visit(&mut Scale {
        gradients: &mut gradients,
        factor,
    });
    gradients
}

/// Sum of the squares of all gradients \[1,1\].
struct Squares<'a> {
    gradients: &'a GradientsParams,
    sum: Option<Tensor<2>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.get::<D>(param.id) else {
            return;
        };
        // A device failure shows when the tensors are read.
        let _ = moebius::keep_pace(&gradient.device());
        let elements = gradient.shape().num_elements();
        // A sum along one axis has a fixed order.
        let square: Tensor<2> = gradient.square().reshape([1, elements]);
        let square = sum_dim(square, 1);
        self.sum = Some(match self.sum.take() {
            Some(sum) => sum + square,
            None => square,
        });
    }
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: Tensor<2>,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            let factor = self.factor.clone().reshape([1; D]);
            self.gradients.register(param.id, gradient * factor);
        }
    }
}

/// Number of trained parameters of `module`.
pub(crate) fn parameters<M: Module>(module: &M) -> usize {
    let mut count = Count(0);
    module.visit(&mut count);
    count.0
}

struct Count(usize);

impl ModuleVisitor for Count {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let param = param.val();
        if param.is_require_grad() {
            self.0 += param.shape().num_elements();
        }
    }
}

/// Waits for `device` and reads all parameters of `module`, because Burn panics when it makes a record of parameters that a device failed
/// to compute.
///
/// # Errors
/// [`Error::Device`] when the device failed.
pub(crate) fn check_readable<M: Module>(module: &M, device: &Device) -> Result<(), Error> {
    device.sync().map_err(Error::device)?;
    let mut read = Read(Ok(()));
    module.visit(&mut read);
    read.0
}

struct Read(Result<(), Error>);

impl ModuleVisitor for Read {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.0.is_ok() {
            // Lazy data may fail only when its values are read.
            let values = param.val().try_into_vec_as::<f32>();
            self.0 = values.map(drop).map_err(Error::device);
        }
    }
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "adam_tests.rs"]
mod adam_tests;

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "clip_tests.rs"]
mod clip_tests;
