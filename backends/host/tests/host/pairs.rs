//! Products of two factors in bf16. Processors with AVX-512 BF16 compute them in pairs. What its instruction computes is emulated here
//! number by number: it says what the bits have to be, and takes the instruction's place in code that is compiled here once more, which
//! packs and multiplies pairs on processors without the instruction, too.

use crate::product::{Factor, Product, Task};
use crate::products::{numbers, one, problem, same_rows};
use crate::values;
use crate::vector::{Kernel, Transpose, vectorized};
use half::bf16;
use moebius_host::experts::{self, Operands};
use moebius_host::grouped_gemm::{self, linear};
use moebius_host::permute::Segments;
use moebius_host::{Matrices, Simd, Values, simd};
use moebius_ops::experts::Problem as Layer;
use moebius_ops::routing;
use pulp::WithSimd;

/// Adds the products of two pairs to a sum as the instruction does: the second one first, each rounded once, without subnormal numbers.
fn add_pairs(sum: f32, a: [bf16; 2], b: [bf16; 2]) -> f32 {
    let add = |sum: f32, i: usize| {
        let [a, b] = [a[i], b[i]].map(|x| flushed(x.to_f32()));
        flushed(a.mul_add(b, flushed(sum)))
    };
    add(add(sum, 1), 0)
}

fn flushed(x: f32) -> f32 {
    if x.is_subnormal() {
        0.0_f32.copysign(x)
    } else {
        x
    }
}

/// Vectors whose products of pairs are computed number by number.
#[derive(Clone, Copy)]
struct Emulated;

impl Transpose for Emulated {
    #[inline(always)]
    fn square(self, rows: [&[f32; 8]; 8], to: &mut [f32], step: usize) {
        for i in 0..8 {
            for (to, row) in to[i * step..][..8].iter_mut().zip(rows) {
                *to = row[i];
            }
        }
    }

    #[inline(always)]
    fn multiply_add<S: pulp::Simd>(
        self,
        _: S,
        a: S::f32s,
        b: S::f32s,
        mut sum: S::f32s,
    ) -> S::f32s {
        use pulp::bytemuck::{bytes_of, bytes_of_mut};
        let pair = |bytes: [u8; 4]| {
            let [a, b, c, d] = bytes;
            [[a, b], [c, d]].map(bf16::from_le_bytes)
        };
        let words = bytes_of(&a).as_chunks::<4>().0.iter();
        let words = words.zip(bytes_of(&b).as_chunks::<4>().0);
        let sums = bytes_of_mut(&mut sum).as_chunks_mut::<4>().0;
        for (sum, (a, b)) in sums.iter_mut().zip(words) {
            *sum = add_pairs(f32::from_ne_bytes(*sum), pair(*a), pair(*b)).to_ne_bytes();
        }
        sum
    }
}

struct Emulation<'a, 'b>(Task<'a, 'b, Factor<'a>>);

impl WithSimd for Emulation<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        self.0.run(simd, Emulated);
    }
}

/// Computes x · wᵀ + bias from x [rows, inner] and w [columns, inner] in pairs with the emulated instruction.
fn emulated(x: &[bf16], w: &[bf16], bias: &[f32], sizes: [usize; 3]) -> Vec<f32> {
    let [rows, inner, columns] = sizes;
    let [left, right] = [(x, rows), (w, columns)].map(|(values, rows)| {
        let factor = Factor::rows(values::Matrices {
            values: values::Values::Bf16(values),
            rows,
            columns: inner,
        });
        factor.in_pairs().unwrap()
    });
    let product = Product {
        bias: Some(bias),
        ..Product::new(left, right, [rows, inner / 2, columns])
    };
    let mut to = vec![0.0; rows * columns];
    vectorized(Emulation(Task {
        product: &product,
        rows: 0..rows,
        columns: 0..columns,
        to: &mut to,
    }));
    to
}

fn matrix(values: &[bf16], columns: usize) -> Matrices<'_> {
    Matrices {
        values: Values::Bf16(values),
        rows: values.len() / columns,
        columns,
    }
}

