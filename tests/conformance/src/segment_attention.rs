//! Attention within the segments of sorted rows, forward and backward, against the reference.

use crate::{Outcome, operation};
use moebius_ops::segment_attention::{Problem, Segments};
use moebius_ops::{Element, HostTensor, Operation, SegmentAttention, permute};
use moebius_tests::data::Rng;
use moebius_tests::elements::rounded;
use moebius_tests::target::Target;
use moebius_tests::tolerance::rel_l2;

/// The routing of a batch: `top_k` different experts for every token; keys past the last expert stand for none.
struct Routed {
    segments: Segments,
    sorted: permute::Sorted,
}

impl Routed {
    fn new(keys: &[u32], experts: usize, top_k: usize, sequence: usize) -> Self {
        Self {
            segments: Segments::new(keys.len(), experts, top_k, sequence).unwrap(),
            sorted: permute::reference(keys, experts),
        }
    }

    /// Draws two neighbouring experts for each token; about one in eight slots has no expert.
    fn random(tokens: usize, experts: usize, sequence: usize) -> Self {
        let mut rng = Rng::new((tokens * 13 + sequence) as u64);
        let mut keys = Vec::new();
        for _ in 0..tokens {
            let first = rng.below(experts);
            for choice in [first, (first + 1) % experts] {
                let gone = rng.below(8) == 0;
                keys.push(if gone { experts } else { choice } as u32);
            }
        }
        Self::new(&keys, experts, 2, sequence)
    }

    fn check(&self, target: &Target, heads: usize, head_dim: usize) -> Outcome {
        let problem = Problem::new(self.segments, heads, head_dim).unwrap();
        let both = [false, true].map(|causal| problem.with_causal(causal));
        Outcome::of(both.map(|problem| Rows::new(problem, &self.sorted).check(target)))
    }
}

/// An attention with q, k, v and do; rows without an expert are NaN.
struct Rows<'a> {
    problem: Problem,
    sorted: &'a permute::Sorted,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    d_o: Vec<f32>,
}

impl<'a> Rows<'a> {
    fn new(problem: Problem, sorted: &'a permute::Sorted) -> Self {
        let live = sorted.offsets.last().copied().unwrap_or(0) as usize;
        let mut rng = Rng::new(problem.elements() as u64);
        let width = problem.heads() * problem.head_dim();
        let [q, k, v, d_o] = [2.0, 2.0, 1.0, 1.0].map(|bound| {
            let mut values = rounded(rng.vec(problem.elements(), bound), problem.element());
            values[live * width..].fill(f32::NAN);
            values
        });
        Self {
            problem,
            sorted,
            q,
            k,
            v,
            d_o,
        }
    }

    /// The forward and backward passes with their operands; the backward pass reads the reference's o and log-sum-exp.
    fn passes(&self) -> [(SegmentAttention, Vec<HostTensor>); 2] {
        let pass = |backward| SegmentAttention {
            problem: self.problem,
            backward,
        };
        let floats = [&self.q, &self.k, &self.v].map(|values| HostTensor::of_f32(values));
        let words = [&self.sorted.order, &self.sorted.offsets];
        let operands = [&floats[..], &words.map(|words| words.clone().into())].concat();
        let kept = Operation::from(pass(false)).reference(&operands).unwrap();
        let d_o = HostTensor::of_f32(&self.d_o);
        let read = [&operands[..], &kept, &[d_o]].concat();
        [(pass(false), operands), (pass(true), read)]
    }

    fn check(&self, target: &Target) -> Outcome {
        let element = self.problem.element();
        let tolerance = |name: &str| match name {
            "lse" => rel_l2(Element::F32),
            _ => rel_l2(element),
        };
        let passes = self.passes().into_iter();
        Outcome::of(passes.map(|(of, operands)| operation::check(target, of, &operands, tolerance)))
    }
}

/// Checks heads of one element, of whole and of partly filled vectors, up to the largest.
pub(crate) fn head_sizes(target: &Target) -> Outcome {
    let sizes = [
        (1, 1),
        (2, 8),
        (3, 20),
        (1, 30),
        (4, 64),
        (2, 127),
        (1, 128),
    ];
    let sizes = operation::some_of(target, sizes);
    Outcome::of(sizes.map(|(heads, dim)| Routed::random(40, 3, 16).check(target, heads, dim)))
}

