//! Products of rows and weights that are FP8 codes, or blocks of codes.

use crate::sets::held;
use moebius_host::grouped_gemm::fp8::{Weights, linear, linear_backward};
use moebius_host::grouped_gemm::{self, blocks};
use moebius_host::permute::Segments;
use moebius_host::quantize::Scales;
use moebius_host::{Matrices, Values};
use moebius_ops::blocks::BlockFormat;
use moebius_ops::blocks::interleaved::{self, Word};
use moebius_ops::fp8::Fp8Format;
use moebius_ops::grouped_gemm::fp8::{expert_words, scale_shape};
use moebius_ops::grouped_gemm::{Problem, Source, Stored};
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use moebius_ops::{GroupedGemm, HostTensor, Operation, permute};
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
    held();
    // Blocks that a part of 1024 inner values ends in, that divide it, that are longer, or shorter than a word.
    let sizes = [
        (130, 1500, false, Granularity::of_blocks(16, 24)),
        (48, 1037, false, Granularity::of_blocks(1, 32)),
        (100, 260, true, Granularity::of_blocks(16, 32)),
        (70, 600, false, Granularity::Row),
        (5, 3, false, Granularity::Row),
        (33, 1, true, Granularity::Tensor),
    ];
    for ((n, k, gated, granularity), format) in sizes
        .into_iter()
        .flat_map(|sizes| [(sizes, Fp8Format::E4M3), (sizes, Fp8Format::E5M2)])
    {
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

/// The bits of values; those of a NaN aren't determined.
fn bits(values: &[f32]) -> Vec<u32> {
    let bits = |x: &f32| if x.is_nan() { u32::MAX } else { x.to_bits() };
    values.iter().map(bits).collect()
}

/// Few rows decode blocks in registers, many rows into panels; all give the bits of the product with what the blocks decode to, or NaN where a scale is
/// infinite. So do the gradients.
#[test]
fn blocks_give_the_bits_of_decoded_weights() {
    held();
    // With bytes up to 0x3F scales in F16 are numbers; with all bytes some are infinite, or NaN.
    for (format, mask) in BlockFormat::ALL
        .into_iter()
        .flat_map(|format| [(format, 0x3F), (format, 0xFF)])
    {
        let of_block = format.layout().values;
        for [rows, blocks_of_row, n] in [
            [1, 1, 1],
            [1, 5, 70],
            [2, 9, 64],
            [3, 1, 33],
            [5, 10, 31],
            [8, 7, 17],
            [40, 5, 70],
        ] {
            let k = blocks_of_row * of_block;
            let byte = |i: usize| ((i * 41) & mask) as u8;
            let bytes: Vec<u8> = (0..n * format.row_bytes(k)).map(byte).collect();
            let words = format.to_words(&bytes, k).expect("whole rows");
            let w = format.decoded(&words, k);
            let mut words: Vec<Word> = words.into_iter().map(u32::to_ne_bytes).collect();
            interleaved::interleave(&mut words, format, [n, format.row_words(k)]);
            let words: Vec<i32> = words.into_iter().map(i32::from_ne_bytes).collect();
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
            let want = grouped_gemm::linear(&values, &one, matrix(&x, k), weights, Some(&bias));
            let problem = Problem {
                stored: Stored::Blocks(format),
                ..values
            };
            let got = blocks::linear(&problem, None, matrix(&x, k), &words, Some(&bias));
            let finite = |values: &[f32]| -> Vec<f32> {
                let or_nan = |x: &f32| if x.is_finite() { *x } else { f32::NAN };
                values.iter().map(or_nan).collect()
            };
            let (got, want) = (finite(&got), finite(&want));
            assert!(
                mask == 0xFF || want.iter().all(|x| x.is_finite()),
                "{format}"
            );
            assert_eq!(bits(&got), bits(&want), "{format}, {rows} x {k} x {n}");
            let dy: Vec<f32> = (0..rows * n)
                .map(|i| (i * 29 % 53) as f32 / 3.0 - 8.0)
                .collect();
            let needs = [true, false, true];
            let [drows, _, db] =
                grouped_gemm::linear_backward(&values, &one, needs, [&dy, &[]], weights);
            let got = blocks::linear_backward(&problem, &one, [true; 2], &dy, &words);
            for (got, want) in got.into_iter().zip([drows, db]) {
                let [got, want] = [got, want].map(|values| bits(&values.expect("asked for")));
                assert_eq!(got, want, "{format}, back through {rows} x {k} x {n}");
            }
        }
    }
}

/// The gradients through codes are those of the reference, for columns that fill panels of words and registers and for others, and for
/// experts with and without rows.
#[test]
fn gradients_through_codes_are_those_of_the_reference() {
    held();
    let keys: Vec<u32> = (0..90).map(|slot| slot % 7 % 4 * 2).collect();
    let sort = permute::reference(&keys, 5);
    for (n, k, granularity) in [
        (1, 1, Granularity::Row),
        (64, 128, Granularity::of_blocks(128, 128)),
        (70, 33, Granularity::Tensor),
        (130, 260, Granularity::of_blocks(1, 32)),
        (1100, 96, Granularity::of_blocks(3, 12)),
    ] {
        let problem = Problem {
            rows: Source::Sorted,
            stored: Stored::Fp8(Fp8Scheme {
                format: Fp8Format::E4M3,
                granularity,
            }),
            ..Problem::new(90, 5, 1, n, k).expect("a shape")
        };
        // Without these bits, no code is NaN.
        let word = |i: usize| (i as u32 + 1).wrapping_mul(0x9E37_79B9) & 0xBCBC_BCBC;
        let codes: Vec<u32> = (0..5 * expert_words(&problem)).map(word).collect();
        let count: usize = scale_shape(&problem).iter().product();
        let scales: Vec<f32> = (0..5 * count).map(|i| (i % 7 + 1) as f32 / 64.0).collect();
        let dy: Vec<f32> = (0..90 * n)
            .map(|i| (i * 37 % 61) as f32 / 30.0 - 1.0)
            .collect();
        let words: Vec<i32> = codes.iter().map(|word| *word as i32).collect();
        let weights = Weights {
            codes: &words,
            scales: Scales::F32(Cow::Borrowed(&scales)),
            bias: None,
        };
        let segments = Segments::new(
            [Some(sort.order.clone()), Some(sort.offsets.clone()), None],
            90,
        );
        let got = linear_backward(&problem, &segments, [true; 2], &dy, &weights);
        let operation = Operation::from(GroupedGemm::CodedLinearBackward {
            problem,
            x: true,
            bias: true,
        });
        let operands = [
            HostTensor::of_f32(&dy),
            codes.into(),
            HostTensor::of_f32(&scales),
            sort.order.clone().into(),
            sort.offsets.clone().into(),
        ];
        let want = operation.reference(&operands).expect("operands that fit");
        for (got, want) in got.into_iter().zip(&want) {
            let (got, want) = (got.expect("asked for"), want.floats());
            let largest = want
                .iter()
                .fold(0.0_f64, |most, value| most.max(value.abs()));
            assert!(largest > 0.0, "nothing of {n} x {k}");
            assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(want) {
                let off = (f64::from(*got) - want).abs();
                assert!(off <= 1e-5 * largest, "{n} x {k}: {got} for {want}");
            }
        }
        let none = linear_backward(&problem, &segments, [false; 2], &dy, &weights);
        assert_eq!(none, [None, None]);
    }
}
