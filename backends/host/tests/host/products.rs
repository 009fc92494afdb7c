//! Products of rows and weights, through the functions of grouped products and of experts.

use crate::sets::held;
use half::{bf16, f16};
use moebius_host::experts::{self, Operands, Weights};
use moebius_host::grouped_gemm::{self, linear, linear_backward};
use moebius_host::permute::Segments;
use moebius_host::{Matrices, Values};
use moebius_ops::experts::Problem as Layer;
use moebius_ops::grouped_gemm::{Problem, sparse24};
use moebius_ops::permute::NOWHERE;
use moebius_ops::routing;

/// Returns numbers that are exact in bf16, and whose products are exact in f32.
pub(crate) fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 37 + seed * 101) % 61) as f32 / 8.0 - 3.5;
    (0..count).map(number).collect()
}

/// Returns `lines` lines of `width` values as they are stored in both directions.
fn stored(lines: usize, width: usize, seed: usize) -> (Vec<f32>, Vec<f32>) {
    let along = numbers(lines * width, seed);
    let across = (0..lines * width).map(|i| along[i % lines * width + i / lines]);
    let across = across.collect();
    (along, across)
}

/// The product of rows [rows, k] and weights [n, k]. The constructor refuses sizes of 0, which products take.
pub(crate) fn problem([rows, k, n]: [usize; 3]) -> Problem {
    let dense = Problem::dense(rows, n.max(1), k.max(1)).unwrap();
    Problem { n, k, ..dense }
}

/// One expert with all rows.
pub(crate) fn one(rows: usize) -> Segments {
    Segments::new([None, None, None], rows)
}

/// One matrix with rows of `columns` values.
fn rows_of(values: &[f32], columns: usize) -> Matrices<'_> {
    Matrices {
        values: Values::F32(values),
        rows: values.len() / columns.max(1),
        columns,
    }
}

/// Computes a · bᵀ + bias from a [rows, inner] and b [columns, inner].
fn along(a: &[f32], b: Values<'_>, bias: &[f32], sizes: [usize; 3]) -> Vec<f32> {
    let [rows, inner, columns] = sizes;
    let b = Matrices {
        values: b,
        rows: columns,
        columns: inner,
    };
    let b = grouped_gemm::Weights::Values(b);
    let a = rows_of(a, inner);
    linear(&problem(sizes), &one(rows), a, b, Some(bias))
}

/// Computes a · b from a [rows, inner] and b [inner, columns], as the gradient of rows.
fn across(a: &[f32], b: Values<'_>, [rows, inner, columns]: [usize; 3]) -> Vec<f32> {
    let problem = problem([rows, columns, inner]);
    let b = Matrices {
        values: b,
        rows: inner,
        columns,
    };
    let (needed, b) = ([true, false, false], grouped_gemm::Weights::Values(b));
    let [product, ..] = linear_backward(&problem, &one(rows), needed, [a, &[]], b);
    product.unwrap()
}

/// Computes aᵀ · b from a [inner, rows] and b [inner, columns], as the gradient of weights.
fn transposed(a: &[f32], b: &[f32], [rows, inner, columns]: [usize; 3]) -> Vec<f32> {
    let problem = problem([inner, columns, rows]);
    let unread = Matrices {
        values: Values::F32(&[]),
        rows,
        columns,
    };
    let (needed, unread) = ([false, true, false], grouped_gemm::Weights::Values(unread));
    let [_, product, _] = linear_backward(&problem, &one(inner), needed, [a, b], unread);
    product.unwrap()
}

