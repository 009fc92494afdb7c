//! Sizes at the edges, and how much is computed.

use super::{F32, WHOLE, blocks, check, check_by, data, problem, program, sizes};
use moebius_ops::attention::{Rule, Sizes};
use moebius_xla::custom::Tiling;

#[test]
fn nothing_to_see_or_to_ask() {
    let sizes_of = |batch, queries, keys| Sizes {
        batch,
        ..sizes(queries, keys)
    };
    for (batch, queries, keys) in [(2, 0, 5), (2, 5, 0), (0, 5, 3), (2, 0, 0), (1, 1, 1)] {
        for sinks in [false, true] {
            let rules = [Rule::Causal, Rule::Softcap(2.0), Rule::Relative(3)];
            let p = problem(sizes_of(batch, queries, keys), &rules).with_sinks(sinks);
            check_by(&p, &data(&p), &[Tiling::default(), blocks(8)], F32);
        }
    }
}

/// One query, one key, whole blocks and one more or less.
#[test]
fn edges_of_blocks() {
    for (queries, keys) in [(1, 40), (40, 1), (7, 9), (8, 8), (9, 7), (16, 17)] {
        let rules = [Rule::Causal, Rule::Relative(3)];
        let p = problem(sizes(queries, keys), &rules).with_sinks(true);
        check_by(&p, &data(&p), &[blocks(8)], F32);
    }
}

/// As many heads as key heads, and one key head for all.
#[test]
fn groups_of_heads() {
    for kv_heads in [1, 2, 4] {
        let sizes = Sizes {
            kv_heads,
            ..sizes(9, 12)
        };
        let p = problem(sizes, &[Rule::Alibi, Rule::Window(7)]);
        check(&p);
    }
}

/// Just beyond the limit the scores are computed in blocks, and come out the same.
#[test]
fn blocks_begin_beyond_the_limit() {
    let p = problem(sizes(150, 140), &[Rule::Causal, Rule::Softcap(3.0)]);
    let limit = 2 * 4 * 150 * 140;
    let at = |whole| Tiling {
        whole,
        ..Tiling::default()
    };
    let (within, beyond) = (at(limit), at(limit - 1));
    let text = |tiling| program(&p, tiling).0.text;
    assert_eq!(text(within), text(WHOLE));
    assert_ne!(text(within), text(beyond));
    check_by(&p, &data(&p), &[within, beyond], F32);
}

/// Blocks of queries visit the keys in their range only, and no tensor is as large as all scores.
#[test]
fn work_and_memory_follow_from_the_rules() {
    let sizes = Sizes {
        batch: 1,
        heads: 2,
        kv_heads: 1,
        ..sizes(1 << 14, 1 << 14)
    };
    let flops = |rules: &[Rule]| program(&problem(sizes, rules), Tiling::default()).0.flops as f64;
    let all = flops(&[]);
    let half = flops(&[Rule::Causal]) / all;
    assert!((0.5..0.53).contains(&half), "{half}");
    // 512 keys before the first query and 128 of the block, of 16384.
    let few = flops(&[Rule::Window(512)]) / all;
    assert!(few < 6.0 * 128.0 / 16384.0, "{few}");
    let text = program(
        &problem(sizes, &[Rule::Causal, Rule::Relative(9)]),
        Tiling::default(),
    )
    .0
    .text;
    assert!(!text.contains("16384x16384"));
}
