//! Tests of gradient descent over several devices, against the same steps on one device with the whole batch.
//!
//! The model is x + layer(x), and its loss the mean squared error against a goal. The test holds the weights and
//! updates them, in f32; the programs compute the passes.

use crate::data::{Batch, Routing, assert_close, in_bf16, joined, layer, wide, with};
use crate::run::load;
use moebius_ops::Mismatch;
use moebius_xla::parallel::{Divided, Layer, Whole};
use moebius_xla::stablehlo::Program;

const STEPS: usize = 6;
const RATE: f32 = 12.0;

/// The losses of the steps, and the weights before and after them.
struct Trained {
    losses: Vec<f32>,
    start: Vec<Vec<f32>>,
    weights: Vec<Vec<f32>>,
}

/// The gradients of the weights: divided ones are joined over the devices, and the others must be the same on all.
fn gather(results: &[Vec<Vec<f32>>], weights: usize, divided: bool) -> Vec<Vec<f32>> {
    let tensor = |at: usize| {
        let same = results.iter().all(|device| device[at] == results[0][at]);
        if divided && at > 2 {
            joined(results, at)
        } else {
            assert!(same, "gradient {at} differs from device to device");
            results[0][at].clone()
        }
    };
    (2..2 + weights).map(tensor).collect()
}

fn train(
    layer: &Layer,
    programs: [Result<Program, Mismatch>; 2],
    devices: usize,
    divided: bool,
) -> Trained {
    let [forward, both] = programs.map(|program| load(&program.unwrap(), devices));
    let mut batch = Batch::new(layer, Routing::Free, 11);
    for weight in batch.weights.iter_mut().flatten() {
        *weight *= 0.25;
    }
    let goal = std::mem::take(&mut batch.dy);
    let start = batch.weights.clone();
    let mut losses = Vec::new();
    for _ in 0..STEPS {
        let y = joined(
            &forward.run(&batch.arguments(&[&batch.x], devices, divided)),
            0,
        );
        let out = batch.x.iter().zip(&y).map(|(x, y)| x + y);
        let missed: Vec<f32> = out.zip(&goal).map(|(out, goal)| out - goal).collect();
        let share = 1.0 / missed.len() as f32;
        losses.push(missed.iter().map(|m| m * m).sum::<f32>() * share);
        batch.dy = missed.iter().map(|m| 2.0 * share * m).collect();
        let results = both.run(&batch.both(devices, divided));
        let gradients = gather(&results, batch.weights.len(), divided);
        for (weights, gradients) in batch.weights.iter_mut().zip(&gradients) {
            let pairs = weights.iter_mut().zip(gradients);
            pairs.for_each(|(weight, gradient)| *weight -= RATE * gradient);
        }
    }
    Trained {
        losses,
        start,
        weights: batch.weights,
    }
}

/// The distance of `got` from `expected`, relative to the distance of `expected` from `start`, in L2.
fn missed([start, got, expected]: [&[f32]; 3]) -> f64 {
    let distance = |a: &[f32], b: &[f32]| {
        let squares = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>().sqrt()
    };
    distance(got, expected) / distance(expected, start)
}

/// Compares losses and weights elementwise within `tolerance`, and the change of each weight within `way`.
fn compare(layer: Layer, [tolerance, way]: [f64; 2]) {
    let whole = |devices| {
        let of = Whole { layer, devices };
        train(&layer, [of.forward(), of.gradients()], devices, false)
    };
    let of = Divided::balanced(layer, 4).unwrap();
    let divided = train(&layer, [of.forward(), of.gradients()], 4, true);
    let one = whole(1);
    assert!(
        one.losses[STEPS - 1] < 0.9 * one.losses[0],
        "{:?}",
        one.losses
    );
    for other in [whole(4), divided] {
        assert_close("losses", &other.losses, &wide(&one.losses), tolerance);
        let weights = one.start.iter().zip(&one.weights).zip(&other.weights);
        for ((start, expected), got) in weights {
            assert_close("weights", got, &wide(expected), tolerance);
            let missed = missed([start, got, expected]);
            assert!(missed <= way, "{missed} of the way, at most {way}");
        }
    }
}

#[test]
fn descent_takes_the_steps_of_one_device() {
    compare(layer(32, 4, 2), [1e-5, 1e-5]);
    let biased = with(layer(32, 4, 2), |problem| problem.bias = true);
    compare(biased, [1e-5, 1e-5]);
}

#[test]
fn a_layer_in_bf16_takes_nearly_the_steps_of_one_device() {
    let layer = in_bf16(layer(32, 4, 2));
    // Rows and gradients have fractions of 8 bits; the changes differed by 4 %.
    compare(layer, [0.05, 0.08]);
}

#[test]
fn only_gradients_are_exchanged() {
    let layer = layer(32, 4, 2);
    let whole = Whole { layer, devices: 4 }.gradients().unwrap();
    let numbers: usize = layer.weights(4).iter().map(|ty| ty.elements()).sum();
    // Twice three of the four parts of each number of 4 bytes.
    assert_eq!(whole.exchanged_bytes as usize, 6 * numbers);
    let loaded = load(&whole, 4);
    let optimized = loaded.executable.executable().optimized().unwrap();
    let has = |name: &[u8]| optimized.code.windows(name.len()).any(|at| at == name);
    assert!(has(b"all-reduce"));
    for other in ["all-gather", "all-to-all", "collective-permute"] {
        assert!(!has(other.as_bytes()), "{other}");
    }
}
