//! Neighbours of sorted rows and their gradient against the f64 oracles.

use crate::Outcome;
use crate::permute::sort;
use moebius_ops::Element;
use moebius_ops::permute::neighbours::{PLACES, Problem};
use moebius_ops::permute::{self, NOWHERE};
use moebius_shaders::permute::neighbours::{self, NeighboursBuffers};
use moebius_tests::data::{Rng, rounded};
use moebius_tests::target::{Target, download, upload};
use moebius_tests::tolerance::{assert_close, rel_l2};

/// A batch of tokens and its routing.
#[derive(Clone)]
struct Batch {
    keys: Vec<u32>,
    experts: usize,
    top_k: usize,
    sequence: usize,
    /// Rows beyond those with an expert.
    spare: usize,
}

impl Batch {
    /// Experts in no order; about one slot in eight has none.
    fn random(tokens: usize, experts: usize, top_k: usize, sequence: usize) -> Self {
        let mut rng = Rng::new((tokens + sequence) as u64);
        let mut key = |slot: usize| match rng.below(8) {
            0 if slot > 0 => experts as u32,
            _ => rng.below(experts) as u32,
        };
        Self {
            keys: (0..tokens * top_k).map(&mut key).collect(),
            experts,
            top_k,
            sequence,
            spare: 0,
        }
    }

    fn check(&self, target: &Target, width: usize, element: Element) -> Outcome {
        Outcome::of(
            [false, true].map(|causal| self.check_direction(target, width, element, causal)),
        )
    }

    fn check_direction(
        &self,
        target: &Target,
        width: usize,
        element: Element,
        causal: bool,
    ) -> Outcome {
        let Some(client) = target.client() else {
            return Outcome::Unsupported("no kernels".into());
        };
        let want = permute::reference(&self.keys, self.experts);
        let used = want.offsets[self.experts] as usize;
        let rows = used + self.spare;
        let all = permute::Problem::new(self.keys.len(), self.experts, 4).unwrap();
        let bounded = all.with_row_bound(rows).unwrap();
        let problem = Problem::new(bounded, width, self.top_k, self.sequence, causal).unwrap();
        let plan = match neighbours::plan(problem, element, target.capability()) {
            Ok(plan) => plan,
            Err(error) => return Outcome::Unsupported(error.to_string()),
        };
        let buffers = sort(target, &client, &self.keys, bounded).buffers;
        let what = format!("{problem:?} of {element}");

        // Rows without an expert hold NaN, which no row may see.
        let x = data(rows * width, used * width, element);
        let out = upload(&client, &vec![f32::NAN; x.len() * PLACES], element);
        let forward = NeighboursBuffers {
            order: buffers.order.clone(),
            offsets: buffers.offsets.clone(),
            narrow: upload(&client, &x, element),
            wide: out.clone(),
        };
        neighbours::launch(&client, &plan, forward);
        let got = download(&client, out, x.len() * PLACES, element);
        let expected =
            moebius_ops::permute::neighbours::reference(&problem, &want, &wide(&x)).unwrap();
        let expected: Vec<f32> = expected.iter().map(|v| *v as f32).collect();
        assert_eq!(got, expected, "{what}");

        let dout = data(rows * PLACES * width, used * PLACES * width, element);
        let dx = upload(&client, &vec![f32::NAN; x.len()], element);
        let backward = NeighboursBuffers {
            order: buffers.order,
            offsets: buffers.offsets,
            narrow: dx.clone(),
            wide: upload(&client, &dout, element),
        };
        neighbours::launch_backward(&client, &plan, backward);
        let got = download(&client, dx, x.len(), element);
        let expected =
            moebius_ops::permute::neighbours::reference_backward(&problem, &want, &wide(&dout))
                .unwrap();
        assert_close(&what, &got, &expected, rel_l2(element));
        Outcome::Ran
    }
}

/// `used` random values, then NaN.
fn data(len: usize, used: usize, element: Element) -> Vec<f32> {
    let mut values = Rng::new(len as u64).vec(len, 1.0);
    values.iter_mut().for_each(|v| *v = rounded(*v, element));
    values[used..].fill(f32::NAN);
    values
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

/// Sequences of one token, of some, and longer than the batch; widths around the vectors.
pub(crate) fn sizes(target: &Target) -> Outcome {
    let sizes = [
        (1, 1, 1, 1, 1),
        (2, 3, 1, 2, 4),
        (40, 4, 2, 1, 5),
        (40, 4, 2, 7, 16),
        (65, 3, 3, 13, 20),
        (65, 1, 1, 100, 3),
        (200, 16, 2, 50, 36),
        (300, 70, 4, 64, 2),
    ];
    Outcome::of(sizes.map(|(tokens, experts, top_k, sequence, width)| {
        Batch::random(tokens, experts, top_k, sequence).check(target, width, Element::F32)
    }))
}

/// Experts without rows before, between and after those that have some.
pub(crate) fn empty_experts(target: &Target) -> Outcome {
    let of = |keys: Vec<u32>| Batch {
        keys,
        ..Batch::random(0, 6, 2, 9)
    };
    Outcome::of([
        of(vec![4; 60]).check(target, 8, Element::F32),
        of((0..60).map(|s| if s % 2 == 0 { 1 } else { 3 }).collect()).check(
            target,
            8,
            Element::F32,
        ),
        of((0..60).map(|s| if s < 59 { 6 } else { 5 }).collect()).check(target, 8, Element::F32),
    ])
}

/// Rows beyond those with an expert are written as zeros, and rows of the bound are all there are.
pub(crate) fn row_bound(target: &Target) -> Outcome {
    let batch = Batch::random(50, 4, 2, 10);
    let nowhere = permute::reference(&batch.keys, 4)
        .positions
        .iter()
        .filter(|row| **row == NOWHERE)
        .count();
    Outcome::of([1, nowhere].map(|spare| {
        let batch = Batch {
            spare,
            ..batch.clone()
        };
        batch.check(target, 12, Element::F32)
    }))
}

pub(crate) fn f16(target: &Target) -> Outcome {
    Batch::random(60, 4, 2, 12).check(target, 24, Element::F16)
}

pub(crate) fn bf16(target: &Target) -> Outcome {
    Batch::random(60, 4, 2, 12).check(target, 24, Element::Bf16)
}
