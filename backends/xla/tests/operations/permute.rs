//! Exact tests of the sort and the capacity rule.

use crate::run::{self, f32s, i32s, i64s, noise, run};
use moebius_ops::permute::Capacity;
use moebius_ops::permute::sorting::Problem;
use moebius_ops::{Permute, routing};

struct Case<'a> {
    indices: &'a [i32],
    weights: &'a [f32],
    mask: Option<&'a [i32]>,
    factors: Option<&'a [f32]>,
}

/// The capacity with which each of `experts` experts takes `slots` of `of` slots, rounded up.
fn taking(slots: usize, of: usize, experts: usize, min: usize) -> Option<Capacity> {
    let factor = (slots as f64 - 0.5) * experts as f64 / of as f64;
    let capacity = Capacity::new(factor, min).unwrap();
    assert_eq!(capacity.slots_per_expert(of, experts), slots);
    Some(capacity)
}

/// Runs a sort and compares it with the reference; returns the number of slots that each expert keeps.
fn check([tokens, top_k, experts]: [usize; 3], rule: Option<Capacity>, case: &Case) -> Vec<usize> {
    let shape = [tokens, top_k];
    let routing = routing::Problem::new(tokens, experts, top_k).unwrap();
    let sort = Permute::Sort {
        problem: Problem::new(&routing, rule, case.factors.is_some()).unwrap(),
        mask: case.mask.is_some(),
    };
    let mut inputs = vec![f32s(&shape, case.weights), i32s(&shape, case.indices)];
    inputs.extend(case.mask.map(|mask| i32s(&[experts], mask)));
    inputs.extend(case.factors.map(|factors| f32s(&[experts], factors)));
    let got = run::check(sort, &inputs, |_| 0.0);
    let offsets = got[1].to_ints();
    let counts = offsets.windows(2).map(|w| (w[1] - w[0]) as usize);
    counts.collect()
}

fn choices(slots: usize, experts: usize, seed: u64) -> Vec<i32> {
    noise(slots, seed)
        .iter()
        .map(|n| ((n + 1.0) / 2.0 * experts as f32) as i32)
        .collect()
}

#[test]
fn slots_are_sorted_stably_and_missing_experts_come_last() {
    for (tokens, top_k, experts) in [(1, 1, 1), (7, 3, 4), (257, 2, 8), (100, 1, 64)] {
        let slots = tokens * top_k;
        let mut indices = choices(slots, experts + 1, slots as u64);
        // An expert that has every slot, no expert at all, and an index far beyond the last expert.
        for special in [None, Some(0), Some(experts as i32), Some(i32::MAX)] {
            if let Some(all) = special {
                indices.fill(all);
            }
            let case = Case {
                indices: &indices,
                weights: &vec![1.0; slots],
                mask: None,
                factors: None,
            };
            check([tokens, top_k, experts], None, &case);
        }
    }
}

#[test]
fn indices_of_either_width_sort_alike() {
    let indices = choices(60, 5, 1);
    let routing = routing::Problem::new(30, 4, 2).unwrap();
    let call = Permute::Sort {
        problem: Problem::new(&routing, None, false).unwrap(),
        mask: false,
    };
    let weights = f32s(&[30, 2], &[1.0; 60]);
    let narrow = run(call, &[weights.clone(), i32s(&[30, 2], &indices)]);
    assert_eq!(narrow, run(call, &[weights, i64s(&[30, 2], &indices)]));
}

#[test]
fn the_lightest_are_dropped_and_equals_by_position() {
    let weights = [0.1, 0.3, 0.2, 0.5, 0.5, 0.5, f32::NAN, 0.9, 1.0];
    let case = Case {
        indices: &[0, 0, 0, 1, 1, 1, 2, 2, 2],
        weights: &weights,
        mask: None,
        factors: None,
    };
    assert_eq!(check([9, 1, 3], taking(2, 9, 3, 0), &case), [2, 2, 2]);
    let indices = choices(512, 9, 2);
    let case = Case {
        indices: &indices,
        weights: &noise(512, 3)
            .iter()
            .map(|w| (w * 8.0).abs().floor())
            .collect::<Vec<_>>(),
        mask: None,
        factors: None,
    };
    for slots in [1, 20, 64, 512] {
        check([256, 2, 8], taking(slots, 512, 8, 0), &case);
    }
    // With factors of 0 and no minimum, experts take nothing.
    let factors = Some(&[0.0; 8][..]);
    let none = Case { factors, ..case };
    assert_eq!(check([256, 2, 8], taking(1, 512, 8, 0), &none), [0; 8]);
}

#[test]
fn masks_share_what_is_left_and_factors_are_per_expert() {
    let indices = choices(1000, 8, 4);
    let weights = noise(1000, 5).iter().map(|w| w.abs()).collect::<Vec<_>>();
    let mask = [1, 0, 1, 1, 1, 1, 0, 7];
    let factors = [0.0, 0.5, 1.1, 100.0, 1.0, 0.25, 2.0, 1.0 / 3.0];
    let capacity = taking(16, 1000, 8, 4);
    let check = |case: &Case| check([500, 2, 8], capacity, case);
    let case = |mask, factors| Case {
        indices: &indices,
        weights: &weights,
        mask,
        factors,
    };
    assert_eq!(
        check(&case(Some(&mask), None)),
        [21, 0, 21, 21, 21, 21, 0, 21]
    );
    assert_eq!(check(&case(Some(&[0; 8]), None)), [0; 8]);
    // ⌈1000 · 1.1⌉ / 8 is more than there are; a factor of 0 is raised to the minimum.
    let taken = check(&case(None, Some(&factors)));
    assert_eq!((taken[0], taken[1], taken[5]), (4, 63, 32));
    check(&case(Some(&mask), Some(&factors)));
}

#[test]
fn no_tokens_have_no_rows() {
    let routing = routing::Problem::new(0, 3, 2).unwrap();
    let sort = Permute::Sort {
        problem: Problem::new(&routing, None, false).unwrap(),
        mask: false,
    };
    let got = run(sort, &[f32s(&[0, 2], &[]), i32s(&[0, 2], &[])]);
    let got: Vec<Vec<i32>> = got.iter().map(|host| host.to_ints()).collect();
    assert_eq!(got, [vec![], vec![0; 4], vec![], vec![0]]);
}
