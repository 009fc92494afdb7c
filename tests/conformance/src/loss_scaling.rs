//! Loss scaling against a host implementation of its rule.

use crate::tensors::floats;
use burn::module::Param;
use burn::tensor::{Device, Tensor};
use moebius::ErrorKind;
use moebius::fp8::training::{LossScale, LossScaler, LossScaling};
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;

/// The rule of loss scaling on the host.
struct HostScaler {
    now: LossScale,
    interval: u32,
    min: f32,
    max: f32,
}

impl HostScaler {
    fn step(&mut self, finite: bool) {
        let now = &mut self.now;
        if !finite {
            now.skipped_steps += 1;
            now.clean_steps = 0;
            now.scale = (now.scale * 0.5).max(self.min);
            return;
        }
        now.clean_steps += 1;
        if now.clean_steps == self.interval {
            now.clean_steps = 0;
            now.scale = (now.scale * 2.0).min(self.max);
        }
    }
}

/// Dynamic loss scaling within the bounds `min` and `max`.
fn dynamic(initial: f32, interval: u32, [min, max]: [f32; 2]) -> LossScaling {
    LossScaling::Dynamic {
        initial,
        interval,
        min,
        max,
    }
}

/// A parameter whose gradient a test can choose.
fn parameter(device: &Device) -> Param<Tensor<1>> {
    Param::from_tensor(Tensor::from_floats([1.0, 1.0, 1.0], device).require_grad())
}

/// Takes steps with gradients of these kinds; returns the scaler's state after each.
fn scaled_steps(scaler: &LossScaler, kinds: &[f32], device: &Device) -> Vec<LossScale> {
    let weight = parameter(device);
    let step = |kind: &f32| {
        let before = scaler.read().unwrap().scale;
        let dy = Tensor::<1>::from_floats([0.5, *kind, -0.25], device);
        let loss = (weight.val() * dy).sum();
        let mut gradients = scaler.scale(loss).backward();
        let scaled = floats(weight.val().grad(&gradients).unwrap());
        assert_eq!([scaled[0], scaled[2]], [0.5 * before, -0.25 * before]);
        let finite = scaler.unscale(&mut gradients, &weight);
        let got = floats(weight.val().grad(&gradients).unwrap());
        assert_eq!([got[0], got[2]], [0.5, -0.25], "scale {before}");
        assert_eq!(finite.read().unwrap(), kind.is_finite(), "{kind}");
        // `choose` selects on the device, so that a NaN in the rejected `new` doesn't matter.
        let new = weight.val() * Tensor::from_inner(weight.val().grad(&gradients).unwrap());
        let chosen = floats(finite.choose(new, weight.val()));
        assert_eq!(chosen[0], if kind.is_finite() { 0.5 } else { 1.0 });
        assert_eq!(chosen[1], if kind.is_finite() { *kind } else { 1.0 });
        scaler.update(&finite);
        scaler.read().unwrap()
    };
    kinds.iter().map(step).collect()
}

pub(crate) fn halves_and_doubles(target: &Target) {
    let device = target.burn().autodiff();
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let kinds = [
        1.0, 1.0, 1.0, 1.0, 1.0, nan, 1.0, 1.0, inf, -inf, nan, nan, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
        1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
    ];
    let scaling = dynamic(8.0, 3, [2.0, 16.0]);
    let scaler = LossScaler::new(scaling, &device).unwrap();
    let mut host = HostScaler {
        now: scaler.read().unwrap(),
        interval: 3,
        min: 2.0,
        max: 16.0,
    };
    let after = |kind: &f32| {
        host.step(kind.is_finite());
        host.now
    };
    let want: Vec<LossScale> = kinds.iter().map(after).collect();
    assert_eq!(scaled_steps(&scaler, &kinds, &device), want);
    // Worked out by hand: 8; after three clean steps 16, the maximum; halved by NaN, down to the minimum.
    let scales: Vec<f32> = want.iter().map(|now| now.scale).collect();
    let by_hand = [
        8.0, 8.0, 16.0, 16.0, 16.0, 8.0, 8.0, 8.0, 4.0, 2.0, 2.0, 2.0,
    ];
    assert_eq!(scales[..12], by_hand);
}

/// Checks that the scale doubles once in each of six intervals of clean steps.
pub(crate) fn grows_once_an_interval(target: &Target) {
    let device = target.burn().autodiff();
    let scaling = dynamic(1.0, 4, [1.0, 1024.0]);
    let scaler = LossScaler::new(scaling, &device).unwrap();
    let got = scaled_steps(&scaler, &[1.0; 24], &device);
    for (step, now) in got.iter().enumerate() {
        let grown = (step as u32 + 1) / 4;
        assert_eq!(now.scale, (1 << grown) as f32, "after step {step}");
        assert_eq!(now.clean_steps, (step as u32 + 1) % 4);
        assert_eq!(now.skipped_steps, 0);
    }
}

pub(crate) fn fixed_and_off(target: &Target) {
    let device = target.burn().autodiff();
    let nan = f32::NAN;
    let fixed = LossScaler::new(LossScaling::Static { scale: 4.0 }, &device).unwrap();
    let got = scaled_steps(&fixed, &[1.0, nan, 1.0, 1.0], &device);
    let numbers = |now: &LossScale| (now.scale, now.clean_steps, now.skipped_steps);
    let numbers: Vec<_> = got.iter().map(numbers).collect();
    let want = [(4.0, 1, 0), (4.0, 0, 1), (4.0, 1, 1), (4.0, 2, 1)];
    assert_eq!(numbers, want);

    let off = LossScaler::new(LossScaling::Off, &device).unwrap();
    let weight = parameter(&device);
    let dy = Tensor::<1>::from_floats([nan, 2.0, 3.0], &device);
    let mut gradients = off.scale((weight.val() * dy).sum()).backward();
    let finite = off.unscale(&mut gradients, &weight);
    off.update(&finite);
    assert!(finite.read().unwrap());
    let kept = floats(weight.val().grad(&gradients).unwrap());
    assert_eq!(kept[1..], [2.0, 3.0]);
    assert_eq!(off.read().unwrap().skipped_steps, 0);
}

pub(crate) fn refuses_wrong_numbers(target: &Target) {
    let device = target.burn();
    for wrong in [
        LossScaling::Static { scale: 0.0 },
        LossScaling::Static { scale: f32::NAN },
        dynamic(8.0, 0, [1.0, 16.0]),
        dynamic(32.0, 1, [1.0, 16.0]),
        dynamic(8.0, 1, [1.0, f32::INFINITY]),
    ] {
        assert_refused(ErrorKind::Config, LossScaler::new(wrong, &device));
    }
    let scaler = LossScaler::new(LossScaling::dynamic(), &device).unwrap();
    let numbers = LossScale {
        scale: f32::INFINITY,
        clean_steps: 0,
        skipped_steps: 0,
    };
    assert_refused(ErrorKind::Config, scaler.restore(numbers));
}
