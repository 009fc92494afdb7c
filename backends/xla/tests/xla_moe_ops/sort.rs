//! The sort and the capacity rule, exact.

use crate::run::{f32s, i32s, i64s, noise, run};
use moebius_xla::custom::Call;
use moebius_xla::custom::sort::{Capacity, Sort};

struct Case<'a> {
    indices: &'a [i32],
    weights: &'a [f32],
    mask: Option<&'a [i32]>,
    factors: Option<&'a [f32]>,
}

/// Slots that expert `e` takes.
fn capacities(p: &Sort, case: &Case) -> Vec<usize> {
    let Some(capacity) = p.capacity else {
        return vec![case.indices.len(); p.experts];
    };
    let slots = case.indices.len();
    let own = |e: usize| match case.factors {
        None => capacity.even,
        Some(factors) => {
            let all = (slots as f32 * factors[e]).ceil() as usize;
            all.div_ceil(p.experts).max(capacity.least).min(slots)
        }
    };
    let takes = |e: &usize| case.mask.is_none_or(|mask| mask[*e] != 0);
    let lost: usize = (0..p.experts).filter(|e| !takes(e)).map(own).sum();
    let share = lost / (0..p.experts).filter(takes).count().max(1);
    (0..p.experts)
        .map(|e| if takes(&e) { own(e) + share } else { 0 })
        .collect()
}

/// Runs a sort and compares it with the rule; returns how many slots of each expert are left.
fn check(p: Sort, case: &Case) -> Vec<usize> {
    let p = Sort {
        mask: case.mask.is_some(),
        factors: case.factors.is_some(),
        ..p
    };
    let shape = [p.tokens, p.top_k];
    let mut inputs = vec![f32s(&shape, case.weights), i32s(&shape, case.indices)];
    inputs.extend(case.mask.map(|mask| i32s(&[p.experts], mask)));
    inputs.extend(case.factors.map(|factors| f32s(&[p.experts], factors)));
    let got: Vec<Vec<i32>> = run(&Call::Sort(p), &inputs)
        .iter()
        .map(|h| h.to_ints())
        .collect();
    let (mut order, mut offsets) = (Vec::new(), vec![0]);
    let mut counts = Vec::new();
    for (e, capacity) in capacities(&p, case).into_iter().enumerate() {
        let mut slots: Vec<usize> = (0..case.indices.len())
            .filter(|s| case.indices[*s] == e as i32)
            .collect();
        let weight = |slot: usize| case.weights[slot].to_bits() & 0x7FFF_FFFF;
        slots.sort_by_key(|slot| (std::cmp::Reverse(weight(*slot)), *slot));
        slots.truncate(capacity);
        slots.sort_unstable();
        counts.push(slots.len());
        order.extend(slots);
        offsets.push(order.len() as i32);
    }
    let kept = order.len();
    let nowhere: Vec<usize> = (0..case.indices.len())
        .filter(|s| !order.contains(s))
        .collect();
    order.extend(&nowhere);
    let mut positions = vec![-1; order.len()];
    for (row, slot) in order[..kept].iter().enumerate() {
        positions[*slot] = row as i32;
    }
    let order: Vec<i32> = order.into_iter().map(|slot| slot as i32).collect();
    assert_eq!(got[0], order, "order of {p:?}");
    assert_eq!(got[1], offsets, "offsets of {p:?}");
    assert_eq!(got[2], positions, "positions of {p:?}");
    assert_eq!(got[3], [nowhere.len() as i32], "dropped of {p:?}");
    counts
}

fn problem(tokens: usize, top_k: usize, experts: usize) -> Sort {
    Sort {
        tokens,
        top_k,
        experts,
        capacity: None,
        mask: false,
        factors: false,
    }
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
        // An expert that has everything, none at all, and one far beyond the last.
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
            check(problem(tokens, top_k, experts), &case);
        }
    }
}

#[test]
fn indices_of_either_width_sort_alike() {
    let indices = choices(60, 5, 1);
    let call = Call::Sort(problem(30, 2, 4));
    let weights = f32s(&[30, 2], &[1.0; 60]);
    let narrow = run(&call, &[weights.clone(), i32s(&[30, 2], &indices)]);
    assert_eq!(narrow, run(&call, &[weights, i64s(&[30, 2], &indices)]));
}

#[test]
fn the_lightest_are_dropped_and_equals_by_position() {
    let capacity = Some(Capacity { even: 2, least: 0 });
    let p = Sort {
        capacity,
        ..problem(9, 1, 3)
    };
    let weights = [0.1, 0.3, 0.2, 0.5, 0.5, 0.5, f32::NAN, 0.9, 1.0];
    let case = Case {
        indices: &[0, 0, 0, 1, 1, 1, 2, 2, 2],
        weights: &weights,
        mask: None,
        factors: None,
    };
    assert_eq!(check(p, &case), [2, 2, 2]);
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
    for even in [0, 1, 20, 64, 512] {
        let capacity = Some(Capacity { even, least: 0 });
        check(
            Sort {
                capacity,
                ..problem(256, 2, 8)
            },
            &case,
        );
    }
}

#[test]
fn masks_share_what_is_left_and_factors_are_per_expert() {
    let indices = choices(1000, 8, 4);
    let weights = noise(1000, 5).iter().map(|w| w.abs()).collect::<Vec<_>>();
    let mask = [1, 0, 1, 1, 1, 1, 0, 7];
    let factors = [0.0, 0.5, 1.1, 100.0, 1.0, 0.25, 2.0, 1.0 / 3.0];
    let p = Sort {
        capacity: Some(Capacity { even: 16, least: 4 }),
        ..problem(500, 2, 8)
    };
    let case = |mask, factors| Case {
        indices: &indices,
        weights: &weights,
        mask,
        factors,
    };
    assert_eq!(
        check(p, &case(Some(&mask), None)),
        [21, 0, 21, 21, 21, 21, 0, 21]
    );
    assert_eq!(check(p, &case(Some(&[0; 8]), None)), [0; 8]);
    // ⌈1000 · 1.1⌉ / 8 is more than there are; 0 is raised to the least.
    let taken = check(p, &case(None, Some(&factors)));
    assert_eq!((taken[0], taken[1], taken[5]), (4, 63, 32));
    check(p, &case(Some(&mask), Some(&factors)));
}

#[test]
fn no_tokens_have_no_rows() {
    let got = run(
        &Call::Sort(problem(0, 2, 3)),
        &[f32s(&[0, 2], &[]), i32s(&[0, 2], &[])],
    );
    let got: Vec<Vec<i32>> = got.iter().map(|host| host.to_ints()).collect();
    assert_eq!(got, [vec![], vec![0; 4], vec![], vec![0]]);
}