/// Computes the same as everybody does.
fn computed(x: &[bf16], w: &[bf16], bias: &[f32], sizes: [usize; 3]) -> Vec<f32> {
    let [rows, inner, _] = sizes;
    let w = grouped_gemm::Weights::Values(matrix(w, inner));
    let x = matrix(x, inner);
    linear(&problem(sizes), &one(rows), x, w, Some(bias))
}

/// Computes the same in order, in pairs or in f32.
fn in_order(
    x: &[bf16],
    w: &[bf16],
    bias: &[f32],
    [_, inner, columns]: [usize; 3],
    pairs: bool,
) -> Vec<f32> {
    let dot = |x: &[bf16], w: &[bf16]| {
        if pairs {
            let both = x.as_chunks::<2>().0.iter().zip(w.as_chunks::<2>().0);
            both.fold(0.0, |sum, (x, w)| add_pairs(sum, *x, *w))
        } else {
            let both = x.iter().zip(w);
            both.fold(0.0, |sum, (x, w)| x.to_f32().mul_add(w.to_f32(), sum))
        }
    };
    let rows = x.chunks_exact(inner).flat_map(|x| {
        let columns = w.chunks_exact(inner).take(columns).zip(bias);
        columns.map(move |(w, bias)| dot(x, w) + bias)
    });
    rows.collect()
}

/// Whether this process multiplies factors with `inner` inner values in pairs.
fn are_used(inner: usize) -> bool {
    inner.is_multiple_of(2) && simd() == Simd::Avx512Bf16
}

/// Says what this processor leaves to the emulation.
fn told() {
    if simd() != Simd::Avx512Bf16 {
        eprintln!(
            "no AVX-512 BF16 here: pairs are multiplied by the emulation only, others in f32"
        );
    }
}

/// Thirds, which make every sum round.
fn thirds(count: usize, seed: usize) -> Vec<bf16> {
    let thirds = numbers(count, seed).into_iter().map(|x| x / 3.0);
    thirds.map(bf16::from_f32).collect()
}

#[track_caller]
fn assert_same(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        assert!(same, "{what}, value {at}: expected {want:e}, got {got:e}");
    }
}

#[test]
fn sums_of_pairs_are_in_order_in_panels_and_in_place() {
    told();
    for sizes in [
        [1, 2, 1],
        [1, 64, 300],
        [3, 130, 33],
        [7, 2060, 33],
        [8, 16, 17],
        [9, 2060, 20],
        [64, 130, 70],
        [1, 7, 3],
        [3, 1, 20],
        [64, 131, 70],
    ] {
        let [rows, inner, columns] = sizes;
        let (x, w) = (thirds(rows * inner, 1), thirds(columns * inner, 2));
        let bias = numbers(columns, 3);
        let want = in_order(&x, &w, &bias, sizes, are_used(inner));
        let got = computed(&x, &w, &bias, sizes);
        assert_same(&got, &want, &format!("{sizes:?}"));
        if inner % 2 == 1 {
            continue;
        }
        let want = in_order(&x, &w, &bias, sizes, true);
        let got = emulated(&x, &w, &bias, sizes);
        assert_same(&got, &want, &format!("{sizes:?}, emulated"));
        let plain = in_order(&x, &w, &bias, sizes, false);
        let sizes_of = in_order(
            &absolute(&x),
            &absolute(&w),
            &absolute_of(&bias),
            sizes,
            false,
        );
        for ((pairs, plain), size) in got.iter().zip(&plain).zip(&sizes_of) {
            // Either sum has as many roundings as values, and the bias one.
            let allowed = (inner + 1) as f32 * f32::EPSILON * size;
            assert!((pairs - plain).abs() <= allowed, "{pairs} and {plain}");
        }
    }
}

fn absolute(values: &[bf16]) -> Vec<bf16> {
    let absolute = values.iter().map(|x| x.to_f32().abs());
    absolute.map(bf16::from_f32).collect()
}

fn absolute_of(values: &[f32]) -> Vec<f32> {
    values.iter().map(|x| x.abs()).collect()
}

