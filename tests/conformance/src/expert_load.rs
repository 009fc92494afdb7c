//! Counts of the slots of every expert against the exact oracle.

use crate::{Outcome, operation};
use moebius_ops::routing::{LoadProblem, Problem};
use moebius_ops::{HostTensor, Routing};
use moebius_tests::data::Rng;
use moebius_tests::target::Target;

fn check(target: &Target, problem: LoadProblem, indices: &[u32]) -> Outcome {
    let operands = [HostTensor::Words(indices.to_vec())];
    operation::check(target, Routing::Load(problem), &operands, |_| 0.0)
}

/// Random indices up to and beyond E, counted over all choices and over the first.
fn random(target: &Target, sizes: (usize, usize, usize), groups: usize) -> Outcome {
    let (tokens, experts, top_k) = sizes;
    let mut rng = Rng::new((tokens + experts) as u64);
    let mut indices: Vec<u32> = (0..tokens * top_k)
        .map(|_| rng.below(experts + 1) as u32)
        .collect();
    if let Some(last) = indices.last_mut() {
        *last = u32::MAX;
    }
    let problem = LoadProblem::new(Problem::new(tokens, experts, top_k).unwrap(), groups).unwrap();
    Outcome::of([
        check(target, problem, &indices),
        check(target, problem.of_first_choices(), &indices),
    ])
}

pub(crate) fn block_edges(target: &Target) -> Outcome {
    let sizes = [
        (1, 1, 1),
        (255, 3, 2),
        (256, 8, 2),
        (257, 8, 8),
        (1025, 64, 4),
        (3000, 256, 8),
    ];
    Outcome::of(sizes.map(|size| random(target, size, 1)))
}

/// Groups of one token, of less and more than a block, and one without tokens.
pub(crate) fn groups(target: &Target) -> Outcome {
    Outcome::of([
        random(target, (12, 5, 2), 12),
        random(target, (600, 8, 2), 3),
        random(target, (2400, 8, 2), 4),
        random(target, (0, 8, 2), 2),
    ])
}

pub(crate) fn one_expert_gets_all(target: &Target) -> Outcome {
    let problem = LoadProblem::new(Problem::new(700, 4, 2).unwrap(), 2).unwrap();
    Outcome::of([
        check(target, problem, &[3; 1400]),
        check(target, problem, &[4; 1400]),
    ])
}