#[test]
fn products_are_sums_in_order_however_factors_are_stored() {
    held();
    for sizes in [
        [1, 1, 1],
        [5, 7, 3],
        [6, 8, 16],
        [7, 1030, 33],
        [13, 40, 70],
        [400, 9, 17],
        [1, 64, 300],
        [3, 0, 4],
    ] {
        let [rows, inner, columns] = sizes;
        let (a, a_across) = stored(rows, inner, 1);
        let (b, b_across) = stored(columns, inner, 2);
        let halves: Vec<bf16> = b.iter().map(|x| bf16::from_f32(*x)).collect();
        let bias = numbers(columns, 3);
        let want = |i: usize| {
            let (row, column) = (i / columns, i % columns);
            let pairs = a[row * inner..][..inner].iter().zip(&b[column * inner..]);
            pairs.fold(0.0_f32, |sum, (a, b)| a.mul_add(*b, sum))
        };
        let want: Vec<f32> = (0..rows * columns).map(want).collect();
        let biased = want.iter().enumerate().map(|(i, x)| x + bias[i % columns]);
        let biased: Vec<f32> = biased.collect();
        for b in [Values::F32(&b), Values::Bf16(&halves)] {
            assert_eq!(along(&a, b, &bias, sizes), biased, "{sizes:?}");
        }
        let got = across(&a, Values::F32(&b_across), sizes);
        assert_eq!(got, want, "{sizes:?}");
        let got = transposed(&a_across, &b_across, sizes);
        assert_eq!(got, want, "{sizes:?}");
    }
}

/// Rows of an expert begin anywhere, and read any tokens.
#[test]
fn lines_may_be_anywhere() {
    held();
    let (a, b) = (numbers(9 * 5, 1), numbers(20 * 5, 2));
    let all = along(&a, Values::F32(&b), &[0.0; 20], [9, 5, 20]);
    let matrices = |values, rows, columns| Matrices {
        values: Values::F32(values),
        rows,
        columns,
    };
    // Both experts have the same weights.
    let (b, zeros) = (b.repeat(2), [0.0; 2 * 20 * 5]);
    let w = matrices(&b, 20, 5);
    let problem = Problem::new(9, 2, 1, 20, 5).unwrap();
    let segments = Segments::new([None, Some(vec![0, 7, 9]), None], 9);
    let values = grouped_gemm::Weights::Values(w);
    assert_eq!(
        linear(&problem, &segments, rows_of(&a, 5), values, None),
        all
    );
    // Each token has two slots. The first expert has so many that they are packed, the second has few.
    let slots = [16, 0, 6, 7, 14, 2, 4, 8, 10, 12, 17, 1, 13];
    let mut positions = vec![NOWHERE; 18];
    for (row, slot) in slots.iter().enumerate() {
        positions[*slot] = row as u32;
    }
    let order = slots.map(|slot| slot as u32).to_vec();
    let sort = [Some(order), Some(vec![0, 10, 13]), Some(positions)];
    let layer = Layer::new(routing::Problem::new(9, 2, 2).unwrap(), 5, 20);
    let operands = Operands {
        segments: &Segments::new(sort, 18),
        x: matrices(&a, 9, 5),
        weights: &[1.0; 18],
        experts: Weights {
            w_in: w,
            w_out: matrices(&zeros, 5, 20),
            biases: [None, None],
        },
    };
    let (_, first) = experts::forward(&layer, &operands, true, None);
    let want = slots.map(|slot| &all[slot / 2 * 20..][..20]).concat();
    assert_eq!(first.unwrap()[..want.len()], want);
}

/// Checks that the bits of a row of `left` times weights are the same in products with different numbers of rows.
pub(crate) fn same_rows(
    left: &[f32],
    [inner, columns]: [usize; 2],
    product: impl Fn(&[f32], [usize; 3]) -> Vec<f32>,
) {
    let bits = |first: usize, rows: usize| {
        let left = &left[first * inner..][..rows * inner];
        let product = product(left, [rows, inner, columns]);
        product.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    };
    let all = bits(0, 512);
    for rows in [1, 2, 3, 7, 16, 17] {
        for first in [0, 391, 512 - rows] {
            let same = &all[first * columns..][..rows * columns];
            assert_eq!(bits(first, rows), same, "{rows} rows from {first}");
        }
    }
}

