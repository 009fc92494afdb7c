use super::*;
use burn::nn::{RmsNorm, RmsNormConfig};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::Device;
use burn_pack::{Scalar, Writer};

/// A module after two optimizer steps, and the record of its optimizer.
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

/// The optimizer record `record` with its entries changed by `change`.
fn changed(
    record: &Bytes,
    change: impl Fn(&mut Vec<burn_pack::Tensor>, &mut BTreeMap<String, Scalar>),
) -> Bytes {
    let reader = Reader::from_bytes(record.clone()).unwrap();
    let mut scalars = reader.scalars().clone();
    let mut tensors = reader.into_tensors().unwrap();
    change(&mut tensors, &mut scalars);
    let writer = Writer::new(tensors);
    let add = |writer: Writer, (name, value): (&String, &Scalar)| writer.with_scalar(name, *value);
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
