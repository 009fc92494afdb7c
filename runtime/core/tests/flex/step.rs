//! Steps of FP8 training.

use burn::module::Param;
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use moebius::fp8::training::{
    Fp8Recipe, Fp8Training, GuardedAdamW, GuardedAdamWConfig, LossScaling,
};
use moebius::nn::Linear;

const SCALING: LossScaling = LossScaling::Static { scale: 8.0 };

fn layer(device: &Device) -> Linear {
    let weight = Tensor::<2>::from_floats([[0.5, -1.0, 2.0, 0.25]], device);
    let layer = Linear::new(Param::from_tensor(weight), None).unwrap();
    layer.in_fp8(Fp8Recipe::delayed()).unwrap()
}

/// Returns the values of a layer, followed by the FP8 scales of its inputs, weights and gradients.
fn state(layer: &Linear) -> Vec<f32> {
    let product = layer.weight.product().unwrap();
    let scales = product.state.as_ref().unwrap().scales.value_sync();
    let values = layer.weight.values().unwrap().into_data();
    let scales = scales.into_data();
    values.iter::<f32>().chain(scales.iter::<f32>()).collect()
}

/// Returns the state of a layer after one step per factor, along the gradient of the mean of y² times the factor.
fn trained(training: &Fp8Training, mut optimizer: ModuleOptimizer, factors: &[f32]) -> Vec<f32> {
    let device = Device::flex().autodiff();
    let mut layer = layer(&device);
    for factor in factors {
        let y = layer.forward(Tensor::<2>::ones([2, 4], &device)).unwrap();
        let loss = y.powi_scalar(2).mean().mul_scalar(*factor);
        layer = training.step(loss, &mut optimizer, 0.1, layer).unwrap();
    }
    state(&layer)
}

#[test]
fn steps_without_finite_gradients_leave_module_and_optimizer_alone() {
    let device = Device::flex().autodiff();
    let with = |factors: &[f32]| {
        let training = Fp8Training::new(SCALING, &device).unwrap();
        let state = trained(&training, AdamConfig::new().init(), factors);
        (state, training.scaler().read().unwrap().skipped_steps)
    };
    let (all, skipped) = with(&[1.0, f32::INFINITY, 0.5, f32::NAN, -2.0]);
    let (finite, none) = with(&[1.0, 0.5, -2.0]);
    assert_eq!(all, finite);
    assert_eq!([skipped, none], [2, 0]);
}

#[test]
fn a_guarded_optimizer_takes_the_same_steps() {
    let device = Device::flex().autodiff();
    let factors = [1.0, f32::INFINITY, 0.5, 2.0];
    let with = |guarded: bool| {
        let (adam, guard) = GuardedAdamW::new(GuardedAdamWConfig::default());
        let training = Fp8Training::new(SCALING, &device).unwrap();
        let training = if guarded {
            training.with_guard(guard)
        } else {
            training
        };
        let state = trained(&training, adam.into(), &factors);
        assert_eq!(training.scaler().read().unwrap().skipped_steps, 1);
        state
    };
    for (guarded, read) in with(true).into_iter().zip(with(false)) {
        assert!((guarded - read).abs() < 1e-5, "{guarded} for {read}");
    }
}

#[test]
fn without_loss_scaling_each_step_counts() {
    let device = Device::flex().autodiff();
    let training = Fp8Training::new(LossScaling::Off, &device).unwrap();
    let moved = trained(&training, AdamConfig::new().init(), &[1.0]);
    let before = state(&layer(&device));
    assert!(
        moved
            .iter()
            .zip(&before)
            .all(|(moved, before)| moved != before)
    );
}
