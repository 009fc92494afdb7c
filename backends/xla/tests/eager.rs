//! Tests that ordinary tensors on the CPU plugin give the same results as on Flex, gradients and training included.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::module::deform_conv2d;
use burn::tensor::ops::DeformConvOptions;
use burn::tensor::{Device, Distribution, Tensor, TensorData, activation};
use moebius_pjrt::Platform;
use moebius_xla::{activity, eager::Activity, mark_step, open};
use processor::{alone, assert_close, xla};
use std::thread;

mod processor;

/// Counts what the device does during `work`.
fn during<T>(work: impl FnOnce() -> T) -> (Activity, T) {
    let before = activity(Platform::Cpu, 0).unwrap();
    let result = work();
    let after = activity(Platform::Cpu, 0).unwrap();
    let done = Activity {
        compiled: after.compiled - before.compiled,
        runs: after.runs - before.runs,
    };
    (done, result)
}

fn values(n: usize, seed: u32) -> Vec<f32> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 8) as f32 / (1 << 23) as f32 - 1.0)
    };
    (0..n).scan(seed, |state, _| next(state)).collect()
}

fn matrix(device: &Device, [rows, columns]: [usize; 2], seed: u32) -> Tensor<2> {
    Tensor::from_data(
        TensorData::new(values(rows * columns, seed), [rows, columns]),
        device,
    )
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

#[test]
fn a_product_and_an_activation() {
    let _alone = alone();
    let product = |device: &Device| {
        let (x, w) = (matrix(device, [5, 7], 1), matrix(device, [7, 3], 2));
        floats(activation::gelu(x.matmul(w) + 0.5).sum_dim(0))
    };
    assert_close(&product(&xla()), &product(&Device::flex()));
}

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    second: Linear,
    /// Layers between the first and the second, one after the other.
    middle: Vec<Linear>,
}

impl Net {
    fn new(device: &Device, depth: usize) -> Self {
        let mut seed = 10;
        let mut linear = |[from, to]: [usize; 2]| {
            let mut linear = LinearConfig::new(from, to).init(device);
            seed += 1;
            linear.weight = Param::from_tensor(matrix(device, [from, to], seed));
            linear.bias = Some(Param::from_tensor(Tensor::zeros([to], device)));
            linear
        };
        Self {
            first: linear([6, 16]),
            second: linear([16, 2]),
            middle: (0..depth).map(|_| linear([16, 16])).collect(),
        }
    }

    fn loss(&self, x: Tensor<2>, goal: Tensor<2>) -> Tensor<1> {
        let mut hidden = activation::silu(self.first.forward(x));
        for linear in &self.middle {
            hidden = hidden.clone() + linear.forward(hidden);
        }
        (self.second.forward(hidden) - goal).powi_scalar(2).mean()
    }
}

/// What ends a training step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Boundary {
    /// The step's loss is read.
    Read,
    Mark,
    Nothing,
}

/// Trains a network and returns its losses: that of each step if it is read, and the last.
fn train(device: Device, steps: usize, boundary: Boundary) -> Vec<f32> {
    train_deep(device, steps, boundary, 0)
}

fn train_deep(device: Device, steps: usize, boundary: Boundary, depth: usize) -> Vec<f32> {
    let device = device.autodiff();
    let mut net = Net::new(&device, depth);
    let mut adam = AdamConfig::new().init();
    let (x, goal) = (matrix(&device, [32, 6], 3), matrix(&device, [32, 2], 4));
    let mut losses = Vec::new();
    for step in 0..steps {
        let loss = net.loss(x.clone(), goal.clone());
        if boundary == Boundary::Read {
            losses.push(floats(loss.clone().inner())[0]);
        }
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        net = adam.step(0.02 / (1.0 + step as f64 * 0.01), net, grads);
        if boundary == Boundary::Mark {
            mark_step(Platform::Cpu, 0).unwrap();
        }
    }
    losses.push(floats(net.loss(x, goal).inner())[0]);
    losses
}

