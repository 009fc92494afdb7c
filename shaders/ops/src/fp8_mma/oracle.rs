//! The product in plain Rust, and tests of it that need no device.

use super::Problem;
use crate::fp8::{LANES_PER_WORD, decode_host};
use crate::grouped_gemm::fp8::{PANEL, expert_words};
use crate::permute::Sorted;
use crate::scaling::Fp8Scheme;

/// The oracle: codes multiplied in f64, sums under one pair of scales times both; rows that no slot
/// is sorted to are 0.
///
/// `x` and `weights` are words and scales as in [`super::Problem`], `bias` is empty where the problem has none; a
/// dense product is that of one expert with all rows.
pub fn reference(
    problem: &Problem,
    sorted: &Sorted,
    x: (&[u32], &[f32]),
    weights: (&[u32], &[f32]),
    bias: &[f32],
) -> Vec<f64> {
    let p = &problem.product;
    let words = problem.row_words();
    let code = |word: u32, lane: usize, of: Fp8Scheme| {
        f64::from(decode_host(word.to_le_bytes()[lane], of.format))
    };
    let scale = |scales: &[f32], of: Fp8Scheme, shape: [usize; 2], at: [usize; 3]| {
        let [rows, columns] = of.granularity.block(shape[0], shape[1]);
        let [down, across] = of.granularity.scale_shape(shape[0], shape[1]);
        f64::from(scales[(at[0] * down + at[1] / rows) * across + at[2] / columns])
    };
    let product = |expert: usize, row: usize, column: usize| -> f64 {
        let panel = expert * expert_words(p) + column / PANEL * words * PANEL;
        let segments = (0..p.k).step_by(problem.segment());
        let sums = segments.map(|first| {
            let codes = first..(first + problem.segment()).min(p.k);
            let sum: f64 = codes
                .map(|k| {
                    let (word, lane) = (k / LANES_PER_WORD, k % LANES_PER_WORD);
                    let w = weights.0[panel + word * PANEL + column % PANEL];
                    code(x.0[row * words + word], lane, problem.x) * code(w, lane, problem.w)
                })
                .sum();
            let x_scale = scale(x.1, problem.x, [p.input_rows(), p.k], [0, row, first]);
            let w_scale = scale(weights.1, problem.w, [p.n, p.k], [expert, column, first]);
            sum * x_scale * w_scale
        });
        let bias = bias.get(expert * p.n + column);
        sums.sum::<f64>() + bias.map_or(0.0, |b| f64::from(*b))
    };
    let mut out = vec![0.0; p.row_bound * p.n];
    for expert in 0..p.experts {
        let rows = sorted.offsets[expert] as usize..sorted.offsets[expert + 1] as usize;
        for sorted_row in rows {
            let row = p.rows.row(sorted_row, sorted, p.top_k);
            for column in 0..p.n {
                out[sorted_row * p.n + column] = product(expert, row, column);
            }
        }
    }
    out
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
