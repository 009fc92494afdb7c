//! Tests of every rule, alone and with others, at once and in blocks; of sizes at the edges of blocks; of the work; and
//! of the reach of NaN and infinities.

use super::{
    Data, F32, WHOLE, assert_close, blocks, check, check_by, data, expected, problem, program, run,
    sizes,
};
use moebius_ops::attention::{Pattern, Problem, Rule, Sizes};
use moebius_ops::{Element, HostTensor};
use moebius_xla::custom::Tiling;

const ALL: Pattern = Pattern {
    batch: true,
    heads: true,
};
const NONE: Pattern = Pattern {
    batch: false,
    heads: false,
};
const HEADS: Pattern = Pattern {
    batch: false,
    heads: true,
};
const BATCH: Pattern = Pattern {
    batch: true,
    heads: false,
};

fn in_blocks(p: &Problem) {
    check_by(p, &data(p), &[blocks(8)], F32);
}

#[test]
fn attention_without_rules() {
    check(&problem(sizes(21, 29), &[]));
    check(&problem(sizes(16, 8), &[]).with_sinks(true));
}

#[test]
fn rules_by_place() {
    let rules = [
        Rule::Causal,
        Rule::CausalTopLeft,
        Rule::Window(6),
        Rule::SymmetricWindow(4),
        Rule::Prefix(5),
        Rule::Global {
            tokens: 2,
            window: 3,
        },
        Rule::Dilated(3),
    ];
    for rule in rules {
        check(&problem(sizes(21, 29), &[rule]));
        // Under some of the rules, the first queries see nothing.
        in_blocks(&problem(sizes(29, 13), &[rule]));
        for first in [-7, 19] {
            let problem = problem(sizes(21, 29), &[rule, Rule::Relative(40)]);
            let rules = problem.rules().with_position(Some(first));
            in_blocks(&problem.with_rules(rules).unwrap());
        }
    }
}

#[test]
fn rules_by_table() {
    let rules = [
        Rule::Documents,
        Rule::Blocks(4),
        Rule::Blocks(11),
        Rule::Mask(ALL),
        Rule::Mask(NONE),
    ];
    for rule in rules {
        check(&problem(sizes(21, 29), &[rule]));
    }
}

#[test]
fn rules_that_change_scores() {
    let rules = [
        Rule::Alibi,
        Rule::Softcap(1.2),
        Rule::Bias(ALL),
        Rule::Bias(NONE),
        Rule::Bias(HEADS),
        Rule::Relative(4),
        Rule::Relative(0),
        Rule::Relative(100),
    ];
    for rule in rules {
        check(&problem(sizes(21, 29), &[rule]));
    }
    check(&problem(sizes(29, 13), &[Rule::Relative(7)]));
}

#[test]
fn rules_together() {
    let together: [&[Rule]; 6] = [
        &[
            Rule::Alibi,
            Rule::Softcap(1.5),
            Rule::Bias(ALL),
            Rule::Causal,
        ],
        &[Rule::Bias(BATCH), Rule::Softcap(2.0), Rule::Documents],
        &[
            Rule::Relative(2),
            Rule::Softcap(2.0),
            Rule::SymmetricWindow(9),
            Rule::Mask(HEADS),
        ],
        &[Rule::Softcap(0.8), Rule::Relative(6), Rule::Window(12)],
        &[Rule::Causal, Rule::Blocks(5), Rule::Dilated(2)],
        &[Rule::Prefix(4), Rule::Documents, Rule::Mask(BATCH)],
    ];
    for rules in together {
        let problem = problem(sizes(21, 29), rules);
        check(&problem);
        check(&problem.with_sinks(true));
    }
}

#[test]
fn dropouts() {
    let rules: [&[Rule]; 3] = [
        &[],
        &[Rule::Causal],
        &[Rule::Bias(BATCH), Rule::Softcap(2.0), Rule::Relative(3)],
    ];
    for rules in rules {
        check(&problem(sizes(21, 29), rules).with_dropout(true));
    }
}

