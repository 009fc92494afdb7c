//! Training steps over devices against the same steps of one, whose batch is the whole.

use crate::data::{Batch, Routing, assert_close, joined, layer, wide};
use crate::run::{Loaded, load};
use moebius_xla::ElementType;
use moebius_xla::parallel::{Divided, Layer, Training, Update, Whole};

const ADAM: Update = Update::Adam {
    momentum: 0.9,
    variance: 0.999,
    epsilon: 1e-6,
};

/// Losses of some steps and the weights before and after them.
struct Trained {
    losses: Vec<f32>,
    start: Vec<Vec<f32>>,
    weights: Vec<Vec<f32>>,
}

/// Weights of all devices, and whether those that all have are the same.
fn gather(results: &[Vec<Vec<f32>>], weights: usize, divided: bool) -> Vec<Vec<f32>> {
    let tensor = |at: usize| {
        if divided && at > 0 {
            return joined(results, 1 + at);
        }
        assert!(
            results
                .iter()
                .all(|device| device[1 + at] == results[0][1 + at])
        );
        results[0][1 + at].clone()
    };
    (0..weights).map(tensor).collect()
}

fn train(layer: &Layer, step: &Training, devices: usize, divided: bool) -> Trained {
    let rate = if step.states() == 0 { 4.0 } else { 0.02 };
    let loaded: Loaded = load(&step.step().unwrap(), devices);
    let batch = Batch::new(layer, Routing::Free, 11);
    let small = |weights: &Vec<f32>| weights.iter().map(|w| w * 0.25).collect();
    let batch = Batch {
        weights: batch.weights.iter().map(small).collect(),
        ..batch
    };
    let mut arguments = batch.arguments(&[&batch.x, &batch.dy], devices, divided);
    for device in &mut arguments {
        let weights = device[2..].to_vec();
        let zeros = weights.iter().map(|w| vec![0.0; w.len()]);
        let zeros: Vec<Vec<f32>> = zeros.collect();
        device.extend((0..step.states()).flat_map(|_| zeros.clone()));
        device.splice(2..2, [vec![rate], vec![0.0]]);
    }
    let mut trained = Trained {
        losses: Vec::new(),
        start: batch.weights.clone(),
        weights: Vec::new(),
    };
    for t in 1..=6 {
        arguments
            .iter_mut()
            .for_each(|device| device[3] = vec![t as f32]);
        let results = loaded.run(&arguments);
        assert!(results.iter().all(|device| device[0] == results[0][0]));
        trained.losses.push(results[0][0][0]);
        trained.weights = gather(&results, batch.weights.len(), divided);
        for (device, results) in arguments.iter_mut().zip(results) {
            device.truncate(4);
            device.extend(results.into_iter().skip(1));
        }
    }
    trained
}

/// How far `got` is from `expected`, over how far that has moved from `start`, in L2.
fn missed([start, got, expected]: [&[f32]; 3]) -> f64 {
    let distance = |a: &[f32], b: &[f32]| {
        let squares = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>().sqrt()
    };
    distance(got, expected) / distance(expected, start)
}

/// Compares losses and weights elementwise with `tolerance`, and the way that each weight has gone with `way`.
fn compare(layer: Layer, update: Update, [tolerance, way]: [f64; 2]) {
    let whole = |devices| Training::whole(Whole { layer, devices }, update);
    let one = train(&layer, &whole(1), 1, false);
    assert!(one.losses[5] < 0.9 * one.losses[0], "{:?}", one.losses);
    let divided = Training::divided(Divided::balanced(layer, 4).unwrap(), update);
    for other in [
        train(&layer, &whole(4), 4, false),
        train(&layer, &divided, 4, true),
    ] {
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
fn adam_takes_the_steps_of_one_device() {
    // A gradient near 0 decides by its sign; 2 % of a step of 0.02 are allowed to follow its rounding.
    compare(layer(32, 4, 2), ADAM, [4e-4, 1e-5]);
}

#[test]
fn descent_takes_the_steps_of_one_device() {
    let layer = Layer {
        bias: true,
        ..layer(32, 4, 2)
    };
    compare(layer, Update::Sgd, [1e-5, 1e-5]);
}

#[test]
fn weights_stay_in_f32_where_the_layer_computes_in_bf16() {
    let layer = Layer {
        element: ElementType::BF16,
        ..layer(32, 4, 2)
    };
    let step = Training::whole(Whole { layer, devices: 4 }, ADAM);
    let program = step.step().unwrap();
    assert_eq!(program.inputs[4].element, ElementType::F32);
    // 8 bits of a fraction; six steps of 0.02 move a weight by 0.12 at most.
    compare(layer, ADAM, [0.05, 0.02]);
}

#[test]
fn only_gradients_and_the_loss_are_exchanged() {
    let layer = layer(32, 4, 2);
    let whole = Whole { layer, devices: 4 };
    let step = Training::whole(whole, ADAM).step().unwrap();
    let numbers: usize = layer.weights(4).iter().map(|ty| ty.elements()).sum();
    // Two times three of four parts of each number, and of the loss.
    assert_eq!(step.exchanged_bytes as usize, 6 * (numbers + 1));
    let loaded = load(&step, 4);
    let optimized = loaded.executable.executable().optimized().unwrap();
    let has = |name: &[u8]| optimized.code.windows(name.len()).any(|at| at == name);
    assert!(has(b"all-reduce"));
    for other in ["all-gather", "all-to-all", "collective-permute"] {
        assert!(!has(other.as_bytes()), "{other}");
    }
}
