//! Rows moved between token order and expert order: combine, dispatch, and the gradient of the weights, against their f64 oracles.

use crate::{Outcome, operation};
use moebius_ops::permute::{NOWHERE, RowsProblem, Sorted};
use moebius_ops::{Element, HostTensor, Operation, Permute, TensorInfo, routing};
use moebius_tests::data::{Rng, rounded};
use moebius_tests::target::Target;
use moebius_tests::tolerance::rel_l2;

/// Tokens and sorted rows with their routing, rounded to the element type.
struct Rows {
    problem: RowsProblem,
    sorted: Sorted,
    x: Vec<f32>,
    rows: Vec<f32>,
    weights: Vec<f32>,
}

impl Rows {
    /// Draws rows of `width` elements: one for each slot with an expert, and `spare` more, which hold NaN, as do the weights of
    /// slots without an expert.
    fn new(keys: Vec<u32>, experts: usize, top_k: usize, width: usize, spare: usize) -> Self {
        let sorted = moebius_ops::permute::reference(&keys, experts);
        let used = sorted.offsets[experts] as usize;
        let routing = routing::Problem::new(keys.len() / top_k, experts, top_k).unwrap();
        let problem = RowsProblem::new(&routing, used + spare, width, Element::F32).unwrap();
        let mut rng = Rng::new((keys.len() * 31 + width) as u64);
        let mut rows = rng.vec((used + spare) * width, 1.0);
        rows[used * width..].fill(f32::NAN);
        let mut weights = rng.vec(keys.len(), 1.0);
        for (weight, row) in weights.iter_mut().zip(&sorted.positions) {
            if *row == NOWHERE {
                *weight = f32::NAN;
            }
        }
        Self {
            problem,
            x: rng.vec(keys.len() / top_k * width, 1.0),
            rows,
            weights,
            sorted,
        }
    }

    /// Draws random experts, and none for about every eighth slot.
    fn random(tokens: usize, experts: usize, top_k: usize, width: usize) -> Self {
        let mut rng = Rng::new((tokens + width) as u64);
        let mut key = |slot: usize| match rng.below(8) {
            0 if slot > 0 => experts as u32,
            _ => rng.below(experts) as u32,
        };
        let keys = (0..tokens * top_k).map(&mut key).collect();
        Self::new(keys, experts, top_k, width, 0)
    }

    fn of(mut self, element: Element) -> Self {
        let p = &self.problem;
        let routing = routing::Problem::new(p.tokens(), p.experts(), p.top_k()).unwrap();
        self.problem = RowsProblem::new(&routing, p.row_bound(), p.width(), element).unwrap();
        for values in [&mut self.x, &mut self.rows] {
            values.iter_mut().for_each(|v| *v = rounded(*v, element));
        }
        self
    }

    fn combine(&self, weighted: bool) -> Permute {
        Permute::Combine {
            problem: self.problem,
            weighted,
        }
    }

    fn operands(&self, operation: Permute) -> Vec<HostTensor> {
        let signature = Operation::from(operation).signature();
        let operand = |info: &TensorInfo| match info.name {
            "x" | "dy" => HostTensor::of_f32(&self.x),
            "rows" => HostTensor::of_f32(&self.rows),
            "weights" => HostTensor::of_f32(&self.weights),
            "order" => self.sorted.order.clone().into(),
            "offsets" => self.sorted.offsets.clone().into(),
            "positions" => self.sorted.positions.clone().into(),
            other => panic!("{other}"),
        };
        signature.operands.iter().map(operand).collect()
    }

    fn check(&self, target: &Target) -> Outcome {
        let element = self.problem.element();
        let tolerance = |name: &str| match name {
            // Dispatch only copies.
            "rows" => 0.0,
            // Products of rounded values are exact in f32, so only the sum rounds.
            "dweights" => rel_l2(Element::F32),
            _ => rel_l2(element),
        };
        let operations = [
            Permute::Gather(self.problem),
            self.combine(false),
            self.combine(true),
            Permute::CombineBackward(self.problem),
        ];
        Outcome::of(
            operations.map(|of| operation::check(target, of, &self.operands(of), tolerance)),
        )
    }
}

/// Checks widths around vectors and the units that share a row, and numbers of tokens around cubes.
pub(crate) fn sizes(target: &Target) -> Outcome {
    let widths = [1, 2, 3, 4, 6, 12, 16, 100, 127, 128, 132, 260];
    let tokens = [1, 2, 63, 64, 65, 33, 7, 5, 4, 3, 129, 20];
    Outcome::of(widths.into_iter().zip(tokens).flat_map(|(width, tokens)| {
        [1, 2, 5].map(|top_k| Rows::random(tokens, 6, top_k, width).check(target))
    }))
}

/// Checks more slots than one dimension of a grid allows cubes.
pub(crate) fn many_slots(target: &Target) -> Outcome {
    Rows::random(70_000, 4, 4, 5).check(target)
}

pub(crate) fn uneven_experts(target: &Target) -> Outcome {
    let one: Vec<u32> = vec![3; 100];
    let some = (0..150).map(|s| if s % 3 == 0 { 5 } else { 2 }).collect();
    let mut last = vec![8; 64];
    last[63] = 7;
    Outcome::of([
        Rows::new(one, 8, 2, 24, 0).check(target),
        Rows::new(some, 5, 3, 24, 0).check(target),
        Rows::new(last, 8, 4, 8, 0).check(target),
    ])
}

/// Checks fewer rows than slots, and fewer routed rows than that: the others are NaN and never read.
pub(crate) fn row_bound(target: &Target) -> Outcome {
    let keys: Vec<u32> = (0..120).map(|s| if s % 4 == 1 { 1 } else { 3 }).collect();
    Outcome::of([0, 1, 20].map(|spare| Rows::new(keys.clone(), 3, 2, 20, spare).check(target)))
}

/// Checks that kernels treat a position past the last row as none.
pub(crate) fn positions_past_the_rows(target: &Target) {
    let mut rows = Rows::random(40, 4, 2, 12);
    let bound = rows.problem.row_bound() as u32;
    let operations = [rows.combine(false), Permute::CombineBackward(rows.problem)];
    let mut run = |positions: [u32; 2]| {
        rows.sorted.positions[7..9].copy_from_slice(&positions);
        operations.map(|of| operation::run(target, &of, &rows.operands(of)).unwrap())
    };
    assert_eq!(run([bound, bound + 1000]), run([NOWHERE; 2]));
}

/// Checks that every run gives the same bits.
pub(crate) fn repeats_bit_for_bit(target: &Target) {
    let rows = Rows::random(100, 4, 2, 132);
    let backward = Permute::CombineBackward(rows.problem);
    let run = || operation::run(target, &backward, &rows.operands(backward)).unwrap();
    let first = run();
    (0..5).for_each(|_| assert_eq!(run(), first));
}

pub(crate) fn halves(target: &Target, element: Element) -> Outcome {
    Outcome::of(
        [1, 7, 64, 100].map(|width| Rows::random(40, 5, 2, width).of(element).check(target)),
    )
}
