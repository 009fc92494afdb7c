//! Tests of the cost of products, by their counted floating-point operations.

use crate::experts::{Batch, problem};
use crate::run::{Host, f32s, program, words};
use moebius_ops::experts::Problem;
use moebius_ops::grouped_gemm::{self, Activation, Source};
use moebius_ops::{Experts, GroupedGemm};
use moebius_pjrt::ElementType::F32;

/// The largest factor by which padding may raise the cost when experts have enough rows.
const MOST: f64 = 1.3;

fn benchmark(tokens: usize, experts: usize, gated: bool) -> Problem {
    Problem {
        hidden: 64,
        inter: 96,
        activation: Activation::Relu,
        gated,
        ..problem(tokens, experts.min(2), experts)
    }
}

/// Zeros as operands: counts don't depend on values.
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
    // An expert wastes at most 143 rows; for these sizes that is less than three tenths of its rows.
    let sizes = [
        (4096, 8),
        (2048, 8),
        (3000, 5),
        (512, 1),
        (16384, 64),
        (4096, 16),
    ];
    for (tokens, experts) in sizes {
        for gated in [false, true] {
            let p = benchmark(tokens, experts, gated);
            let products = if gated { 3 } else { 2 };
            let one = 2 * p.row_bound * p.hidden * p.inter;
            let what = format!("{tokens} tokens, {experts} experts, {products} products");
            let mut operands = Batch::new(p, F32, &vec![0; p.row_bound]).inputs();
            let forward = Experts::Forward {
                problem: p,
                keep: false,
            };
            bounded(&what, program(forward, &operands).flops, products * one);
            let backward = |x, weights| Experts::Backward {
                problem: p,
                pre: false,
                x,
                weights,
            };
            operands.insert(0, zeros(&[tokens, p.hidden]));
            // The first product again, dhidden, and one more product for each gradient that is needed.
            let all = program(backward(true, true), &operands).flops;
            bounded(&format!("{what}, backward"), all, (3 * products - 1) * one);
            let router = program(backward(false, false), &operands).flops;
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
    let problem = grouped_gemm::Problem {
        rows: Source::Sorted,
        ..grouped_gemm::Problem::new(8192, 8, 1, 512, 256).unwrap()
    };
    let one = 2 * 8192 * 512 * 256;
    let (rows, w) = (zeros(&[8192, 256]), zeros(&[8, 512, 256]));
    let offsets = words(&[9], &[0; 9]);
    let forward = program(
        GroupedGemm::Linear(problem),
        &[rows.clone(), w.clone(), offsets.clone()],
    );
    bounded("linear", forward.flops, one);
    let backward = GroupedGemm::LinearBackward {
        problem,
        rows: true,
        w: true,
        bias: false,
    };
    let inputs = [zeros(&[8192, 512]), rows, w, offsets];
    bounded(
        "linear, backward",
        program(backward, &inputs).flops,
        2 * one,
    );
}
