//! Layers, their weights and batches.

use moebius_ops::grouped_gemm::Activation;
use moebius_ops::permute::Capacity;
use moebius_ops::{Element, experts, routing};
use moebius_xla::parallel::Layer;

/// A layer of 16 columns and experts of 24.
pub(crate) fn layer(tokens: usize, experts: usize, top_k: usize) -> Layer {
    let routing = routing::Problem::new(tokens, experts, top_k).unwrap();
    Layer {
        problem: experts::Problem {
            routing,
            hidden: 16,
            inter: 24,
            element: Element::F32,
            gated: true,
            activation: Activation::Silu,
            bias: false,
            capacity: None,
            row_bound: routing.slots(),
            dense: false,
        },
        selection_bias: false,
    }
}

/// With another problem.
pub(crate) fn with(layer: Layer, change: impl FnOnce(&mut experts::Problem)) -> Layer {
    let mut problem = layer.problem;
    change(&mut problem);
    Layer { problem, ..layer }
}

/// The layer in bf16.
pub(crate) fn in_bf16(layer: Layer) -> Layer {
    with(layer, |problem| problem.element = Element::Bf16)
}

/// The layer whose experts take so many slots of the whole batch.
pub(crate) fn capped(layer: Layer, min: usize) -> Layer {
    // So small a share that the least of an expert is its capacity.
    let factor = f64::MIN_POSITIVE;
    with(layer, |problem| {
        problem.capacity = Some(Capacity { factor, min })
    })
}

/// Numbers between −1 and 1.
pub(crate) fn numbers(n: usize, seed: u32) -> Vec<f32> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 8) as f32 / (1 << 23) as f32 - 1.0)
    };
    let seed = seed.wrapping_mul(0x9E37_79B9);
    (0..n).scan(seed, |state, _| next(state)).collect()
}

/// How tokens choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Routing {
    /// By their numbers.
    Free,
    /// The last expert first, then by their numbers.
    OneExpert,
    /// None of the first half of the experts, as far as there are K others.
    HalfUnused,
}

/// A batch and weights for a layer.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) x: Vec<f32>,
    pub(crate) dy: Vec<f32>,
    pub(crate) weights: Vec<Vec<f32>>,
}

impl Batch {
    /// The first column of x is 1, so that the router's first column is a bias of the experts.
    pub(crate) fn new(layer: &Layer, routing: Routing, seed: u32) -> Self {
        let (h, experts) = (layer.problem.hidden, layer.problem.routing.experts());
        let size = layer.problem.routing.tokens() * h;
        let mut x = numbers(size, seed);
        x.iter_mut().step_by(h).for_each(|x| *x = 1.0);
        let types = layer.weights(experts).into_iter().zip(seed + 2..);
        let weights = types.map(|(ty, seed)| numbers(ty.elements(), seed));
        let mut weights: Vec<Vec<f32>> = weights.collect();
        for (e, row) in weights[0].chunks_mut(h).enumerate() {
            let favoured = match routing {
                Routing::Free => continue,
                Routing::OneExpert => e + 1 == experts,
                Routing::HalfUnused => e >= experts / 2,
            };
            row[0] = if favoured { 16.0 } else { 0.0 };
        }
        Self {
            x,
            dy: numbers(size, seed + 1),
            weights,
        }
    }

    /// Arguments of each device: `rows` cut along tokens, then `weights` with the experts cut if `divided`.
    pub(crate) fn arguments(
        &self,
        rows: &[&[f32]],
        devices: usize,
        divided: bool,
    ) -> Vec<Vec<Vec<f32>>> {
        let part = |of: &[f32], at: usize| {
            let size = of.len() / devices;
            of[at * size..(at + 1) * size].to_vec()
        };
        let of_device = |at: usize| {
            let rows = rows.iter().map(|rows| part(rows, at));
            let weights = self.weights.iter().enumerate().map(|(i, w)| {
                if divided && i > 0 {
                    part(w, at)
                } else {
                    w.clone()
                }
            });
            rows.chain(weights).collect()
        };
        (0..devices).map(of_device).collect()
    }
}

/// Output `at` of all devices, one after the other.
pub(crate) fn joined(results: &[Vec<Vec<f32>>], at: usize) -> Vec<f32> {
    results
        .iter()
        .flat_map(|device| device[at].clone())
        .collect()
}

pub(crate) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().copied().map(f64::from).collect()
}

/// That no number is further away than `tolerance` times the largest one, or 1.
pub(crate) fn assert_close(what: &str, got: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1.0f64, |most, e| most.max(e.abs()));
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        let error = (f64::from(*g) - e).abs();
        assert!(
            error <= tolerance * largest,
            "{what}[{i}]: {g} instead of {e}, largest {largest}"
        );
    }
}
