//! Tests of captured functions as programs of the CPU plugin.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{DType, Device, Distribution, Int, Tensor, TensorData};
use moebius_pjrt::{DiskCache, Platform};
use moebius_xla::{CompileError, CompiledFunction, Machine, RunError, Spec, client};
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

fn machine() -> Machine {
    let client = client(Platform::Cpu).unwrap_or_else(|error| panic!("{error}"));
    Machine::new(client.device(0).unwrap()).unwrap()
}

fn linear(scale: f32) -> Linear {
    let mut linear = LinearConfig::new(6, 3).init(&Device::flex());
    linear.weight = linear.weight.map(|w| w.ones_like() * scale);
    linear
}

fn compiled(machine: &Machine, linear: &Linear) -> CompiledFunction {
    let specs = Spec::<2>::new([4, 6], DType::F32);
    CompiledFunction::compile(machine, &specs, &[], |device, x: Tensor<2>| {
        linear.clone().fork(device).forward(x)
    })
    .unwrap()
}

fn floats(data: &TensorData) -> Vec<f32> {
    data.try_to_vec().unwrap()
}

#[test]
fn equals_flex_and_is_called_again() {
    let (machine, linear) = (machine(), LinearConfig::new(6, 3).init(&Device::flex()));
    let compiled = compiled(&machine, &linear);
    for bound in [0.5, 2.0] {
        let x = Tensor::<2>::random(
            [4, 6],
            Distribution::Uniform(-bound, bound),
            &Device::flex(),
        );
        let expected = floats(&linear.forward(x.clone()).into_data());
        let got = floats(&compiled.call(&[x.into_data()]).unwrap()[0]);
        for (got, expected) in got.iter().zip(&expected) {
            assert!((got - expected).abs() < 1e-5, "{got} instead of {expected}");
        }
    }
}

#[test]
fn one_program_never_another_models_parameters() {
    let machine = machine();
    let (one, two) = (
        compiled(&machine, &linear(1.0)),
        compiled(&machine, &linear(2.0)),
    );
    assert!(
        Arc::ptr_eq(one.executable(), two.executable()),
        "the text is the same, so the program is"
    );
    let x = TensorData::new(vec![1.0_f32; 24], [4, 6]);
    let y = |function: &CompiledFunction| {
        floats(&function.call(std::slice::from_ref(&x)).unwrap()[0])[0]
    };
    let bias = floats(&linear(1.0).bias.unwrap().val().into_data()).len();
    assert_eq!(bias, 3);
    assert!((y(&two) - y(&one)).abs() > 5.0);
}

#[test]
fn programs_are_kept_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let files = || {
        let entries = folder.path().read_dir().unwrap();
        let file = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            let used = path.metadata().unwrap().modified().unwrap();
            (path, used)
        };
        entries.map(file).collect::<Vec<_>>()
    };
    let linear = linear(0.5);
    let run = || {
        let cache = DiskCache::new(folder.path(), 1 << 24).unwrap();
        let compiled = compiled(&machine().with_cache(cache), &linear);
        let x = TensorData::new(vec![1.0_f32; 24], [4, 6]);
        floats(&compiled.call(&[x]).unwrap()[0])
    };
    let first = run();
    let kept = files();
    assert_eq!(kept.len(), 1);
    let seconds_ago = SystemTime::now() - Duration::from_secs(9);
    let file = File::options().append(true).open(&kept[0].0).unwrap();
    file.set_modified(seconds_ago).unwrap();
    assert_eq!(run(), first);
    // The file was read, and a use makes it the newest.
    assert!(files()[0].1 > seconds_ago && files().len() == 1);
}

#[test]
fn donated_inputs_are_used_up() {
    let machine = machine();
    let specs = (
        Spec::<1>::new([1024], DType::F32),
        Spec::<1>::new([1024], DType::F32),
    );
    let add = |_: &Device, (x, y): (Tensor<1>, Tensor<1>)| x + y;
    let compiled = CompiledFunction::compile(&machine, &specs, &[0], add).unwrap();
    let values = TensorData::new(vec![1.5_f32; 1024], [1024]);
    let upload = || moebius_xla::upload(&machine, &values).unwrap();
    let (x, y) = (upload(), upload());
    let address = x.address().unwrap();
    let sum = compiled.run(vec![x, y.clone()]).unwrap().remove(0);
    assert_eq!(sum.address().unwrap(), address);
    assert_eq!(sum.read().unwrap()[..4], 3.0_f32.to_le_bytes());
    // A donated buffer that has another holder is kept.
    let again = compiled.run(vec![sum.clone(), y]).unwrap().remove(0);
    assert_ne!(again.address().unwrap(), address);
    assert!(!sum.is_deleted().unwrap());
    let refused = CompiledFunction::compile(&machine, &specs, &[0, 1], add);
    assert!(
        matches!(refused, Err(CompileError::Lower(_))),
        "{refused:?}"
    );
}

#[test]
fn wrong_calls_are_refused() {
    let machine = machine();
    let compiled = compiled(&machine, &linear(1.0));
    let none = compiled.call(&[]).unwrap_err();
    assert_eq!(none.to_string(), "expected 1 inputs, got 0");
    // The same number of bytes in another shape or dtype.
    let turned = TensorData::new(vec![1.0_f32; 24], [6, 4]);
    assert!(matches!(compiled.call(&[turned]), Err(RunError::Plugin(_))));
    let integers = TensorData::new(vec![1_i32; 24], [4, 6]);
    assert!(matches!(
        compiled.call(&[integers]),
        Err(RunError::Plugin(_))
    ));
    let elsewhere = CompiledFunction::compile(
        &machine,
        &Spec::<1>::new([2], DType::F32),
        &[],
        |_, _: Tensor<1>| Tensor::<1>::zeros([2], &Device::flex()),
    );
    assert_eq!(
        elsewhere.unwrap_err().to_string(),
        "expected 1 outputs of the capturing device, got 0"
    );
    let specs = Spec::<1>::new([2], DType::F32);
    let reads = |_: &Device, x: Tensor<1>| {
        let sum = floats(&x.clone().sum().into_data())[0];
        x * sum
    };
    let reads = CompiledFunction::compile(&machine, &specs, &[], reads);
    assert!(
        matches!(&reads, Err(CompileError::Function { reason }) if !reason.is_empty()),
        "{reads:?}"
    );
    let again =
        CompiledFunction::compile(&machine, &specs, &[], |_, x: Tensor<1>| x + 1.0).unwrap();
    let one = again.call(&[TensorData::new(vec![0.0_f32; 2], [2])]);
    assert_eq!(floats(&one.unwrap()[0]), [1.0; 2]);
}

#[test]
fn random_numbers_go_on_and_start_again() {
    let machine = machine();
    let draw = |device: &Device, _: Tensor<1, Int>| {
        Tensor::<1>::random([64], Distribution::Normal(0.0, 1.0), device)
    };
    let specs = Spec::<1, Int>::new([1], DType::I32);
    let compiled = CompiledFunction::compile(&machine, &specs, &[], draw).unwrap();
    let call = || floats(&compiled.call(&[TensorData::new(vec![0_i32], [1])]).unwrap()[0]);
    compiled.seed(3).unwrap();
    let (first, second) = (call(), call());
    assert_ne!(first, second);
    compiled.seed(3).unwrap();
    assert_eq!(call(), first);
}
