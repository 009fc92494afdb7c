//! Products of rows and weights that are FP8 codes, or blocks of codes.

use moebius_host::grouped_gemm::fp8::{Weights, linear};
use moebius_host::grouped_gemm::{self, blocks};
use moebius_host::permute::Segments;
use moebius_host::quantize::Scales;
use moebius_host::{Matrices, Values};
use moebius_ops::blocks::BlockFormat;
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

/// The matrix [rows, columns] of these values.
fn matrix(values: &[f32], columns: usize) -> Matrices<'_> {
    Matrices {
        values: Values::F32(values),
        rows: values.len() / columns,
        columns,
    }
}

/// Few rows decode blocks in a cache, many rows into panels; both give the bits of the product with what the blocks decode to.
#[test]
fn blocks_give_the_bits_of_decoded_weights() {
    for format in BlockFormat::ALL {
        let of_block = format.layout().values;
        for [rows, blocks_of_row, n] in [[1, 1, 1], [1, 5, 70], [3, 1, 33], [8, 7, 17], [40, 5, 70]]
        {
            let k = blocks_of_row * of_block;
            // Bytes up to 0x3F, so that scales in F16 are numbers.
            let byte = |i: usize| (i * 41 % 64) as u8;
            let bytes: Vec<u8> = (0..n * format.row_bytes(k)).map(byte).collect();
            let words = format.to_words(&bytes, k).expect("whole rows");
            let w = format.decoded(&words, k);
            let words: Vec<i32> = words.into_iter().map(u32::cast_signed).collect();
            let x: Vec<f32> = (0..rows * k)
                .map(|i| (i * 37 % 61) as f32 / 3.0 - 9.0)
                .collect();
            let bias: Vec<f32> = (0..n).map(|i| i as f32 / 7.0).collect();
            let values = Problem {
                bias: true,
                ..Problem::dense(rows, n, k).expect("a shape")
            };
            let weights = grouped_gemm::Weights::Values(matrix(&w, k));
            let one = Segments::new([None, None, None], rows);
            let want = grouped_gemm::linear(&values, &one, &x, weights, Some(&bias));
            let problem = Problem {
                stored: Stored::Blocks(format),
                ..values
            };
            let got = blocks::linear(&problem, None, matrix(&x, k), &words, Some(&bias));
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&got), bits(&want), "{format}, {rows} x {k} x {n}");
        }
    }
}