#[test]
fn halves_are_summed_in_f32() {
    let rules = [Rule::Softcap(2.0), Rule::Relative(5), Rule::Causal];
    // The tolerance is a rounding of the results, and for gradients also that of o.
    for (element, tolerance) in [
        (Element::F16, [5e-4, 2e-3]),
        (Element::Bf16, [4e-3, 1.5e-2]),
    ] {
        let p = problem(sizes(21, 29), &rules).with_element(element);
        check_by(&p, &data(&p), &[WHOLE, blocks(8)], tolerance);
    }
}

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

/// One query, one key, whole blocks, and one more or fewer.
#[test]
fn edges_of_blocks() {
    for (queries, keys) in [(1, 40), (40, 1), (7, 9), (8, 8), (9, 7), (16, 17)] {
        let rules = [Rule::Causal, Rule::Relative(3)];
        let p = problem(sizes(queries, keys), &rules).with_sinks(true);
        check_by(&p, &data(&p), &[blocks(8)], F32);
    }
}

/// As many query heads as key heads, and one key head for all query heads.
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

/// Just beyond the limit, scores are computed in blocks, with the same results.
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

/// Blocks of queries visit only the keys in their range, and no tensor is as large as all scores.
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
    // 512 keys before the first query and 128 in the block, of 16384.
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

fn floats<'a>(data: &'a mut Data, name: &'static str) -> &'a mut Vec<f64> {
    match data.get_mut(name) {
        Some(HostTensor::Floats(values)) => values,
        other => panic!("{name}: {other:?}"),
    }
}

/// The data with `value` in place of one element of key `key`, in the first key head of both sequences.
fn spoilt(data: &Data, p: &Problem, (name, value): (&'static str, f64), key: usize) -> Data {
    let s = p.sizes();
    let (width, heads, rows) = match name {
        "k" => (s.head_dim, s.kv_heads, s.keys),
        "v" => (s.value_dim, s.kv_heads, s.keys),
        "q" => (s.head_dim, s.heads, s.queries),
        _ => (s.value_dim, s.heads, s.queries),
    };
    let mut data = data.clone();
    let x = floats(&mut data, name);
    for batch in 0..s.batch {
        x[(batch * heads * rows + key) * width + 1] = value;
    }
    data
}

#[test]
fn rows_that_are_not_finite_stay_with_what_sees_them() {
    let rules = [Rule::Causal, Rule::Softcap(2.0), Rule::Relative(3)];
    let p = problem(sizes(21, 29), &rules).with_sinks(true);
    let (data, infinity) = (data(&p), f64::INFINITY);
    let of_values = |value, key| spoilt(&data, &p, ("v", value), key);
    let both = spoilt(&of_values(infinity, 17), &p, ("v", -infinity), 20);
    let mut all: Vec<Data> = ["k", "v", "q", "do"]
        .map(|name| spoilt(&data, &p, (name, f64::NAN), 19))
        .into();
    all.extend([of_values(infinity, 19), of_values(-infinity, 19), both]);
    for data in &all {
        // o, its log-sum-exp, dq and dk.
        for want in &expected(&p, data)[..4] {
            let some = want.values.iter().any(|x| x.is_finite());
            assert!(some, "{}", want.name);
        }
        check_by(&p, data, &[WHOLE, blocks(8)], F32);
    }
}

#[test]
fn keys_that_nothing_sees_may_hold_anything() {
    let p = problem(sizes(21, 29), &[Rule::Bias(ALL), Rule::Mask(ALL)]);
    let (mut data, s) = (data(&p), *p.sizes());
    let Some(HostTensor::Words(mask)) = data.get_mut("mask") else {
        panic!("there is a mask");
    };
    for (i, word) in mask.iter_mut().enumerate() {
        if i % s.keys >= 23 {
            *word = 0;
        }
    }
    let clean = expected(&p, &data);
    for (name, width) in [("k", s.head_dim), ("v", s.value_dim)] {
        for (i, x) in floats(&mut data, name).iter_mut().enumerate() {
            let key = i / width % s.keys;
            if key >= 23 {
                *x = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][key % 3];
            }
        }
    }
    for (i, bias) in floats(&mut data, "bias").iter_mut().enumerate() {
        if i % s.keys >= 23 {
            *bias = f64::NAN;
        }
    }
    for tiling in [WHOLE, blocks(8)] {
        assert_close(&run(&p, &data, tiling), &clean, F32, &format!("{tiling:?}"));
    }
}