#[test]
fn a_row_is_the_same_alone_and_among_others() {
    held();
    // Thirds make every sum round; the columns are whole registers in one case and not in the other.
    let thirds = |values: Vec<f32>| values.iter().map(|x| x / 3.0).collect::<Vec<_>>();
    for sizes in [[1500, 48], [1037, 130]] {
        let [inner, columns] = sizes;
        let left = thirds(numbers(512 * inner, 1));
        let weights = thirds(numbers(columns * inner, 2));
        let halves: Vec<f16> = weights.iter().map(|x| f16::from_f32(*x)).collect();
        let brains: Vec<bf16> = weights.iter().map(|x| bf16::from_f32(*x)).collect();
        let bias = numbers(columns, 4);
        for values in [
            Values::F32(&weights),
            Values::F16(&halves),
            Values::Bf16(&brains),
        ] {
            same_rows(&left, sizes, |x, sizes| along(x, values, &bias, sizes));
            same_rows(&left, sizes, |x, sizes| across(x, values, sizes));
        }
    }
}

/// The inner values and the rows that are put together, and the words of places, end inside the products.
#[test]
fn sparse_weights_give_the_bits_of_the_masked_ones() {
    held();
    for [rows, inner, columns] in [
        [1, 4, 1],
        [1, 1300, 70],
        [2, 132, 33],
        [3, 260, 40],
        [7, 260, 33],
        [8, 36, 17],
        [70, 1300, 70],
    ] {
        let thirds =
            |count, seed| -> Vec<f32> { numbers(count, seed).iter().map(|x| x / 3.0).collect() };
        let (x, dy) = (thirds(rows * inner, 1), thirds(rows * columns, 2));
        // All types hold these.
        let rounded = |x: &f32| bf16::from_f32(*x).to_f32();
        let w: Vec<f32> = thirds(columns * inner, 3).iter().map(rounded).collect();
        let packed = sparse24::pack(&w, &sparse24::largest(&w).unwrap(), inner).unwrap();
        let dense = sparse24::decoded(&packed.kept, &packed.places, inner);
        let places: Vec<i32> = packed.places.iter().map(|word| *word as i32).collect();
        let bias = numbers(columns, 4);
        let want = along(&x, Values::F32(&dense), &bias, [rows, inner, columns]);
        let back = across(&dy, Values::F32(&dense), [rows, columns, inner]);
        let halves: Vec<f16> = packed.kept.iter().map(|x| f16::from_f32(*x)).collect();
        let brains: Vec<bf16> = packed.kept.iter().map(|x| bf16::from_f32(*x)).collect();
        for values in [
            Values::F32(&packed.kept),
            Values::F16(&halves),
            Values::Bf16(&brains),
        ] {
            let kept = Matrices {
                values,
                rows: columns,
                columns: inner / 2,
            };
            let w = grouped_gemm::Weights::Sparse24(kept, &places);
            let (problem, one) = (problem([rows, inner, columns]), one(rows));
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let got = linear(&problem, &one, rows_of(&x, inner), w, Some(&bias));
            assert_eq!(bits(&got), bits(&want), "{rows} x {inner} x {columns}");
            let needed = [true, false, false];
            let [got, ..] = linear_backward(&problem, &one, needed, [&dy, &[]], w);
            assert_eq!(
                bits(&got.unwrap()),
                bits(&back),
                "{rows} x {inner} x {columns}"
            );
        }
    }
}

#[test]
fn every_f16_is_read_as_what_it_is() {
    held();
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let zeros = vec![0.0; all.len()];
    let got = along(&[1.0], Values::F16(&all), &zeros, [1, 1, all.len()]);
    for (got, want) in got.iter().zip(&all) {
        // The product computes 1 · x + 0, which turns −0 into 0.
        let same = *got == want.to_f32() || got.is_nan() && want.is_nan();
        assert!(same, "{got} for {want}");
    }
}
