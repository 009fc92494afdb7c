//! The counting sort against a stable sort.

use crate::{Outcome, operation};
use cubecl::client::Client;
use moebius_ops::permute::{Problem, sorting};
use moebius_ops::{HostTensor, Permute, routing};
use moebius_shaders::permute::{self, SortBuffers, TILE_WORDS};
use moebius_tests::data::Rng;
use moebius_tests::target::{Target, download_u32, poisoned, upload_u32};

/// What a device made of the keys.
pub(crate) struct Sorted {
    order: Vec<u32>,
    offsets: Vec<u32>,
    tiles: Vec<u32>,
    /// Where the results lie.
    pub(crate) buffers: SortBuffers,
}

/// Sorts `keys` into buffers that were full of nonsense.
pub(crate) fn sort(target: &Target, client: &Client, keys: &[u32], problem: Problem) -> Sorted {
    let plan = permute::plan(problem, target.capability()).unwrap();
    let buffers = SortBuffers {
        keys: upload_u32(client, keys),
        counts: poisoned(client, moebius_shaders::permute::counts(&problem)),
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

/// Every row of every segment lies in exactly one tile of its expert.
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

/// A list of tiles for as many rows as there are, and for fewer: nothing is written past its end.
pub(crate) fn row_bound(target: &Target) {
    let client = target.client().unwrap();
    // 40 slots for each of 5 experts, 100 for none.
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
    // What the list of all slots holds there is unharmed.
    assert_eq!(got[written..], whole.tiles[written..]);
}

/// Any key past the last expert goes where the slots without an expert go.
pub(crate) fn keys_beyond_the_experts(target: &Target) -> Outcome {
    check(target, &[2, 9, 0, u32::MAX, 1, 3, 4, 0], 3)
}
