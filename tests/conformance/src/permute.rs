//! The counting sort against a stable sort, the drop rule by sorting the slots that it keeps, and the capacities of the experts.

use crate::{Outcome, operation};
use cubecl::client::Client;
use moebius_ops::permute::{Capacity, Problem, sorting};
use moebius_ops::{HostTensor, Permute, routing};
use moebius_shaders::permute::capacity::{self, CapacitiesBuffers};
use moebius_shaders::permute::{self, SortBuffers, TILE_WORDS};
use moebius_tests::data::Rng;
use moebius_tests::target::{Target, download_u32, poisoned, upload_f32, upload_u32};

/// The device's sort of some keys.
struct Sorted {
    order: Vec<u32>,
    offsets: Vec<u32>,
    tiles: Vec<u32>,
    /// The buffers with the results.
    buffers: SortBuffers,
}

/// Sorts `keys` into buffers that were filled with garbage.
fn sort(target: &Target, client: &Client, keys: &[u32], problem: Problem) -> Sorted {
    let plan = permute::plan(problem, target.capability()).unwrap();
    let buffers = SortBuffers {
        keys: upload_u32(client, keys),
        counts: poisoned(client, permute::counts(&problem)),
        offsets: poisoned(client, problem.experts() + 1),
        dropped: poisoned(client, 1),
        order: poisoned(client, problem.slots()),
        positions: poisoned(client, problem.slots()),
        tiles: poisoned(client, TILE_WORDS * problem.max_tiles()),
    };
    permute::launch(client, &plan, &buffers);
    Sorted {
        order: download_u32(client, buffers.order.clone(), problem.slots()),
        offsets: download_u32(client, buffers.offsets.clone(), problem.experts() + 1),
        tiles: download_u32(
            client,
            buffers.tiles.clone(),
            TILE_WORDS * problem.max_tiles(),
        ),
        buffers,
    }
}

fn check(target: &Target, keys: &[u32], experts: usize) -> Outcome {
    let choice = routing::Problem::new(keys.len(), experts, 1).unwrap();
    let sort = Permute::Sort {
        problem: sorting::Problem::new(&choice, None, false).unwrap(),
        mask: false,
    };
    let weights = HostTensor::of_f32(&vec![1.0; keys.len()]);
    operation::check(target, sort, &[weights, keys.to_vec().into()], |_| 0.0)
}

pub(crate) fn block_edges(target: &Target) -> Outcome {
    let sizes = [1, 2, 255, 256, 257, 511, 512, 516, 1000, 8192];
    let sizes = sizes
        .into_iter()
        .flat_map(|slots| [1, 3, 8, 128].map(|experts| (slots, experts)));
    Outcome::of(operation::some_of(target, sizes).map(|(slots, experts)| {
        let mut rng = Rng::new(slots as u64);
        let keys: Vec<u32> = (0..slots).map(|_| rng.below(experts) as u32).collect();
        check(target, &keys, experts)
    }))
}

pub(crate) fn one_expert_gets_all(target: &Target) -> Outcome {
    Outcome::of([check(target, &[0; 700], 8), check(target, &[7; 700], 8)])
}

pub(crate) fn slots_without_expert(target: &Target) -> Outcome {
    let keys: Vec<u32> = (0..600).map(|s| (s * 7 % 6) as u32).collect();
    Outcome::of([check(target, &keys, 5), check(target, &[5; 300], 5)])
}

/// Asserts that every row of every segment lies in exactly one tile of its expert.
fn check_tiles(keys: &[u32], problem: Problem, rows: usize, got: &Sorted) {
    let experts = problem.experts() as u32;
    assert_eq!(got.tiles.len(), TILE_WORDS * problem.max_tiles());
    let mut owner = vec![experts; keys.len()];
    let mut order = Vec::new();
    for tile in got.tiles.chunks(TILE_WORDS) {
        order.push((tile[0], tile[1]));
        if tile[0] == experts {
            assert_eq!(tile[1..], [0, 0], "a tile of no expert");
            continue;
        }
        let end = got.offsets[tile[0] as usize + 1].min(tile[1] + rows as u32);
        assert_eq!(tile[2], end, "the end of a tile");
        assert!(
            tile[1] >= got.offsets[tile[0] as usize] && tile[1] < end,
            "empty tile"
        );
        for row in tile[1]..end {
            let seen = std::mem::replace(&mut owner[row as usize], tile[0]);
            assert_eq!(seen, experts, "row {row} twice");
        }
    }
    assert!(order.is_sorted_by_key(|tile| tile.0), "tiles out of order");
    let want: Vec<u32> = got
        .order
        .iter()
        .map(|slot| keys[*slot as usize].min(experts))
        .collect();
    assert_eq!(owner, want);
}