#[test]
fn training_follows_flex() {
    let _alone = alone();
    let (got, expected) = (
        train(xla(), 20, Boundary::Read),
        train(Device::flex(), 20, Boundary::Read),
    );
    assert!(expected[20] < expected[0] / 2.0, "{expected:?}");
    assert_close(&got, &expected);
}

#[test]
fn a_loop_without_steps_is_one_program() {
    let _alone = alone();
    let (done, losses) = during(|| train(xla(), 6, Boundary::Nothing));
    assert_close(&losses, &train(Device::flex(), 6, Boundary::Nothing));
    assert_eq!(done.runs, 1);
}

#[test]
fn a_training_step_is_one_program() {
    let _alone = alone();
    train(xla(), 3, Boundary::Read);
    let (done, _) = during(|| train(xla(), 20, Boundary::Read));
    // Twenty steps, and the loss at the end.
    assert_eq!(done.runs, 21);
    // A step has a few forms: a tensor may be dropped before or after a result is read.
    assert!(done.compiled <= 6, "{done:?}");
}

#[test]
fn a_loop_that_marks_its_steps_repeats_a_program() {
    let _alone = alone();
    let (done, _) = during(|| train(xla(), 200, Boundary::Mark));
    assert!(done.runs > 100 && done.compiled < 10, "{done:?}");
}

/// The gradients of many parameters are dropped in another order in each step; the program stays the same.
#[test]
fn the_order_of_drops_makes_no_other_program() {
    let _alone = alone();
    let (done, losses) = during(|| train_deep(xla(), 60, Boundary::Mark, 20));
    assert_close(
        &losses,
        &train_deep(Device::flex(), 60, Boundary::Nothing, 20),
    );
    assert!(done.runs > 30 && done.compiled < 20, "{done:?}");
}

/// Threads don't share programs: the steps of several threads in one program would be mixed differently each time.
#[test]
fn threads_side_by_side_compute_what_each_would_alone() {
    let _alone = alone();
    let one = train(xla(), 20, Boundary::Read);
    let (done, all) = during(|| {
        thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| train(xla(), 20, Boundary::Read)));
            threads.map(|thread| thread.join().unwrap())
        })
    });
    assert_eq!(all, [one.clone(), one.clone(), one.clone(), one]);
    // A few forms of a step, as in the test above, rather than one for each run.
    assert!(done.runs == 4 * 21 && done.compiled < 20, "{done:?}");
}

/// Neither thread knows when the other's operations run.
#[test]
fn threads_take_and_drop_tensors_of_each_other() {
    let _alone = alone();
    let expected = matrix(&Device::flex(), [4, 4], 50).matmul(matrix(&Device::flex(), [4, 4], 51));
    let (x, w) = (matrix(&xla(), [4, 4], 50), matrix(&xla(), [4, 4], 51));
    let half = |x: Tensor<2>| thread::spawn(move || x * 0.5).join().unwrap();
    // One thread records the product; the other takes it, drops its operands, and uses them.
    let product = x.clone().matmul(w.clone());
    let (x, halves) = (half(x), half(product.clone()));
    thread::spawn(move || drop(w)).join().unwrap();
    assert_close(&floats(halves * 2.0), &floats(expected.clone()));
    let expected_x = matrix(&Device::flex(), [4, 4], 50) * 0.5;
    assert_close(&floats(x), &floats(expected_x));
    // Recorded by another thread, and dropped here before it runs.
    drop(half(product.clone()));
    assert_close(&floats(product), &floats(expected));
}

