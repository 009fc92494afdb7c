use super::*;
use crate::product::{Factor, Lines, Product, Run, products};
use crate::values::Values;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::Granularity;

/// Computes the product of `rows` of 512 rows, from row `first` on, and codes.
fn product(coded: Coded, x: &[f32], [first, rows]: [usize; 2]) -> Vec<f32> {
    let p = coded.problem;
    let left = Factor {
        values: Values::F32(x),
        width: p.k,
        run: Run::Along,
        lines: Lines::From(first),
    };
    let sizes = [rows, p.k, p.n * p.parts()];
    products(&[Product::new(left, coded, sizes)])
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
            fp8: Some(Fp8Scheme {
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
            let coded = || Coded::of(&problem, (&words, &scales), 0);
            let columns = n * problem.parts();
            let all = product(coded(), &x, [0, 512]);
            for rows in [1, 2, 3, 7, 16, 17] {
                let first = 512 - rows;
                let some = product(coded(), &x, [first, rows]);
                let mut pairs = some.iter().zip(&all[first * columns..]);
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
