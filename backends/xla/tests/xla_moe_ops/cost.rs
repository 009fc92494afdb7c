//! What the products cost, counted.

use crate::experts_oracle::sorted;
use crate::run::{Host, f32s, i32s, noise, program};
use moebius_xla::custom::Call;
use moebius_xla::custom::experts::{Activation, Backward, Experts, Forward};
use moebius_xla::custom::linear::{Linear, LinearBackward};

/// The most that padding may cost where experts have rows enough.
const MOST: f64 = 1.3;

fn benchmark(tokens: usize, experts: usize, gated: bool) -> Experts {
    Experts {
        tokens,
        top_k: 2,
        experts,
        hidden: 512,
        inter: 2048,
        row_bound: 2 * tokens,
        activation: Activation::Relu,
        gated,
        bias: false,
    }
}

/// Inputs of a forward pass, the slots dealt out at random.
fn inputs(p: &Experts) -> Vec<Host> {
    let (t, h, f, e) = (p.tokens, p.hidden, p.inter, p.experts);
    let slots = t * p.top_k;
    let columns = f * if p.gated { 2 } else { 1 };
    let keys = noise(slots, 1)
        .into_iter()
        .map(|n| ((n + 1.0) / 2.0 * e as f32) as usize);
    let sorted = sorted(&keys.collect::<Vec<_>>(), e);
    vec![
        f32s(&[t, h], &noise(t * h, 2)),
        f32s(&[t, p.top_k], &vec![0.5; slots]),
        i32s(&[slots], &sorted.order),
        i32s(&[e + 1], &sorted.offsets),
        i32s(&[slots], &sorted.positions),
        f32s(&[e, columns, h], &noise(e * columns * h, 3)),
        f32s(&[e, h, f], &noise(e * h * f, 4)),
    ]
}

/// Zeros: FLOPs don't depend on values.
fn zeros(shape: &[usize]) -> Host {
    f32s(shape, &vec![0.0; shape.iter().product()])
}

fn bounded(what: &str, flops: u64, needed: usize) {
    let ratio = flops as f64 / needed as f64;
    println!(
        "{what}: {:.2} GFLOP, {ratio:.3} of what the rows need",
        flops as f64 / 1e9
    );
    assert!((1.0..=MOST).contains(&ratio), "{what}: {ratio}");
}

#[test]
fn padding_costs_little_where_experts_have_rows_enough() {
    // An expert wastes 143 rows at most: of these sizes less than three tenths of what it has.
    let sizes = [
        (4096, 8),
        (2048, 8),
        (3000, 5),
        (256, 1),
        (16384, 64),
        (4096, 16),
    ];
    for (tokens, experts) in sizes {
        for gated in [false, true] {
            let p = Experts {
                hidden: 64,
                inter: 96,
                ..benchmark(tokens, experts, gated)
            };
            let products = if gated { 3 } else { 2 };
            let one = 2 * p.row_bound * p.hidden * p.inter;
            let what = format!("{tokens} tokens, {experts} experts, {products} products");
            let mut operands = inputs(&p);
            let forward = Call::Experts(Forward {
                experts: p,
                keep: false,
            });
            bounded(&what, program(&forward, &operands).flops, products * one);
            let backward = |x, weights| {
                Call::ExpertsBackward(Backward {
                    experts: p,
                    pre: false,
                    x,
                    weights,
                })
            };
            operands.insert(0, zeros(&[tokens, p.hidden]));
            // The first product again, dhidden, and of what is needed once more each.
            let all = program(&backward(true, true), &operands).flops;
            bounded(&format!("{what}, backward"), all, (3 * products - 1) * one);
            let router = program(&backward(false, false), &operands).flops;
            bounded(
                &format!("{what}, router's gradient"),
                router,
                products * one,
            );
        }
    }
}

#[test]
fn a_product_per_expert_costs_little_more() {
    let linear = Linear {
        row_bound: 8192,
        experts: 8,
        n: 512,
        k: 256,
        bias: false,
        dense: false,
    };
    let one = 2 * 8192 * 512 * 256;
    let (rows, w) = (zeros(&[8192, 256]), zeros(&[8, 512, 256]));
    let offsets = i32s(&[9], &[0; 9]);
    let forward = program(
        &Call::Linear(linear),
        &[rows.clone(), w.clone(), offsets.clone()],
    );
    bounded("linear", forward.flops, one);
    let backward = Call::LinearBackward(LinearBackward {
        linear,
        rows: true,
        w: true,
        dbias: false,
    });
    let inputs = [zeros(&[8192, 512]), rows, w, offsets];
    bounded(
        "linear, backward",
        program(&backward, &inputs).flops,
        2 * one,
    );
}
