//! The choice by hash, exact.

use crate::run::{element, floats, i32s, noise, run};
use moebius_ops::Routing;
use moebius_ops::routing::{HashKey, HashProblem, Problem, hash_reference};
use moebius_xla::ElementType::{self, BF16, F16, F32};

const TOKENS: usize = 200;
const HIDDEN: usize = 24;
const EXPERTS: usize = 10;
const SEED: u32 = 0xDEAD_BEEF;

/// `top_k` of the experts by position in sequences, or else by content.
fn check(
    (top_k, sequence): (usize, Option<usize>),
    of: ElementType,
    x: &[f32],
    mask: Option<&[i32]>,
) {
    let (hidden, element) = (HIDDEN, element(of));
    let content = HashKey::Content { hidden, element };
    let key = sequence.map_or(content, |sequence| HashKey::Position { sequence });
    let routing = Problem::new(TOKENS, EXPERTS, top_k).unwrap();
    let problem = HashProblem::new(routing, key).unwrap();
    let hash = Routing::Hash {
        problem,
        hidden,
        element,
        seed: SEED,
        mask: mask.is_some(),
    };
    let x = floats(of, &[TOKENS, HIDDEN], x);
    let mut inputs = vec![x.clone()];
    inputs.extend(mask.map(|mask| i32s(&[EXPERTS], mask)));
    let got = run(hash, &inputs);
    let mask: Option<Vec<bool>> = mask.map(|mask| mask.iter().map(|m| *m != 0).collect());
    let (indices, weights) = hash_reference(&problem, SEED, &x.to_floats(), mask.as_deref());
    let indices: Vec<i32> = indices.into_iter().map(|e| e as i32).collect();
    assert_eq!(got[0].to_ints(), indices, "{hash:?}");
    assert_eq!(got[1].to_floats(), weights, "{hash:?}");
}

#[test]
fn positions_and_contents_choose_as_the_definition_says() {
    let mut x = noise(TOKENS * HIDDEN, 1);
    x[..6].copy_from_slice(&[0.0, -0.0, f32::NAN, -f32::NAN, 1e-40, f32::INFINITY]);
    let mask: Vec<i32> = (0..10).map(|e| i32::from(e % 3 != 1)).collect();
    for sequence in [Some(7), None] {
        for element in [F32, F16, BF16] {
            check((3, sequence), element, &x, None);
        }
        check((3, sequence), F32, &x, Some(&mask));
    }
}

#[test]
fn slots_beyond_the_available_experts_are_empty() {
    let x = vec![0.0; TOKENS * HIDDEN];
    let some = [0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    check((3, Some(200)), F32, &x, Some(&some));
    check((3, Some(200)), F32, &x, Some(&[0; 10]));
    check((10, Some(200)), F32, &x, None);
}
