use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use burn::nn::{Linear, LinearConfig, RmsNorm, RmsNormConfig};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, TensorData};
use burn_pack::{Scalar, Writer};
use moebius::ErrorKind;
use moebius::fp8::training::{LossScaler, LossScaling, MomentReads, MomentStore};

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

/// A layer with a matrix and a bias after four steps with moments in `store`: the third, whose gradients overflow, is skipped by a guard, or
/// not taken. Before the last step another optimizer takes the moments over by a record.
fn stepped(store: Option<&MomentStore>, guarded: bool) -> [TensorData; 2] {
    let device = Device::flex().autodiff();
    let made = || {
        let (adam, guard) = adam(0.01);
        if let Some(store) = store {
            guard.keep_moments_in(store.clone());
        }
        (ModuleOptimizer::from(adam), guard)
    };
    let mut layer: Linear = LinearConfig::new(3, 5).init(&device);
    layer.weight = Param::from_tensor(Tensor::full([3, 5], 0.5, &device));
    layer.bias = Some(Param::from_tensor(Tensor::full([5], -0.25, &device)));
    let (mut optimizer, mut guard) = made();
    let scaler = LossScaler::new(LossScaling::Static { scale: 8.0 }, &device).unwrap();
    for (step, input) in [0.5, -1.0, f32::INFINITY, 2.0].into_iter().enumerate() {
        if !guarded && !input.is_finite() {
            continue;
        }
        if step == 3 {
            let (record, powers) = (optimizer.to_record(), guard.powers().unwrap());
            (optimizer, guard) = made();
            optimizer = optimizer.load_record(record);
            guard.set_powers(powers, &device);
        }
        let x = Tensor::<2>::full([2, 3], input, &device);
        let loss = layer.forward(x).powi_scalar(2).mean();
        let mut gradients = scaler.scale(loss).backward();
        let finite = scaler.unscale(&mut gradients, &layer);
        if guarded {
            guard.set(&finite);
        }
        let gradients = GradientsParams::from_grads(gradients, &layer);
        layer = optimizer.step(0.1, layer, gradients);
        guard.settle().unwrap();
    }
    let record = optimizer.to_record().into_bytes().unwrap();
    check_record(&record, &layer, if guarded { 4 } else { 3 }).unwrap();
    let bias = layer.bias.unwrap().val().into_data();
    [layer.weight.val().into_data(), bias]
}

/// Moments in main memory or in a file change no bit, also where a step is skipped and a record goes from one optimizer to another.
#[test]
fn moments_that_are_kept_elsewhere_change_no_weight() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("moments");
    for guarded in [false, true] {
        let want = stepped(None, guarded);
        assert_eq!(stepped(Some(&MomentStore::host()), guarded), want);
        let store = MomentStore::file(&path).unwrap();
        assert_eq!(stepped(Some(&store), guarded), want);
        // Each of two optimizers had two moments of 15 and of 5 values, of four bytes each.
        assert_eq!(path.metadata().unwrap().len(), 2 * 2 * 20 * 4);
        assert!(MomentStore::file(&path).is_err());
        drop(store);
        assert!(!path.exists());
    }
}

/// A layer after three steps, with moments in `store`; `between` looks at it after each.
fn wide(store: Option<&MomentStore>, mut between: impl FnMut(usize)) -> [TensorData; 2] {
    let device = Device::flex().autodiff();
    let (adam, guard) = adam(0.01);
    if let Some(store) = store {
        guard.keep_moments_in(store.clone());
    }
    let mut optimizer = ModuleOptimizer::from(adam);
    let mut layer: Linear = LinearConfig::new(300, 100).init(&device);
    layer.weight = Param::from_tensor(Tensor::full([300, 100], 0.5, &device));
    layer.bias = Some(Param::from_tensor(Tensor::full([100], -0.25, &device)));
    for step in 0..3 {
        let x = Tensor::<2>::full([2, 300], 0.5 - step as f64, &device);
        let loss = layer.forward(x).powi_scalar(2).mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &layer);
        layer = optimizer.step(0.1, layer, gradients);
        guard.settle().unwrap();
        between(step);
    }
    let bias = layer.bias.unwrap().val().into_data();
    [layer.weight.val().into_data(), bias]
}

/// What an update takes first has been read when it begins, never more than the bound is held, and the rest comes while it goes on.
#[test]
fn moments_in_a_file_are_read_before_an_update_asks() {
    let folder = tempfile::tempdir().unwrap();
    let store = MomentStore::file(&folder.path().join("moments")).unwrap();
    // Two moments of a matrix and a bias, in f32.
    let moments = 2 * 4 * (300 * 100 + 100);
    let bound = MomentStore::read_ahead(moments);
    assert_eq!(bound, 64 << 10);
    let got = wide(Some(&store), |step| {
        let late = Instant::now() + Duration::from_secs(60);
        // Nobody asks for moments between two steps.
        while store.reads().held < bound {
            assert!(Instant::now() < late, "{:?}", store.reads());
            thread::sleep(Duration::from_millis(1));
        }
        let reads = store.reads();
        assert_eq!((reads.held, reads.most), (bound, bound));
        let updates = step as u64;
        assert_eq!(reads.taken, updates * moments);
        assert!(reads.ahead >= updates * bound && reads.ahead <= reads.taken);
    });
    assert_eq!(got, wide(None, |_| ()));
    let host = MomentStore::host();
    assert_eq!(wide(Some(&host), |_| ()), got);
    assert_eq!(host.reads(), MomentReads::default());
    // The bound follows the size, from all of a small file on.
    assert_eq!([0, 160].map(MomentStore::read_ahead), [0, 160]);
    assert_eq!(MomentStore::read_ahead(1 << 40), 64 << 20);
}

/// Moments that a file has lost, more than are read ahead, are an error of this step and of all later ones.
#[test]
fn a_file_that_lost_moments_ends_a_training() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("moments");
    let device = Device::flex().autodiff();
    let (adam, guard) = adam(0.01);
    guard.keep_moments_in(MomentStore::file(&path).unwrap());
    let mut optimizer = ModuleOptimizer::from(adam);
    let mut norm: RmsNorm = RmsNormConfig::new(20_000).init(&device);
    let mut step = || {
        let loss = norm.forward(Tensor::<2>::ones([1, 20_000], &device)).sum();
        let gradients = GradientsParams::from_grads(loss.backward(), &norm);
        norm = optimizer.step(0.1, norm.clone(), gradients);
        guard.settle()
    };
    step().unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(4).unwrap();
    for _ in 0..2 {
        let error = step().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State);
        let said = "the file of an optimizer: expected moments to be written and read, got ";
        assert!(error.to_string().starts_with(said), "{error}");
    }
}
