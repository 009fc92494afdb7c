//! The optimizer of the trainings here, and what its records must hold.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bytes, DType, Tensor};
use burn_pack::Reader;
use moebius::fp8::training::{GuardedAdamW, GuardedAdamWConfig, StepGuard};

use crate::error::CheckpointError;

/// AdamW, with the guard of its steps.
pub(crate) fn adam(weight_decay: f32) -> (GuardedAdamW, StepGuard) {
    GuardedAdamW::new(GuardedAdamWConfig {
        // Adam forgets old squares after about a hundred steps, which is what short trainings want.
        beta_2: 0.99,
        epsilon: 1e-5,
        weight_decay,
        ..GuardedAdamWConfig::default()
    })
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

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "adam_tests.rs"]
mod tests;
