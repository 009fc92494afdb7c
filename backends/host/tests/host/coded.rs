//! Products of rows and FP8 codes.

use moebius_host::grouped_gemm::fp8::{Weights, linear};
use moebius_host::quantize::Scales;
use moebius_host::{Matrices, Values};
use moebius_ops::fp8::Fp8Format;
use moebius_ops::grouped_gemm::fp8::{expert_words, scale_shape};
use moebius_ops::grouped_gemm::{Problem, Stored};
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use std::borrow::Cow;

/// Computes the product of rows x and codes [rows, n]; gated, the columns of the gate times the others.
fn product(problem: &Problem, x: &[f32], weights: &Weights<'_>) -> Vec<f32> {
    let rows = x.len() / problem.k;
    let problem = Problem {
        slots: rows,
        row_bound: rows,
        ..*problem
    };
    let x = Matrices {
        values: Values::F32(x),
        rows,
        columns: problem.k,
    };
    linear(&problem, None, x, weights)
}

#[test]
fn a_row_is_the_same_alone_and_among_others() {
    let sizes = [(130, 1500, false), (48, 1037, false), (100, 260, true)];
    for ((n, k, gated), format) in sizes
        .into_iter()
        .flat_map(|sizes| [(sizes, Fp8Format::E4M3), (sizes, Fp8Format::E5M2)])
    {
        let granularity = Granularity::of_blocks(16, 32);
        let problem = Problem {
            stored: Stored::Fp8(Fp8Scheme {
                format,
                granularity,
            }),
            gated,
            ..Problem::dense(512, n, k).expect("a shape")
        };
        let x: Vec<f32> = (0..512 * k)
            .map(|i| (i * 37 % 61) as f32 / 3.0 - 9.0)
            .collect();
        let word = |i: usize| (i as u32).wrapping_mul(0x9E37_79B9);
        // The masks give codes of all values, and codes of numbers only; the scales are small, or so large that the exponent's missing
        // factor overflows.
        for (mask, scale) in [(!0, 0.3), (0xBBBB_BBBB, 0.3), (0xBBBB_BBBB, 1e30)] {
            let words: Vec<i32> = (0..expert_words(&problem))
                .map(|i| (word(i) & mask) as i32)
                .collect();
            let count = scale_shape(&problem).iter().product();
            let scales: Vec<f32> = (0..count).map(|i| (i % 7 + 1) as f32 * scale).collect();
            let weights = Weights {
                codes: &words,
                scales: Scales::F32(Cow::Borrowed(&scales)),
                bias: None,
            };
            let all = product(&problem, &x, &weights);
            for rows in [1, 2, 3, 7, 16, 17] {
                let first = 512 - rows;
                let some = product(&problem, &x[first * k..], &weights);
                let mut pairs = some.iter().zip(&all[first * n..]);
                // The bits of a NaN aren't determined.
                let same =
                    |a: &f32, b: &f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                let same = pairs.all(|(a, b)| same(a, b));
                assert!(
                    same,
                    "{rows} rows of {format:?}, n {n}, k {k}, gated {gated}, scale {scale}"
                );
            }
        }
    }
}
