//! One product per expert, and its gradients.

use crate::run::{self, Host, element, floats, i32s, noise, run};
use moebius_ops::GroupedGemm;
use moebius_ops::grouped_gemm::{Problem, Source};
use moebius_pjrt::ElementType::{self, BF16, F16, F32};

fn problem(rows: usize, bias: bool) -> Problem {
    Problem {
        rows: Source::Sorted,
        bias,
        ..Problem::new(rows, 5, 1, 12, 20).unwrap()
    }
}

fn offsets(loads: &[usize]) -> Vec<i32> {
    let sums = (0..=loads.len()).map(|e| loads[..e].iter().sum::<usize>() as i32);
    sums.collect()
}

/// Rows whose tail, which no expert owns, is NaN.
fn rows(element: ElementType, count: usize, width: usize, used: usize, seed: u64) -> Host {
    let mut values = noise(count * width, seed);
    values[used * width..].fill(f32::NAN);
    floats(element, &[count, width], &values)
}

fn check(p: Problem, of: ElementType, loads: &[usize], tolerance: f64) {
    let p = Problem {
        element: element(of),
        ..p
    };
    let used = loads.iter().sum();
    let (r, e, n, k) = (p.row_bound, p.experts, p.n, p.k);
    let x = rows(of, r, k, used, 1);
    let dy = rows(of, r, n, used, 2);
    let w = floats(of, &[e, n, k], &noise(e * n * k, 3));
    let bias = floats(of, &[e, n], &noise(e * n, 4));
    let ends = (!p.dense).then(|| i32s(&[e + 1], &offsets(loads)));
    let inputs = [x.clone(), w.clone()].into_iter().chain(ends.clone());
    let inputs: Vec<Host> = inputs.chain(p.bias.then_some(bias)).collect();
    run::check(GroupedGemm::Linear(p), &inputs, |_| tolerance);
    let call = |rows, w, bias| GroupedGemm::LinearBackward {
        problem: p,
        rows,
        w,
        bias,
    };
    let inputs: Vec<Host> = [dy, x, w].into_iter().chain(ends).collect();
    let got = run::check(call(true, true, true), &inputs, |_| tolerance);
    assert!(got.iter().all(|gradient| gradient.ty.element == of));
    assert_eq!(run(call(false, true, false), &inputs), got[1..2]);
    let both = run(call(true, false, true), &inputs);
    assert_eq!(both, [got[0].clone(), got[2].clone()]);
}

#[test]
fn every_load_around_the_edges_of_blocks() {
    for bias in [false, true] {
        for loads in [
            [95, 96, 97, 0, 1],
            [143, 144, 145, 0, 1],
            [0, 0, 600, 0, 0],
            [0; 5],
            [1, 0, 0, 288, 287],
        ] {
            check(problem(600, bias), F32, &loads, 2e-5);
        }
    }
    for rows in [0, 1, 95, 143, 289] {
        let dense = Problem {
            bias: true,
            ..Problem::dense(rows, 12, 20).unwrap()
        };
        check(dense, F32, &[rows], 2e-5);
    }
    check(problem(1, true), F32, &[0, 0, 0, 1, 0], 2e-5);
    check(problem(0, true), F32, &[0; 5], 2e-5);
}

#[test]
fn half_precision() {
    for (element, tolerance) in [(F16, 4e-3), (BF16, 2e-2)] {
        check(problem(90, true), element, &[30, 0, 7, 33, 5], tolerance);
    }
}