/// Whether a run consumes its inputs doesn't make another program, unless it is the same for many runs.
#[test]
fn one_program_whoever_holds_its_inputs() {
    let _alone = alone();
    let device = xla();
    let expected = floats(matrix(&Device::flex(), [7, 5], 40) * 3.0);
    let compiled = || activity(Platform::Cpu, 0).unwrap().compiled;
    let used_up = || assert_close(&floats(matrix(&device, [7, 5], 40) * 3.0), &expected);
    let kept = || {
        let x = matrix(&device, [7, 5], 40);
        assert_close(&floats(x.clone() * 3.0), &expected);
        assert_close(&floats(x), &floats(matrix(&Device::flex(), [7, 5], 40)));
    };
    let before = compiled();
    for _ in 0..3 {
        used_up();
        kept();
        kept();
    }
    assert_eq!(compiled() - before, 1);
    (0..10).for_each(|_| kept());
    assert_eq!(compiled() - before, 2);
    used_up();
    kept();
    assert_eq!(compiled() - before, 2);
}

/// NaN differs from itself, and the zeros are equal: neither may tell programs apart, nor be confused.
#[test]
fn numbers_are_no_part_of_a_program() {
    let _alone = alone();
    let device = xla();
    let fill = |number: f32| {
        let x = matrix(&device, [9, 5], 60);
        floats(x.clone().mask_fill(x.greater_elem(0.0), number))
    };
    let (done, filled) = during(|| [0.0, -0.0, f32::NAN, f32::NAN, 0.5].map(fill));
    assert_eq!(done.compiled, 1);
    let before = values(45, 60);
    for (number, filled) in [0.0, -0.0, f32::NAN, f32::NAN, 0.5].iter().zip(filled) {
        let expected = before.iter().map(|x| if *x > 0.0 { number } else { x });
        let bits: Vec<u32> = filled.iter().map(|x| x.to_bits()).collect();
        assert_eq!(bits, expected.map(|x| x.to_bits()).collect::<Vec<_>>());
    }
}

#[test]
fn weights_of_two_models_of_one_structure_stay_apart() {
    let _alone = alone();
    let device = xla();
    let (one, two) = (matrix(&device, [8, 8], 20), matrix(&device, [8, 8], 21));
    let product = |w: &Tensor<2>| floats(matrix(&device, [2, 8], 22).matmul(w.clone()));
    let flex = Device::flex();
    let expected = |seed| floats(matrix(&flex, [2, 8], 22).matmul(matrix(&flex, [8, 8], seed)));
    for _ in 0..2 {
        assert_close(&product(&one), &expected(20));
        assert_close(&product(&two), &expected(21));
    }
}

#[test]
fn seeds_repeat_and_numbers_differ() {
    let _alone = alone();
    let device = xla();
    let draw = || floats(Tensor::<1>::random([256], Distribution::Default, &device));
    device.seed(5);
    let (first, second) = (draw(), draw());
    assert_ne!(first, second);
    device.seed(5);
    assert_eq!(draw(), first);
    assert!(first.iter().all(|x| (0.0..1.0).contains(x)));
}

#[test]
fn devices_exchange_tensors() {
    let _alone = alone();
    let other = open(Platform::Cpu, 1).unwrap();
    let x = matrix(&xla(), [3, 4], 30);
    let there = x.clone().to_device(&other) * 2.0;
    let back = there.to_device(&xla());
    assert_close(&floats(back), &floats(x * 2.0));
}

#[test]
fn what_is_missing_is_an_error() {
    let _alone = alone();
    let error = open(Platform::Cpu, 4096).unwrap_err().to_string();
    assert!(error.contains("4096"), "{error}");
    let device = xla();
    let image = matrix(&device, [4, 4], 32).reshape([1, 1, 4, 4]);
    let convolved = deform_conv2d(
        image,
        Tensor::<4>::zeros([1, 18, 2, 2], &device),
        matrix(&device, [3, 3], 33).reshape([1, 1, 3, 3]),
        None,
        None,
        DeformConvOptions::new([1, 1], [0, 0], [1, 1], 1, 1),
    );
    let error = convolved.try_into_data().unwrap_err();
    assert!(format!("{error:?}").contains("DeformableConv2d"), "{error}");
}
