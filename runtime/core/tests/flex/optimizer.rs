//! AdamW whose steps the device can skip.

use burn::module::Param;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use moebius::fp8::training::{GuardedAdamW, GuardedAdamWConfig, LossScaler, LossScaling};

const CONFIG: GuardedAdamWConfig = GuardedAdamWConfig {
    beta_1: 0.9,
    beta_2: 0.99,
    epsilon: 1e-5,
    weight_decay: 0.1,
};

fn layer(device: &Device) -> Linear {
    let mut layer = LinearConfig::new(3, 1).with_bias(false).init(device);
    let weight = Tensor::from_floats([[0.5], [-1.0], [2.0]], device);
    layer.weight = Param::from_tensor(weight);
    layer
}

fn weights(layer: &Linear) -> Vec<f32> {
    layer.weight.val().into_data().iter::<f32>().collect()
}

/// Returns the weights after one step per entry of `inputs`; steps that aren't finite are either skipped by a guard or not taken.
fn trained(inputs: &[f32], guarded: bool) -> (Vec<f32>, [f32; 2]) {
    let device = Device::flex().autodiff();
    let (adam, guard) = GuardedAdamW::new(CONFIG);
    let (mut layer, mut optimizer) = (layer(&device), ModuleOptimizer::from(adam));
    let scaler = LossScaler::new(LossScaling::Static { scale: 8.0 }, &device).unwrap();
    for input in inputs.iter().filter(|x| guarded || x.is_finite()) {
        let x = Tensor::<2>::full([2, 3], *input, &device);
        let loss = layer.forward(x).powi_scalar(2).mean();
        let mut gradients = scaler.scale(loss).backward();
        let finite = scaler.unscale(&mut gradients, &layer);
        if guarded {
            guard.set(&finite);
        }
        let gradients = GradientsParams::from_grads(gradients, &layer);
        layer = optimizer.step(0.1, layer, gradients);
    }
    (weights(&layer), guard.powers().unwrap())
}

#[test]
fn steps_that_do_not_count_leave_no_trace() {
    let inputs = [1.0, f32::INFINITY, 0.5, f32::NAN, -2.0];
    let ((guarded, powers), (plain, _)) = (trained(&inputs, true), trained(&inputs, false));
    for (guarded, plain) in guarded.iter().zip(&plain) {
        assert!((guarded - plain).abs() < 1e-5, "{guarded} for {plain}");
    }
    assert!((powers[0] - 0.9_f32.powi(3)).abs() < 1e-6, "{powers:?}");
    assert!((powers[1] - 0.99_f32.powi(3)).abs() < 1e-6, "{powers:?}");
}

/// The sum of several batches' gradients is finite only if each of them is.
#[test]
fn one_overflow_is_that_of_all_batches() {
    let device = Device::flex().autodiff();
    let layer = layer(&device);
    let scaler = LossScaler::new(LossScaling::Static { scale: 8.0 }, &device).unwrap();
    let finite = |input: f32| {
        let x = Tensor::<2>::full([2, 3], input, &device);
        let loss = layer.forward(x).powi_scalar(2).mean();
        scaler.unscale(&mut scaler.scale(loss).backward(), &layer)
    };
    for (inputs, want) in [
        ([1.0, 0.5], true),
        ([1.0, f32::INFINITY], false),
        ([f32::NAN, 1.0], false),
        ([f32::NAN, f32::INFINITY], false),
    ] {
        let [one, other] = inputs.map(finite);
        assert_eq!(one.and(&other).read().unwrap(), want, "{inputs:?}");
    }
}

#[test]
fn a_guard_goes_on_after_a_checkpoint() {
    let (_, guard) = GuardedAdamW::new(CONFIG);
    assert_eq!(guard.powers().unwrap(), [1.0, 1.0]);
    guard.set_powers([0.5, 0.25], &Device::flex());
    assert_eq!(guard.powers().unwrap(), [0.5, 0.25]);
}
