use super::*;
use crate::values::Values;
use half::{bf16, f16};

/// Returns numbers that are exact in bf16, and whose products are exact in f32.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
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

fn factor(values: Values<'_>, width: usize, run: Run) -> Factor<'_> {
    Factor {
        values,
        width,
        run,
        lines: Lines::From(0),
    }
}

#[test]
fn products_are_sums_in_order_however_factors_are_stored() {
    for [rows, inner, columns] in [
        [1, 1, 1],
        [5, 7, 3],
        [6, 8, 16],
        [7, 1030, 33],
        [13, 40, 70],
        [400, 9, 17],
        [1, 64, 300],
        [3, 0, 4],
    ] {
        let (a, a_across) = stored(rows, inner, 1);
        let (b, b_across) = stored(columns, inner, 2);
        let halves: Vec<bf16> = b.iter().map(|x| bf16::from_f32(*x)).collect();
        let bias = numbers(columns, 3);
        let want = |i: usize| {
            let (row, column) = (i / columns, i % columns);
            let pairs = a[row * inner..][..inner].iter().zip(&b[column * inner..]);
            pairs.fold(0.0_f32, |sum, (a, b)| a.mul_add(*b, sum)) + bias[column]
        };
        let want: Vec<f32> = (0..rows * columns).map(want).collect();
        let along = factor(Values::F32(&a), inner, Run::Along);
        let across = factor(Values::F32(&a_across), rows, Run::Across);
        for left in [along, across] {
            for right in [
                factor(Values::F32(&b), inner, Run::Along),
                factor(Values::Bf16(&halves), inner, Run::Along),
                factor(Values::F32(&b_across), columns, Run::Across),
            ] {
                let product = Product {
                    left,
                    right,
                    rows,
                    inner,
                    columns,
                    bias: Some(&bias),
                };
                assert_eq!(products(&[product]), want, "{rows} x {inner} x {columns}");
            }
        }
    }
}

#[test]
fn lines_may_be_anywhere() {
    let (a, b) = (numbers(9 * 5, 1), numbers(5 * 20, 2));
    let places = [8, 0, 3, 3];
    let product = |lines, rows| Product {
        left: Factor {
            lines,
            ..factor(Values::F32(&a), 5, Run::Along)
        },
        right: factor(Values::F32(&b), 20, Run::Across),
        rows,
        inner: 5,
        columns: 20,
        bias: None,
    };
    let all = products(&[product(Lines::From(0), 9)]);
    let some = products(&[product(Lines::At(&places), 4), product(Lines::From(7), 2)]);
    let row = |at: usize| &all[at * 20..][..20];
    let want = [8, 0, 3, 3, 7, 8].map(row).concat();
    assert_eq!(some, want);
}

/// Checks that the bits of a row of `left` times weights are the same in products with different numbers of rows.
fn same_rows(left: &[f32], inner: usize, right: Factor<'_>, columns: usize) {
    let bias = numbers(columns, 4);
    let product = |first, rows| Product {
        left: Factor {
            lines: Lines::From(first),
            ..factor(Values::F32(left), inner, Run::Along)
        },
        right,
        rows,
        inner,
        columns,
        bias: Some(&bias),
    };
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let all = products(&[product(0, 512)]);
    for rows in [1, 2, 3, 7, 16, 17] {
        for first in [0, 391, 512 - rows] {
            let some = products(&[product(first, rows)]);
            let same = &all[first * columns..][..rows * columns];
            assert_eq!(bits(&some), bits(same), "{rows} rows from {first}");
        }
    }
}

#[test]
fn a_row_is_the_same_alone_and_among_others() {
    // Thirds make every sum round; the columns are whole registers in one case and not in the other.
    let thirds = |values: Vec<f32>| values.iter().map(|x| x / 3.0).collect::<Vec<_>>();
    for (inner, columns) in [(1500, 48), (1037, 130)] {
        let left = thirds(numbers(512 * inner, 1));
        let weights = thirds(numbers(columns * inner, 2));
        let halves: Vec<f16> = weights.iter().map(|x| f16::from_f32(*x)).collect();
        let brains: Vec<bf16> = weights.iter().map(|x| bf16::from_f32(*x)).collect();
        for values in [
            Values::F32(&weights),
            Values::F16(&halves),
            Values::Bf16(&brains),
        ] {
            let along = factor(values, inner, Run::Along);
            same_rows(&left, inner, along, columns);
            let across = factor(values, columns, Run::Across);
            same_rows(&left, inner, across, columns);
        }
    }
}

#[test]
fn every_f16_is_read_as_what_it_is() {
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let product = Product::new(
        factor(Values::F32(&[1.0]), 1, Run::Along),
        factor(Values::F16(&all), 1, Run::Along),
        [1, 1, all.len()],
    );
    for (got, want) in products(&[product]).iter().zip(&all) {
        // The product computes 1 · x + 0, which turns −0 into 0.
        let same = *got == want.to_f32() || got.is_nan() && want.is_nan();
        assert!(same, "{got} for {want}");
    }
}
