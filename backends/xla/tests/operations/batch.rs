//! A batch of feed-forward experts.

use crate::run::{Host, element, f32s, floats, noise, words};
use moebius_ops::experts::Problem;
use moebius_ops::permute::{self, Sorted};
use moebius_ops::routing;
use moebius_pjrt::ElementType;

/// The sort of `keys`, the expert of each slot; a key of `experts` or more is a slot without an expert.
pub(crate) fn sorted(keys: &[usize], experts: usize) -> Sorted {
    let keys: Vec<u32> = keys.iter().map(|key| (*key).min(experts) as u32).collect();
    permute::reference(&keys, experts)
}

/// One batch and its experts, rounded to their type.
pub(crate) struct Batch {
    pub(crate) p: Problem,
    pub(crate) keys: Vec<usize>,
    pub(crate) x: Host,
    pub(crate) weights: Host,
    pub(crate) stacks: Vec<Host>,
}

impl Batch {
    pub(crate) fn new(p: Problem, of: ElementType, keys: &[usize]) -> Self {
        let p = Problem {
            element: element(of),
            ..p
        };
        let (t, k, e) = (p.routing.tokens(), p.routing.top_k(), p.routing.experts());
        let (h, f, columns) = (p.hidden, p.inter, p.columns_in());
        let numbers = |shape: &[usize], seed: u64, scale: f32| {
            let values = noise(shape.iter().product(), seed);
            let values: Vec<f32> = values.iter().map(|v| v * scale).collect();
            floats(of, shape, &values)
        };
        let mut stacks = vec![
            numbers(&[e, columns, h], 2, 0.5),
            numbers(&[e, h, f], 3, 0.5),
        ];
        if p.bias {
            stacks.extend([numbers(&[e, columns], 4, 1.0), numbers(&[e, h], 5, 1.0)]);
        }
        Self {
            p,
            keys: keys.to_vec(),
            x: numbers(&[t, h], 1, 2.0),
            weights: f32s(&[t, k], &noise(t * k, 6)),
            stacks,
        }
    }

    pub(crate) fn inputs(&self) -> Vec<Host> {
        if self.p.dense {
            return [std::slice::from_ref(&self.x), &self.stacks].concat();
        }
        let sorted = sorted(&self.keys, self.p.routing.experts());
        let mut inputs = vec![
            self.x.clone(),
            self.weights.clone(),
            words(&[sorted.order.len()], &sorted.order),
            words(&[sorted.offsets.len()], &sorted.offsets),
            words(&[sorted.positions.len()], &sorted.positions),
        ];
        inputs.extend(self.stacks.iter().cloned());
        inputs
    }
}

/// Sizes of a batch with `tokens` tokens.
pub(crate) fn resized(p: Problem, tokens: usize) -> Problem {
    let (experts, top_k) = (p.routing.experts(), p.routing.top_k());
    let routing = routing::Problem::new(tokens, experts, top_k).unwrap();
    Problem {
        routing,
        row_bound: routing.slots(),
        ..p
    }
}
