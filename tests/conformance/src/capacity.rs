//! The drop rule, by the sort of what it leaves, and the capacities of the experts.

use crate::{Outcome, operation};
use moebius_ops::permute::{Capacity, Problem, sorting};
use moebius_ops::{HostTensor, Permute, routing};
use moebius_shaders::permute::capacity::{self, CapacitiesBuffers};
use moebius_tests::data::Rng;
use moebius_tests::target::{Target, download_u32, poisoned, upload_f32, upload_u32};

/// Sorts what `factor` times the even load, or the factors of the experts in its place, leaves of the slots.
fn check_drops(
    target: &Target,
    keys: &[u32],
    weights: &[f32],
    experts: usize,
    factor: f64,
    factors: Option<&[f32]>,
) -> Outcome {
    let choice = routing::Problem::new(keys.len(), experts, 1).unwrap();
    let least = usize::from(factors.is_none());
    let capacity = Some(Capacity::new(factor, least).unwrap());
    let sort = Permute::Sort {
        problem: sorting::Problem::new(&choice, capacity, factors.is_some()).unwrap(),
        mask: false,
    };
    let mut operands = vec![HostTensor::of_f32(weights), keys.to_vec().into()];
    operands.extend(factors.map(HostTensor::of_f32));
    operation::check(target, sort, &operands, |_| 0.0)
}

/// Keys of `experts` experts and now and then of none, and weights.
fn routing(slots: usize, experts: usize) -> (Vec<u32>, Vec<f32>) {
    let mut rng = Rng::new(slots as u64);
    let keys = (0..slots).map(|_| rng.below(experts + 1) as u32).collect();
    let weights = rng.vec(slots, 1.0).iter().map(|w| w.abs()).collect();
    (keys, weights)
}

pub(crate) fn by_weight(target: &Target) -> Outcome {
    let sizes = [(1, 1), (75, 8), (1000, 3), (3000, 6), (300, 70)];
    let all = sizes.into_iter().flat_map(|(slots, experts)| {
        [0.01, 0.5, 0.75, 1.0, 4.0].map(|factor| (slots, experts, factor))
    });
    Outcome::of(
        operation::some_of(target, all).map(|(slots, experts, factor)| {
            let (keys, weights) = routing(slots, experts);
            check_drops(target, &keys, &weights, experts, factor, None)
        }),
    )
}

/// Every expert has its own capacity, 0 among them.
pub(crate) fn of_each_expert(target: &Target) -> Outcome {
    let (keys, weights) = routing(2000, 7);
    let all = [[0, 1, 5, 100, 250, 251, 5000], [0; 7]];
    Outcome::of(all.map(|slots| {
        // Half a slot less than the expert takes: its capacity is rounded up.
        let factor = |slots: u32| (slots as f32 - 0.5).max(0.0) * 7.0 / 2000.0;
        check_drops(target, &keys, &weights, 7, 1.0, Some(&slots.map(factor)))
    }))
}

pub(crate) fn ties_go_to_the_earlier_slot(target: &Target) -> Outcome {
    let mut rng = Rng::new(3);
    let keys: Vec<u32> = (0..2000).map(|_| rng.below(5) as u32).collect();
    let weights: Vec<f32> = (0..2000).map(|_| rng.below(4) as f32 / 4.0).collect();
    Outcome::of([
        check_drops(target, &[1; 900], &[1.0; 900], 3, 0.7, None),
        check_drops(target, &[0; 900], &[0.0; 900], 2, 0.3, None),
        check_drops(target, &keys, &weights, 4, 0.6, None),
    ])
}

/// A NaN of either sign counts as the heaviest weight, and no more slots are kept for it.
pub(crate) fn keeps_nan(target: &Target) -> Outcome {
    let mut weights: Vec<f32> = Rng::new(5).vec(300, 1.0).iter().map(|w| w.abs()).collect();
    for slot in [3, 77, 150] {
        weights[slot] = f32::from_bits(0xFFC0_0000);
        weights[slot + 1] = f32::NAN;
    }
    let factors = [0.001, 0.01, 0.5];
    Outcome::of(factors.map(|factor| check_drops(target, &[0; 300], &weights, 1, factor, None)))
}

/// The capacities on `target` equal those of the host to the last slot.
fn check_capacities(
    target: &Target,
    (slots, capacity): (usize, Capacity),
    experts: usize,
    mask: Option<&[bool]>,
    factors: Option<&[f32]>,
) -> Outcome {
    let client = target.client().unwrap();
    let problem = Problem::new(slots, experts, 1).unwrap();
    let plan = capacity::plan_capacities(problem, capacity, target.capability()).unwrap();
    let out = poisoned(&client, experts);
    let words = |mask: &[bool]| -> Vec<u32> { mask.iter().map(|m| 3 * u32::from(*m)).collect() };
    let buffers = CapacitiesBuffers {
        mask: mask.map(|mask| upload_u32(&client, &words(mask))),
        factors: factors.map(|factors| upload_f32(&client, factors)),
        capacities: out.clone(),
    };
    capacity::launch_capacities(&client, &plan, buffers);
    let got = download_u32(&client, out, experts);
    let want = moebius_ops::permute::capacities_reference(&capacity, slots, experts, mask, factors);
    assert_eq!(got, want, "{slots} slots, {experts} experts, mask {mask:?}");
    Outcome::Ran
}

pub(crate) fn shared_under_a_mask(target: &Target) -> Outcome {
    let sizes = [(64, 1), (1000, 7), (4096, 64), (100_000, 300)];
    Outcome::of(sizes.into_iter().flat_map(|(slots, experts)| {
        let rule = (slots, Capacity::new(1.25, 4).unwrap());
        let mut rng = Rng::new(slots as u64);
        let some: Vec<bool> = (0..experts).map(|_| rng.below(3) > 0).collect();
        let one: Vec<bool> = (0..experts).map(|e| e == experts / 2).collect();
        [None, Some(&some), Some(&one), Some(&vec![false; experts])]
            .map(|mask| check_capacities(target, rule, experts, mask.map(|m| &m[..]), None))
    }))
}

/// Factors whose products with the slots are integers, lie beside them, and exceed everything.
pub(crate) fn own_factors(target: &Target) -> Outcome {
    let sizes = [(64, 5), (1000, 10), (32_768, 64), (3_000_001, 300)];
    Outcome::of(sizes.into_iter().flat_map(|(slots, experts)| {
        let rule = (slots, Capacity::new(1.0, 4).unwrap());
        let mut rng = Rng::new(slots as u64);
        let mut factors = rng.vec(experts, 1.0);
        factors
            .iter_mut()
            .for_each(|factor| *factor = factor.abs() * 2.0);
        factors[..5].copy_from_slice(&[1.1, 0.0, f32::INFINITY, 1.000_000_1, 2.0]);
        let mask: Vec<bool> = (0..experts).map(|e| e % 3 > 0).collect();
        [None, Some(&mask[..])]
            .map(|mask| check_capacities(target, rule, experts, mask, Some(&factors)))
    }))
}