/// NaN, infinities and subnormal numbers, first and second in a pair, in factors that are packed and in such that aren't.
#[test]
fn special_numbers_stay_in_their_row() {
    told();
    for rows in [6, 14] {
        let (inner, columns) = (70, 40);
        let sizes = [rows, inner, columns];
        let (mut x, w) = (thirds(rows * inner, 1), thirds(columns * inner, 2));
        x[inner + 3] = bf16::NAN;
        x[2 * inner + 68] = bf16::NAN;
        x[3 * inner + 4] = bf16::INFINITY;
        x[4 * inner + 69] = bf16::NEG_INFINITY;
        for (i, x) in x[5 * inner..6 * inner].iter_mut().enumerate() {
            *x = bf16::from_bits((i * 37 % 0x400) as u16);
        }
        let bias = vec![0.0; columns];
        let got = computed(&x, &w, &bias, sizes);
        let want = in_order(&x, &w, &bias, sizes, are_used(inner));
        assert_same(&got, &want, "special numbers");
        let pairs = emulated(&x, &w, &bias, sizes);
        let want = in_order(&x, &w, &bias, sizes, true);
        assert_same(&pairs, &want, "special numbers, emulated");
        for got in [got, pairs] {
            for (row, got) in got.chunks_exact(columns).enumerate() {
                let right = match row {
                    1 | 2 => got.iter().all(|x| x.is_nan()),
                    3 | 4 => got.iter().all(|x| !x.is_finite()),
                    _ => got.iter().all(|x| x.is_finite()),
                };
                assert!(right, "row {row}: {got:?}");
            }
        }
    }
}

#[test]
fn a_row_in_bf16_is_the_same_alone_and_among_others() {
    told();
    for sizes in [[1500, 48], [1036, 130], [1037, 130]] {
        let [inner, columns] = sizes;
        let w = thirds(columns * inner, 2);
        let bias = numbers(columns, 4);
        same_rows(&numbers(512 * inner, 1), sizes, |x, sizes| {
            let x: Vec<bf16> = x.iter().map(|x| bf16::from_f32(x / 3.0)).collect();
            computed(&x, &w, &bias, sizes)
        });
    }
}

/// One expert's tokens in bf16 have the same bits in every batch, and are as close to those of f32 as one rounding of the hidden values.
#[test]
fn a_token_in_bf16_is_the_same_alone_and_among_others() {
    told();
    let (tokens, hidden, inter) = (64, 130, 70);
    let x = thirds(tokens * hidden, 1);
    let (w_in, w_out) = (thirds(inter * hidden, 2), thirds(hidden * inter, 3));
    let forward = |x: Matrices<'_>, [w_in, w_out]: [Matrices<'_>; 2]| {
        let routing = routing::Problem::new(x.rows, 1, 1).unwrap();
        let operands = Operands {
            segments: &Segments::new([None, None, None], x.rows),
            x,
            weights: &vec![1.0; x.rows],
            experts: experts::Weights {
                w_in,
                w_out,
                biases: [None, None],
            },
        };
        experts::forward(&Layer::new(routing, hidden, inter), &operands, false, None).0
    };
    let weights = [matrix(&w_in, hidden), matrix(&w_out, inter)];
    let all = forward(matrix(&x, hidden), weights);
    for (first, rows) in [(0, 1), (63, 1), (5, 3), (20, 9)] {
        let some = matrix(&x[first * hidden..][..rows * hidden], hidden);
        let want = &all[first * hidden..][..rows * hidden];
        assert_same(&forward(some, weights), want, &format!("{rows} tokens"));
    }
    let wide = |values: &[bf16]| values.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
    let [x, w_in, w_out] = [&x, &w_in, &w_out].map(|values| wide(values));
    let matrix = |values, rows, columns| Matrices {
        values: Values::F32(values),
        rows,
        columns,
    };
    let weights = [matrix(&w_in, inter, hidden), matrix(&w_out, hidden, inter)];
    let want = forward(matrix(&x, tokens, hidden), weights);
    let error = norm(all.iter().zip(&want).map(|(got, want)| got - want));
    let size = norm(want.iter().copied());
    assert!(error <= 8e-3 * size, "{error} of {size}");
}

fn norm(values: impl Iterator<Item = f32>) -> f32 {
    values.map(|x| x * x).sum::<f32>().sqrt()
}
