//! The counting sort and the drop rule against a stable sort and a sort by weight.

use crate::Outcome;
use cubecl::client::Client;
use moebius_shaders::permute::{self, Capacity, CapacityPlan, Problem, SortBuffers, drop_rule};
use moebius_tests::data::Rng;
use moebius_tests::target::{Target, download_u32, poisoned, upload_f32, upload_u32};

struct Sorted {
    order: Vec<u32>,
    offsets: Vec<u32>,
    dropped: u32,
    tiles: Vec<u32>,
    buffers: SortBuffers,
}

fn sort(target: &Target, client: &Client, keys: &[u32], problem: Problem) -> Sorted {
    let plan = permute::plan(problem, target.capability()).unwrap();
    let buffers = SortBuffers {
        keys: upload_u32(client, keys),
        counts: poisoned(client, problem.counts()),
        offsets: poisoned(client, problem.experts() + 1),
        dropped: poisoned(client, 1),
        order: poisoned(client, problem.slots()),
        tiles: poisoned(client, 2 * problem.max_tiles()),
    };
    permute::launch(client, &plan, &buffers);
    Sorted {
        order: download_u32(client, buffers.order.clone(), problem.slots()),
        offsets: download_u32(client, buffers.offsets.clone(), problem.experts() + 1),
        dropped: download_u32(client, buffers.dropped.clone(), 1)[0],
        tiles: download_u32(client, buffers.tiles.clone(), 2 * problem.max_tiles()),
        buffers,
    }
}

fn check(target: &Target, keys: &[u32], experts: usize) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let problem = Problem::new(keys.len(), experts, 4).unwrap();
    let got = sort(target, &client, keys, problem);
    let want = permute::reference(keys, experts);
    assert_eq!(got.offsets, want.offsets);
    assert_eq!(
        got.order,
        want.order,
        "stable order of {} slots",
        keys.len()
    );
    assert_eq!(got.dropped, keys.len() as u32 - want.offsets[experts]);
    Outcome::Ran
}

pub(crate) fn block_edges(target: &Target) -> Outcome {
    let sizes = [1, 2, 255, 256, 257, 1000, 8192];
    let sizes = sizes
        .into_iter()
        .flat_map(|slots| [1, 3, 8, 128].map(|experts| (slots, experts)));
    Outcome::of(sizes.map(|(slots, experts)| {
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

/// Every row of every segment lies in exactly one tile of its expert.
pub(crate) fn tiles_cover_every_row(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    for (slots, experts, rows) in [(1, 4, 64), (130, 4, 64), (9, 16, 4), (513, 3, 1)] {
        let mut rng = Rng::new(rows as u64);
        let keys: Vec<u32> = (0..slots).map(|_| rng.below(experts) as u32).collect();
        let problem = Problem::new(slots, experts, rows).unwrap();
        let got = sort(target, &client, &keys, problem);
        let mut owner = vec![experts as u32; slots];
        for tile in got.tiles.chunks(2).filter(|tile| tile[0] < experts as u32) {
            let end = got.offsets[tile[0] as usize + 1].min(tile[1] + rows as u32);
            assert!(
                tile[1] >= got.offsets[tile[0] as usize] && tile[1] < end,
                "empty tile"
            );
            for row in tile[1]..end {
                let seen = std::mem::replace(&mut owner[row as usize], tile[0]);
                assert_eq!(seen, experts as u32, "row {row} twice");
            }
        }
        let want: Vec<u32> = got.order.iter().map(|slot| keys[*slot as usize]).collect();
        assert_eq!(owner, want);
    }
    Outcome::Ran
}

fn drop_keys(
    target: &Target,
    keys: &[u32],
    weights: &[f32],
    experts: usize,
    plan: CapacityPlan,
) -> Option<Vec<u32>> {
    let client = target.client()?;
    let problem = Problem::new(keys.len(), experts, 1).unwrap();
    let sorted = sort(target, &client, keys, problem).buffers;
    let buffers = drop_rule::CapacityBuffers {
        order: sorted.order,
        offsets: sorted.offsets,
        weights: upload_f32(&client, weights),
        keys: poisoned(&client, keys.len()),
    };
    drop_rule::launch(&client, &plan, buffers.clone());
    Some(download_u32(&client, buffers.keys, keys.len()))
}

fn check_drops(
    target: &Target,
    keys: &[u32],
    weights: &[f32],
    experts: usize,
    factor: f64,
) -> Outcome {
    let capacity = Capacity::new(factor, 1).unwrap();
    let problem = Problem::new(keys.len(), experts, 1).unwrap();
    let plan = drop_rule::plan(problem, capacity, target.capability()).unwrap();
    let Some(got) = drop_keys(target, keys, weights, experts, plan) else {
        return Outcome::Unsupported("no kernels".into());
    };
    let limit = capacity.slots_per_expert(keys.len(), experts);
    assert_eq!(
        got,
        drop_rule::reference(keys, weights, experts, limit),
        "factor {factor}"
    );
    Outcome::Ran
}

pub(crate) fn drop_rule_by_weight(target: &Target) -> Outcome {
    let sizes = [(1, 1), (75, 8), (1000, 3), (3000, 6)];
    Outcome::of(sizes.into_iter().flat_map(|(slots, experts)| {
        let mut rng = Rng::new(slots as u64);
        let keys: Vec<u32> = (0..slots).map(|_| rng.below(experts) as u32).collect();
        let weights: Vec<f32> = rng.vec(slots, 1.0).iter().map(|w| w.abs()).collect();
        [0.01, 0.5, 0.75, 1.0, 4.0]
            .map(|factor| check_drops(target, &keys, &weights, experts, factor))
    }))
}

pub(crate) fn drop_rule_breaks_ties_by_slot(target: &Target) -> Outcome {
    let mut rng = Rng::new(3);
    let keys: Vec<u32> = (0..2000).map(|_| rng.below(5) as u32).collect();
    let weights: Vec<f32> = (0..2000).map(|_| rng.below(4) as f32 / 4.0).collect();
    Outcome::of([
        check_drops(target, &[1; 900], &[1.0; 900], 3, 0.7),
        check_drops(target, &[0; 900], &[0.0; 900], 2, 0.3),
        check_drops(target, &keys, &weights, 4, 0.6),
    ])
}

/// A NaN of either sign counts as the heaviest weight, and no more slots are kept for it.
pub(crate) fn drop_rule_keeps_nan(target: &Target) -> Outcome {
    let mut weights: Vec<f32> = Rng::new(5).vec(300, 1.0).iter().map(|w| w.abs()).collect();
    for slot in [3, 77, 150] {
        weights[slot] = f32::from_bits(0xFFC0_0000);
        weights[slot + 1] = f32::NAN;
    }
    Outcome::of(
        [0.001, 0.01, 0.5].map(|factor| check_drops(target, &[0; 300], &weights, 1, factor)),
    )
}

/// Any key past the last expert goes where the slots without an expert go.
pub(crate) fn keys_beyond_the_experts(target: &Target) -> Outcome {
    check(target, &[2, 9, 0, u32::MAX, 1, 3, 4, 0], 3)
}
