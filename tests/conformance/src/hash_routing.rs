//! Hash routing, and the slot counts of the experts, against their exact oracles.

use crate::{Outcome, operation};
use moebius_ops::routing::{HashKey, HashProblem, LoadProblem, Problem};
use moebius_ops::{Element, HostTensor, Routing};
use moebius_tests::data::Rng;
use moebius_tests::elements::rounded;
use moebius_tests::target::Target;

/// Numbers of tokens, experts and choices.
type Size = (usize, usize, usize);

fn check(target: &Target, size: Size, key: HashKey, mask: Option<&[bool]>, x: &[f32]) -> Outcome {
    let (tokens, experts, top_k) = size;
    let problem = HashProblem::new(Problem::new(tokens, experts, top_k).unwrap(), key).unwrap();
    let (hidden, element) = match key {
        HashKey::Position { .. } => (1, Element::F32),
        HashKey::Content { hidden, element } => (hidden, element),
    };
    // If x isn't hashed, it still tells which device to use.
    let x = match key {
        HashKey::Position { .. } => HostTensor::Floats(vec![0.0; tokens]),
        HashKey::Content { .. } => HostTensor::of_f32(x),
    };
    let words = |mask: &[bool]| mask.iter().map(|a| u32::from(*a)).collect::<Vec<_>>();
    let mask = mask.map(|mask| HostTensor::Words(words(mask)));
    let operands: Vec<HostTensor> = [x].into_iter().chain(mask.clone()).collect();
    Outcome::of([0, 0xDEAD_BEEF].map(|seed| {
        let hash = Routing::Hash {
            problem,
            hidden,
            element,
            seed,
            mask: mask.is_some(),
        };
        operation::check(target, hash, &operands, |_| 0.0)
    }))
}

/// Checks hashing by position: a new position for every token, several sequences, and the same position for every token.
pub(crate) fn positions(target: &Target) -> Outcome {
    let sizes = [(1, 1, 1), (65, 8, 2), (300, 6, 6), (129, 256, 8)];
    Outcome::of(sizes.into_iter().flat_map(|size| {
        [1, 7, 1000].map(|sequence| check(target, size, HashKey::Position { sequence }, None, &[]))
    }))
}

/// Checks that masked experts are never chosen, and that slots without an available expert stay empty.
pub(crate) fn mask(target: &Target) -> Outcome {
    let key = HashKey::Position { sequence: 64 };
    let most: Vec<bool> = (0..20).map(|e| e % 4 != 2).collect();
    let few: Vec<bool> = (0..20).map(|e| e == 3 || e == 19).collect();
    Outcome::of(
        [most, few, vec![false; 20]].map(|mask| check(target, (130, 20, 4), key, Some(&mask), &[])),
    )
}

pub(crate) fn contents(target: &Target, element: Element) -> Outcome {
    Outcome::of([1, 7, 16, 100].map(|hidden| {
        let mut x = Rng::new(hidden as u64).vec(66 * hidden, 3.0);
        // Zeros of both signs, NaNs with different payloads, and infinity.
        x[..hidden].fill(0.0);
        x[hidden..2 * hidden].fill(-0.0);
        x[2 * hidden] = f32::NAN;
        x[3 * hidden] = f32::from_bits(0xFFC0_1234);
        x[4 * hidden] = f32::INFINITY;
        let x = rounded(x, element);
        let key = HashKey::Content { hidden, element };
        check(target, (66, 12, 3), key, None, &x)
    }))
}

pub(crate) fn content(target: &Target) -> Outcome {
    let tiny = [1e-40, -1e-45, f32::MIN_POSITIVE, 1.0];
    let key = HashKey::Content {
        hidden: 1,
        element: Element::F32,
    };
    Outcome::of([
        contents(target, Element::F32),
        check(target, (4, 64, 2), key, None, &tiny),
    ])
}

/// Compares the slot counts of the experts with the exact oracle.
fn check_load(target: &Target, problem: LoadProblem, indices: &[u32]) -> Outcome {
    let operands = [HostTensor::Words(indices.to_vec())];
    operation::check(target, Routing::Load(problem), &operands, |_| 0.0)
}

/// Draws random indices up to E and beyond, and counts all choices, then only each token's first.
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
        check_load(target, problem, &indices),
        check_load(target, problem.of_first_choices(), &indices),
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

/// Checks groups of one token, of fewer and of more tokens than a block, and a group without tokens.
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
        check_load(target, problem, &[3; 1400]),
        check_load(target, problem, &[4; 1400]),
    ])
}