/// Checks sequences of one token up to longer than the batch, the last one shorter.
pub(crate) fn sequences(target: &Target) -> Outcome {
    let shapes = [
        (1, 1),
        (7, 2),
        (64, 16),
        (65, 16),
        (130, 64),
        (50, 50),
        (33, 1000),
    ];
    let shapes = operation::some_of(target, shapes);
    Outcome::of(
        shapes.map(|(tokens, length)| Routed::random(tokens, 4, length).check(target, 2, 8)),
    )
}

/// Checks one expert with all rows, experts without rows, and no slot with an expert.
pub(crate) fn uneven_experts(target: &Target) -> Outcome {
    let sparse: Vec<u32> = (0..96).map(|s| if s % 3 == 0 { 4 } else { 7 }).collect();
    Outcome::of([
        Routed::new(&[0; 60], 5, 1, 20).check(target, 2, 8),
        Routed::new(&[4; 60], 5, 1, 20).check(target, 2, 8),
        Routed::new(&[5; 60], 5, 1, 20).check(target, 2, 8),
        Routed::new(&sparse, 6, 1, 24).check(target, 2, 20),
        Routed::random(40, 128, 8).check(target, 1, 8),
    ])
}

/// Checks fewer sorted rows than slots.
pub(crate) fn row_bound(target: &Target) -> Outcome {
    let keys: Vec<u32> = (0..90).map(|s| [3, 0, 3, 1, 3, 2][s % 6]).collect();
    Outcome::of([45, 50].map(|rows| {
        let mut routed = Routed::new(&keys, 3, 2, 9);
        routed.segments = routed.segments.with_row_bound(rows).unwrap();
        routed.check(target, 2, 16)
    }))
}

/// Checks scores whose exponentials overflow or underflow in f32 unless the row's maximum is subtracted first.
pub(crate) fn large_scores(target: &Target) -> Outcome {
    let routed = Routed::new(&[0; 24], 1, 1, 24);
    let problem = Problem::new(routed.segments, 1, 4).unwrap();
    let mut rows = Rows::new(problem, &routed.sorted);
    // With whole numbers the scores themselves are exact, so that only the softmax is measured.
    for values in [&mut rows.q, &mut rows.k] {
        values.iter_mut().for_each(|x| *x = (*x * 16.0).round());
    }
    rows.check(target)
}

/// Checks that a NaN in one segment reaches no row of another.
pub(crate) fn segments_are_apart(target: &Target) -> Outcome {
    // Expert 0 has rows 0..6: three sequences of two tokens.
    let routed = Routed::new(&[0; 6], 1, 1, 2);
    let problem = Problem::new(routed.segments, 1, 4).unwrap();
    let mut rows = Rows::new(problem, &routed.sorted);
    for values in [&mut rows.q, &mut rows.k, &mut rows.v, &mut rows.d_o] {
        values[2 * 4..4 * 4].fill(f32::NAN);
    }
    for (of, operands) in rows.passes() {
        for result in operation::run(target, &of, &operands).unwrap() {
            let HostTensor::Floats(got) = result else {
                panic!("words: {result:?}");
            };
            let width = got.len() / 6;
            let clean = got[..2 * width].iter().chain(&got[4 * width..]);
            assert!(clean.clone().all(|value| value.is_finite()), "{got:?}");
        }
    }
    Outcome::Ran
}

pub(crate) fn empty_batch(target: &Target) -> Outcome {
    Routed::new(&[], 2, 1, 4).check(target, 1, 4)
}

fn of_element(target: &Target, element: Element) -> Outcome {
    let routed = Routed::random(60, 3, 30);
    Outcome::of(operation::some_of(target, [8, 20, 64, 7]).map(|dim| {
        let problem = Problem::new(routed.segments, 2, dim).unwrap();
        Rows::new(problem.with_element(element), &routed.sorted).check(target)
    }))
}

pub(crate) fn f16(target: &Target) -> Outcome {
    of_element(target, Element::F16)
}

pub(crate) fn bf16(target: &Target) -> Outcome {
    of_element(target, Element::Bf16)
}
