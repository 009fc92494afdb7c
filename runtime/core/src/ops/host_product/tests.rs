use super::*;
use half::bf16;

/// Numbers that are exact in bf16, whose products have no more bits than an f32.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 37 + seed * 101) % 61) as f32 / 8.0 - 3.5;
    (0..count).map(number).collect()
}

/// Both ways to store `lines` lines of `width` values, and what is at (line, value).
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

#[test]
fn a_row_is_the_same_alone_and_among_others() {
    let (a, b) = (numbers(1000 * 1500, 1), numbers(48 * 1500, 2));
    let product = |first, rows| Product {
        left: Factor {
            lines: Lines::From(first),
            ..factor(Values::F32(&a), 1500, Run::Along)
        },
        right: factor(Values::F32(&b), 1500, Run::Along),
        rows,
        inner: 1500,
        columns: 48,
        bias: None,
    };
    let all = products(&[product(0, 1000)]);
    for row in [0, 1, 391, 999] {
        assert_eq!(products(&[product(row, 1)]), all[row * 48..][..48]);
    }
}
