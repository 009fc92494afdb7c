//! Layers, weights and batches for the tests, and the results of both passes from the operations' references.

use moebius_ops::grouped_gemm::Activation;
use moebius_ops::permute::{Capacity, sorting};
use moebius_ops::routing::{self, TopkGradient};
use moebius_ops::{Element, Experts, HostTensor, Operation, Permute, experts};
use moebius_xla::parallel::Layer;

/// A layer of 16 columns with experts of 24 hidden columns.
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

/// The layer with a changed problem.
pub(crate) fn with(layer: Layer, change: impl FnOnce(&mut experts::Problem)) -> Layer {
    let mut problem = layer.problem;
    change(&mut problem);
    Layer { problem, ..layer }
}

/// The layer in bf16.
pub(crate) fn in_bf16(layer: Layer) -> Layer {
    with(layer, |problem| problem.element = Element::Bf16)
}

/// The layer in which each expert takes at most `min` slots of the whole batch.
pub(crate) fn capped(layer: Layer, min: usize) -> Layer {
    // The factor is so small that the minimum is the capacity.
    let factor = f64::MIN_POSITIVE;
    with(layer, |problem| {
        problem.capacity = Some(Capacity { factor, min })
    })
}

/// Pseudo-random numbers between −1 and 1.
pub(crate) fn numbers(n: usize, seed: u32) -> Vec<f32> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 8) as f32 / (1 << 23) as f32 - 1.0)
    };
    let seed = seed.wrapping_mul(0x9E37_79B9);
    (0..n).scan(seed, |state, _| next(state)).collect()
}

/// How tokens choose their experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Routing {
    /// By their random logits.
    Free,
    /// The last expert first, then by their random logits.
    OneExpert,
    /// None of the first half of the experts, as far as there are K others.
    HalfUnused,
}

/// A batch and the weights of a layer.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) x: Vec<f32>,
    pub(crate) dy: Vec<f32>,
    pub(crate) weights: Vec<Vec<f32>>,
}

impl Batch {
    /// Makes a batch in which the first column of x is 1, so that the router's first column is a bias of the experts.
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

    /// The arguments of each device: `rows` cut along tokens, then the weights, with the experts cut if `divided`.
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

    /// The arguments of both passes.
    pub(crate) fn both(&self, devices: usize, divided: bool) -> Vec<Vec<Vec<f32>>> {
        self.arguments(&[&self.x, &self.dy], devices, divided)
    }

    /// The expected y, dx, and gradients of the weights in the layer's order.
    pub(crate) fn expected(&self, layer: &Layer) -> Vec<Vec<f64>> {
        let (p, problem) = (layer.problem, layer.problem.routing);
        let [x, dy] = [&self.x, &self.dy].map(|values| [HostTensor::of_f32(values)]);
        let weights = self.weights.iter();
        let weights: Vec<HostTensor> = weights.map(|w| HostTensor::of_f32(w)).collect();
        let (router, stacks) = weights.split_at(1);
        let logits = |backward| moebius_ops::Routing::Logits {
            problem,
            hidden: p.hidden,
            element: p.element,
            backward,
        };
        let of_tokens = reference(logits(false), &[&x, router]);
        let route = moebius_ops::Routing::Route {
            problem,
            mask: false,
            bias: false,
        };
        let chosen = reference(route, &[&of_tokens]);
        let (indices, shares) = (&chosen[..1], &chosen[1..2]);
        let sort = Permute::Sort {
            problem: sorting::Problem::new(&problem, None, false).unwrap(),
            mask: false,
        };
        let sorted = reference(sort, &[shares, indices]);
        let forward = Experts::Forward {
            problem: p,
            keep: false,
        };
        let y = reference(forward, &[&x, shares, &sorted[..3], stacks]);
        let backward = Experts::Backward {
            problem: p,
            pre: false,
            x: true,
            weights: true,
        };
        let gradients = reference(backward, &[&dy, &x, shares, &sorted[..3], stacks]);
        let backward = moebius_ops::Routing::RouteBackward {
            problem,
            mask: false,
            of: TopkGradient::Weights,
        };
        let dlogits = reference(backward, &[&gradients[1..2], &of_tokens, &chosen]);
        let of_router = reference(logits(true), &[&x, router, &dlogits]);
        let dx = numbers_of(&gradients[0]).into_iter();
        let dx = dx
            .zip(numbers_of(&of_router[0]))
            .map(|(one, other)| one + other);
        let mut expected = vec![numbers_of(&y[0]), dx.collect(), numbers_of(&of_router[1])];
        expected.extend(gradients[2..].iter().map(numbers_of));
        expected
    }
}

fn reference(operation: impl Into<Operation>, operands: &[&[HostTensor]]) -> Vec<HostTensor> {
    operation.into().reference(&operands.concat()).unwrap()
}

fn numbers_of(tensor: &HostTensor) -> Vec<f64> {
    match tensor {
        HostTensor::Floats(values) => values.clone(),
        HostTensor::Words(words) => panic!("{words:?}"),
    }
}

/// Result `at` of both passes of a layer whose experts are divided among devices; the router's gradient is the same on
/// all devices.
pub(crate) fn result(results: &[Vec<Vec<f32>>], at: usize) -> Vec<f32> {
    match at {
        2 => results[0][2].clone(),
        _ => joined(results, at),
    }
}

/// Result `at` of all devices, joined.
pub(crate) fn joined(results: &[Vec<Vec<f32>>], at: usize) -> Vec<f32> {
    results
        .iter()
        .flat_map(|device| device[at].clone())
        .collect()
}

pub(crate) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().copied().map(f64::from).collect()
}

/// Asserts that no number differs by more than `tolerance` times the largest expected magnitude (at least 1).
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
