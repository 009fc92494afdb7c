//! Several threads on one device, and several devices at once, give the same bits as each alone.

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use moebius::fp8::training::Fp8Recipe;
use moebius::moe::{Activation, Capacity, ExpertKind, MoeConfig, MoeLayer};
use moebius_tests::data::Rng;
use moebius_tests::gradients::{filled, trained_gradients};
use moebius_tests::target::Target;
use std::sync::Barrier;
use std::thread;

/// Layers of different kinds and shapes, so that they launch different kernels.
fn configs() -> [MoeConfig; 4] {
    let small = MoeConfig::new(24, 32, 4);
    let capacity = Some(Capacity::new(0.75, 2).unwrap());
    let attention = ExpertKind::Attention {
        heads: 2,
        causal: false,
    };
    [
        small.with_activation(Activation::Relu),
        MoeConfig::new(64, 96, 8).with_gated(true).with_bias(true),
        small.with_kind(attention).with_capacity(capacity),
        MoeConfig::new(32, 48, 3).with_fp8(Some(Fp8Recipe::current())),
    ]
}

/// Layer `number`, with the same weights on every call.
fn layer(number: usize, device: &Device) -> MoeLayer {
    let layer = configs()[number].init(&device.clone().autodiff()).unwrap();
    filled(layer, number as u64, 0.4)
}

fn bits(values: impl IntoIterator<Item = f32>) -> impl Iterator<Item = u32> {
    values.into_iter().map(f32::to_bits)
}

/// The bits of y and of all gradients of Σ y ∘ dy, for `batches` batches of two sequences of `length` tokens.
pub(crate) fn passes(layer: &MoeLayer, length: usize, batches: usize) -> Vec<u32> {
    let device = layer.devices().remove(0);
    let shape = [2, length, layer.config().hidden];
    let mut rng = Rng::new(shape[2] as u64);
    let mut tensor = || {
        let values = rng.vec(shape.iter().product(), 1.5);
        Tensor::<3>::from_data(TensorData::new(values, shape), &device)
    };
    let mut found = Vec::new();
    for _ in 0..batches {
        let (x, dy) = (tensor().require_grad(), tensor());
        let y = layer.forward(x.clone()).unwrap().y;
        let all = (y.clone() * dy).sum().backward();
        let dx = x.grad(&all).unwrap();
        let all = GradientsParams::from_grads(all, layer);
        found.extend(bits(y.try_into_vec_as::<f32>().unwrap()));
        found.extend(bits(dx.try_into_vec_as::<f32>().unwrap()));
        for parameter in trained_gradients(layer, &all) {
            found.extend(bits(parameter.gradient.into_iter().flatten()));
        }
    }
    found
}

/// Runs `work` for each number in a thread of its own, all at once; returns the results.
fn at_once(numbers: usize, work: impl Fn(usize) -> Vec<u32> + Sync) -> Vec<Vec<u32>> {
    let (ready, work) = (Barrier::new(numbers), &work);
    thread::scope(|scope| {
        let run = |number| {
            let ready = &ready;
            scope.spawn(move || {
                ready.wait();
                work(number)
            })
        };
        let threads: Vec<_> = (0..numbers).map(run).collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.collect()
    })
}

fn rounds() -> usize {
    if crate::deep() { 50 } else { 3 }
}

/// Checks threads that each use a layer of their own.
pub(crate) fn different_layers(target: &Target) {
    let device = target.burn();
    let work = |number| passes(&layer(number, &device), 19, 2);
    let alone: Vec<_> = (0..4).map(work).collect();
    for round in 0..rounds() {
        for threads in [2, 4] {
            let got = at_once(threads, work);
            for (number, (got, want)) in got.iter().zip(&alone).enumerate() {
                let others = threads - 1;
                let what = format!("round {round}: layer {number} beside {others} others");
                assert!(got == want, "{what} gives other bits than alone");
            }
        }
    }
}

/// Checks threads that all use one layer, made by another thread.
pub(crate) fn one_layer(target: &Target) {
    let layer = layer(1, &target.burn());
    let alone = passes(&layer, 19, 2);
    for round in 0..rounds() {
        let found = at_once(4, |_| passes(&layer, 19, 2));
        for (number, got) in found.into_iter().enumerate() {
            let what = format!("round {round}: thread {number}");
            assert!(got == alone, "{what} gives other bits");
        }
    }
}

/// Checks one thread for each device.
pub(crate) fn devices_side_by_side() {
    let targets = Target::all();
    let work = |number: usize| {
        let device = targets[number].burn();
        let runs = (0..configs().len()).map(|number| passes(&layer(number, &device), 19, 1));
        runs.flatten().collect()
    };
    let alone: Vec<_> = (0..targets.len()).map(work).collect();
    for _ in 0..rounds() {
        for ((target, got), want) in targets.iter().zip(at_once(targets.len(), work)).zip(&alone) {
            let name = target.name;
            assert!(got == *want, "{name} beside the others gives other bits");
        }
    }
}
