//! Feed-forward experts, forward.

use crate::batch::{Batch, resized};
use crate::run::{self, Host, floats, run};
use moebius_ops::experts::Problem;
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::{Element, Experts, routing};
use moebius_pjrt::ElementType::{BF16, F16, F32};

/// Activation, gated, biases.
pub(crate) const VARIANTS: [(Activation, bool, bool); 7] = [
    (Activation::Relu, false, true),
    (Activation::Relu, true, false),
    (Activation::Gelu, false, false),
    (Activation::Silu, true, true),
    (Activation::Mish, false, true),
    (Activation::Mish, true, false),
    (Activation::Clamped, true, true),
];

pub(crate) fn problem(tokens: usize, top_k: usize, experts: usize) -> Problem {
    Problem {
        routing: routing::Problem::new(tokens, experts, top_k).unwrap(),
        hidden: 24,
        inter: 20,
        element: Element::F32,
        gated: false,
        activation: Activation::Silu,
        bias: false,
        capacity: None,
        row_bound: tokens * top_k,
        dense: false,
    }
}

/// One expert of all tokens, with a gate and biases.
pub(crate) fn network(tokens: usize) -> Problem {
    Problem {
        gated: true,
        bias: true,
        dense: true,
        ..problem(tokens, 1, 1)
    }
}

/// Slots dealt out so that expert e has `loads[e]`; the rest have none.
pub(crate) fn dealt(slots: usize, loads: &[usize]) -> Vec<usize> {
    let of = loads
        .iter()
        .enumerate()
        .flat_map(|(e, load)| vec![e; *load]);
    let mut keys: Vec<usize> = of.collect();
    assert!(keys.len() <= slots);
    keys.resize(slots, loads.len());
    // Spread over the tokens: 89 and the numbers of slots here have no common factor.
    (0..slots).map(|slot| keys[slot * 89 % slots]).collect()
}

pub(crate) fn forward(batch: &Batch, keep: bool) -> Vec<Host> {
    let problem = batch.p;
    run(Experts::Forward { problem, keep }, &batch.inputs())
}

fn check(batch: &Batch, tolerance: f64) {
    for keep in [false, true] {
        let problem = batch.p;
        let forward = Experts::Forward { problem, keep };
        let got = run::check(forward, &batch.inputs(), |_| tolerance);
        let same = |host: &Host| host.ty.element == batch.x.ty.element;
        assert!(got.iter().all(same));
    }
}

#[test]
fn every_activation_plain_and_gated_with_and_without_biases() {
    let keys = dealt(60, &[20, 0, 33, 5]);
    for (activation, gated, bias) in VARIANTS {
        let p = Problem {
            activation,
            gated,
            bias,
            ..problem(30, 2, 4)
        };
        check(&Batch::new(p, F32, &keys), 2e-5);
    }
}

#[test]
fn half_precision_comes_and_goes_and_sums_are_f32() {
    let keys = dealt(60, &[20, 0, 33, 5]);
    for (element, tolerance) in [(F16, 4e-3), (BF16, 3e-2)] {
        for gated in [false, true] {
            let p = Problem {
                gated,
                bias: true,
                ..problem(30, 2, 4)
            };
            check(&Batch::new(p, element, &keys), tolerance);
        }
    }
}

/// Blocks of 96 rows: around their edges, all to one, none at all.
#[test]
fn every_load_around_the_edges_of_blocks() {
    let loads: [&[usize]; 8] = [
        &[95, 96, 97, 0, 1],
        &[288, 0, 0, 0, 289],
        &[600, 0, 0, 0, 0],
        &[0, 0, 0, 0, 600],
        &[1, 1, 1, 1, 1],
        &[0, 0, 0, 0, 0],
        &[0, 287, 0, 2, 0],
        &[100, 90, 0, 80, 70],
    ];
    for loads in loads {
        check(
            &Batch::new(problem(300, 2, 5), F32, &dealt(600, loads)),
            2e-5,
        );
    }
}

