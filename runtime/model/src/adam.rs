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
mod tests {
    use super::*;
    use burn::nn::{RmsNorm, RmsNormConfig};
    use burn::optim::{GradientsParams, ModuleOptimizer};
    use burn::tensor::Device;
    use burn_pack::{Scalar, Writer};

    /// A module after two steps, and its optimizer's record.
    fn trained() -> (RmsNorm, Bytes) {
        let device = Device::flex().autodiff();
        let mut module = RmsNormConfig::new(3).init(&device);
        let mut optimizer = ModuleOptimizer::from(adam(0.01).0);
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
