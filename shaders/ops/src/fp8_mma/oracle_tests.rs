use super::*;
use crate::fp8::{Fp8Format, pack};
use crate::grouped_gemm::Source;
use crate::grouped_gemm::{self, fp8};
use crate::permute;
use crate::scaling::Granularity;

/// Reproducible pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % end
    }

    fn words(&mut self, rows: usize, columns: usize, format: Fp8Format) -> Vec<u32> {
        let mut code = || {
            let code = self.below(256) as u8;
            (code & 0x80) | (code & 0x7F).min(format.max_code())
        };
        let mut row = || pack(&(0..columns).map(|_| code()).collect::<Vec<_>>());
        (0..rows).flat_map(|_| row()).collect()
    }

    fn scales(&mut self, len: usize) -> Vec<f32> {
        (0..len)
            .map(|_| (1 + self.below(1000)) as f32 / 500.0)
            .collect()
    }
}

/// Checks the oracle against the product of the decoded values.
fn check(product: grouped_gemm::Problem, x: Granularity, w: Granularity) {
    let of = |format, granularity| Fp8Scheme {
        format,
        granularity,
    };
    let (x, w) = (of(Fp8Format::E5M2, x), of(Fp8Format::E4M3, w));
    let product = grouped_gemm::Problem {
        stored: grouped_gemm::Stored::Fp8(w),
        ..product
    };
    let problem = Problem::new(product, x).unwrap();
    let mut random = Random(product.k as u64);
    let keys: Vec<u32> = (0..product.slots)
        .map(|_| random.below(product.experts) as u32)
        .collect();
    let sorted = permute::reference(&keys, product.experts);
    let rows = product.input_rows();
    let x_words = random.words(rows, product.k, x.format);
    let [down, across] = problem.x_scale_shape();
    let x_scales = random.scales(down * across);
    let w_words = random.words(product.experts * product.n, product.k, w.format);
    let panels = fp8::to_panels(&product, &w_words);
    let w_scales = random.scales(fp8::scale_words(&product));
    let bias: Vec<f32> = if product.bias {
        random.scales(product.experts * product.n)
    } else {
        Vec::new()
    };
    let got = reference(
        &problem,
        &sorted,
        (&x_words, &x_scales),
        (&panels, &w_scales),
        &bias,
    );

    let bits: Vec<u32> = w_scales.iter().map(|scale| scale.to_bits()).collect();
    let w_values = fp8::decoded(&product, &panels, &bits);
    let [r, c] = x.granularity.block(rows, product.k);
    let words = problem.row_words();
    let x_value = |i: usize| {
        let (row, column) = (i / product.k, i % product.k);
        let code = x_words[row * words + column / 4].to_le_bytes()[column % 4];
        let scale = x_scales[row / r * across + column / c];
        f64::from(decode_host(code, x.format)) * f64::from(scale)
    };
    let x_values: Vec<f64> = (0..rows * product.k).map(x_value).collect();
    let bias = product.bias.then_some(&bias[..]);
    let want = grouped_gemm::reference(&product, &sorted, &x_values, &w_values, bias);
    let norm = want.iter().map(|v| v * v).sum::<f64>().sqrt();
    let wrong = got.iter().zip(&want).map(|(a, b)| (a - b) * (a - b));
    let wrong = wrong.sum::<f64>().sqrt();
    // The decoded weights are rounded to f32.
    assert!(
        norm > 0.0 && wrong <= 1e-6 * norm,
        "{problem:?}: {wrong} of {norm}"
    );
}

#[test]
fn it_is_the_product_of_the_decoded_values() {
    let block = |rows, columns| Granularity::Block { rows, columns };
    let granularities = [
        (Granularity::Tensor, Granularity::Row),
        (Granularity::Row, Granularity::Tensor),
        (block(1, 128), block(128, 128)),
        (Granularity::Row, block(3, 32)),
        (block(2, 64), Granularity::Row),
    ];
    for (x, w) in granularities {
        for (m, n, k) in [(1, 1, 1), (5, 65, 130), (3, 130, 391)] {
            check(grouped_gemm::Problem::dense(m, n, k).unwrap(), x, w);
        }
        let tokens = grouped_gemm::Problem::new(18, 4, 2, 33, 161).unwrap();
        let sorted = grouped_gemm::Problem {
            rows: Source::Sorted,
            bias: true,
            ..tokens
        };
        check(tokens, x, w);
        check(sorted, x, w);
    }
}