#[test]
fn one_token_one_expert_and_many_experts() {
    check(&Batch::new(problem(1, 1, 1), F32, &[0]), 2e-5);
    check(&Batch::new(problem(1, 2, 64), F32, &[63, 5]), 2e-5);
    check(
        &Batch::new(problem(4, 3, 3), F32, &[2, 1, 0, 0, 1, 2, 1, 2, 0, 2, 0, 1]),
        2e-5,
    );
}

/// Around the edges of blocks, too.
#[test]
fn a_dense_network_has_no_sort() {
    for tokens in [1, 95, 96, 97, 300] {
        check(&Batch::new(network(tokens), F32, &[]), 2e-5);
    }
}

#[test]
fn rows_may_be_fewer_than_slots() {
    let p = Problem {
        row_bound: 101,
        bias: true,
        ..problem(150, 2, 5)
    };
    check(&Batch::new(p, F32, &dealt(300, &[40, 0, 1, 20, 40])), 2e-5);
    check(&Batch::new(p, F32, &dealt(300, &[3, 0, 1, 0, 0])), 2e-5);
}

#[test]
fn a_token_of_nan_stays_alone_and_slots_without_expert_add_nothing() {
    let mut batch = Batch::new(problem(30, 2, 4), F32, &dealt(60, &[20, 0, 33, 5]));
    let clean = forward(&batch, false)[0].to_floats();
    let (hidden, token) = (batch.p.hidden, 7);
    let mut x = batch.x.to_floats();
    x[token * hidden] = f32::NAN;
    batch.x = floats(F32, &[30, hidden], &x);
    let lost: Vec<usize> = (0..60).filter(|slot| batch.keys[*slot] == 4).collect();
    let mut weights = batch.weights.to_floats();
    lost.iter().for_each(|slot| weights[*slot] = f32::NAN);
    batch.weights = floats(F32, &[30, 2], &weights);
    let got = forward(&batch, false)[0].to_floats();
    for (at, (got, clean)) in got.iter().zip(&clean).enumerate() {
        let alone = at / hidden == token;
        assert!(
            if alone {
                got.is_nan()
            } else {
                got.to_bits() == clean.to_bits()
            },
            "{at}"
        );
    }
}

#[test]
fn no_tokens_and_nothing_sorted() {
    let empty = Batch::new(problem(0, 2, 3), F32, &[]);
    assert_eq!(forward(&empty, true)[0].ty.shape, [0, 24]);
}

#[test]
fn equal_inputs_give_equal_bits() {
    let keys = dealt(300, &[63, 64, 65, 0, 1]);
    let batch = Batch::new(problem(150, 2, 5), F32, &keys);
    assert_eq!(forward(&batch, true), forward(&batch, true));
}

/// What a token gets depends on the token alone: not on where in a block its rows lie, nor on what else
/// the batch holds.
#[test]
fn a_token_has_the_same_output_in_another_batch() {
    let p = Problem {
        hidden: 200,
        inter: 600,
        gated: true,
        ..problem(300, 2, 5)
    };
    let keys = dealt(600, &[63, 140, 65, 7, 270]);
    let all = Batch::new(p, F32, &keys);
    let y = forward(&all, false)[0].to_floats();
    // Every step-th token from the first, backwards if the step is negative.
    for (first, step, tokens) in [
        (0, 1, 1),
        (299, 1, 1),
        (17, 1, 2),
        (5, 2, 100),
        (299, -1, 300),
    ] {
        let chosen: Vec<usize> = (0..tokens).map(|t| (first + step * t) as usize).collect();
        let rows = |values: &[f32], width: usize| -> Vec<f32> {
            let rows = chosen
                .iter()
                .flat_map(|t| &values[t * width..(t + 1) * width]);
            rows.copied().collect()
        };
        let count = chosen.len();
        let mut part = Batch::new(resized(p, count), F32, &keys[..2 * count]);
        part.keys = chosen
            .iter()
            .flat_map(|t| [keys[2 * t], keys[2 * t + 1]])
            .collect();
        part.x = floats(F32, &[count, 200], &rows(&all.x.to_floats(), 200));
        part.weights = floats(F32, &[count, 2], &rows(&all.weights.to_floats(), 2));
        let got = forward(&part, false)[0].to_floats();
        assert!(got == rows(&y, 200), "{tokens} tokens from {first}");
    }
}