pub(crate) fn tiles_cover_every_row(target: &Target) {
    let client = target.client().unwrap();
    for (slots, experts, rows) in [
        (1, 4, 64),
        (130, 4, 64),
        (9, 16, 4),
        (513, 3, 1),
        (6000, 2, 4),
    ] {
        let mut rng = Rng::new(rows as u64);
        let keys: Vec<u32> = (0..slots).map(|_| rng.below(experts) as u32).collect();
        let problem = Problem::new(slots, experts, rows).unwrap();
        let got = sort(target, &client, &keys, problem);
        check_tiles(&keys, problem, rows, &got);
    }
}

/// Checks tile lists for exactly as many rows as there are, and for fewer: nothing is written past the list's end.
pub(crate) fn row_bound(target: &Target) {
    let client = target.client().unwrap();
    // 40 slots for each of 5 experts, and 100 without an expert.
    let keys: Vec<u32> = (0..300).map(|s| (s * 7 % 30 / 4).min(5) as u32).collect();
    let used = keys.iter().filter(|key| **key < 5).count();
    let all = Problem::new(300, 5, 4).unwrap();
    let bounded = all.with_row_bound(used).unwrap();
    assert!(bounded.max_tiles() < all.max_tiles());
    let got = sort(target, &client, &keys, bounded);
    assert_eq!(got.order, moebius_ops::permute::reference(&keys, 5).order);
    check_tiles(&keys, bounded, 4, &got);

    let whole = sort(target, &client, &keys, all);
    let few = all.with_row_bound(8).unwrap();
    let plan = permute::plan(few, target.capability()).unwrap();
    permute::launch(&client, &plan, &whole.buffers);
    let written = TILE_WORDS * few.max_tiles();
    let got = download_u32(&client, whole.buffers.tiles, whole.tiles.len());
    assert_eq!(got[..written], whole.tiles[..written]);
    // The longer list's tiles past that end are unchanged.
    assert_eq!(got[written..], whole.tiles[written..]);
}

/// Checks that keys past the last expert are sorted like slots without an expert.
pub(crate) fn keys_beyond_the_experts(target: &Target) -> Outcome {
    check(target, &[2, 9, 0, u32::MAX, 1, 3, 4, 0], 3)
}

/// Checks the sort of the slots that a capacity keeps: `factor` times the even load, or each expert's own factor instead.
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

/// Random keys for `experts` experts, now and then without an expert, and random weights.
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

/// Checks a capacity for each expert, 0 included.
pub(crate) fn of_each_expert(target: &Target) -> Outcome {
    let (keys, weights) = routing(2000, 7);
    let all = [[0, 1, 5, 100, 250, 251, 5000], [0; 7]];
    Outcome::of(all.map(|slots| {
        // Half a slot less than the capacity, which is rounded up.
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

/// Checks that a NaN of either sign counts as the largest weight, and that the capacity still holds.
pub(crate) fn keeps_nan(target: &Target) -> Outcome {
    let mut weights: Vec<f32> = Rng::new(5).vec(300, 1.0).iter().map(|w| w.abs()).collect();
    for slot in [3, 77, 150] {
        weights[slot] = f32::from_bits(0xFFC0_0000);
        weights[slot + 1] = f32::NAN;
    }
    let factors = [0.001, 0.01, 0.5];
    Outcome::of(factors.map(|factor| check_drops(target, &[0; 300], &weights, 1, factor, None)))
}

/// Asserts that the capacities on `target` equal the host's exactly.
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

/// Checks factors whose products with the slot counts are integers, close to integers, or beyond all limits.
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
