//! Products of FP8 codes by FP8 matrix instructions (W8A8): codes of x times codes of W, without decoding either.
//!
//! out\[r\] = Σ_k (sx · x_k) · (sw · w_k) + b, where x and w are FP8 codes and sx, sw their scales. Rows and experts are as in
//! [`grouped_gemm`], panels of W as in [`grouped_gemm::fp8`]. `mma.m16n8k32` multiplies codes exactly and sums in f32.
//! Instructions alone sum at most 128 inner columns, because Hopper's keeps only about 14 bits of a sum; the partial sums are
//! added in f32 outside the instruction. Scales that change along k multiply each partial sum; other scales multiply the total
//! once.
//!
//! Shapes: x u32 \[T or R, ⌈k/4⌉\], four codes along k per word, padded with zero codes, with f32 scales in the shape that
//! [`Granularity`] gives for \[T or R, k\]; W panels \[E, 1, ⌈n/64⌉, ⌈k/4⌉, 64\] with f32 scales; b f32 \[E, n\], optional; out
//! \[R, n\] f32. A block of scales covers a multiple of 32 inner columns (one instruction's), or all of them. Rows that no slot
//! is sorted to are left unchanged. The hardware chooses the order of a sum.
//!
//! Source of the limit of 128 columns: DeepSeek-V3, 3.3.2.
//!
//! FLOPs 2·R·n·k. Bytes at least R·k + E·n·k + 4·R·n.

use crate::element::Element;
use crate::error::{Fault, Mismatch};
use crate::fp8::{LANES_PER_WORD, decode_host};
use crate::grouped_gemm::fp8::{PANEL, expert_words};
use crate::grouped_gemm::{self, WeightLayout};
use crate::permute::Sorted;
use crate::scaling::{Fp8Scheme, Granularity};
use serde::{Deserialize, Serialize};

/// Inner columns per instruction.
pub const STEP: usize = 32;

/// The largest number of inner columns summed by instructions alone.
pub const PROMOTED: usize = 128;

/// One product of FP8 codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Rows, experts, sizes, and the FP8 scheme of W.
    pub product: grouped_gemm::Problem,
    /// The FP8 scheme of x; its format may differ from that of W.
    pub x: Fp8Scheme,
    /// The FP8 scheme of W.
    pub w: Fp8Scheme,
}

impl Problem {
    /// `product`, whose weights are FP8 codes, with rows of x quantised by the scheme `x`.
    ///
    /// # Errors
    /// [`Mismatch`] when the weights aren't codes in \[E, n, k\], the product has a gate or an activation or isn't f32, scales
    /// are MX, or a block of scales ends inside the inner columns of an instruction.
    pub fn new(product: grouped_gemm::Problem, x: Fp8Scheme) -> Result<Self, Mismatch> {
        let refuse =
            |expected: &str, got: String| Err(Fault::Config.error("fp8_mma", expected, got));
        let Some(w) = product
            .stored
            .fp8()
            .filter(|_| product.layout == WeightLayout::OutIn)
        else {
            return refuse("weights as codes of [E, n, k]", format!("{product:?}"));
        };
        let plain = !product.gated && product.activation.is_none();
        if !plain || product.element != Element::F32 {
            return refuse("a plain product into f32", format!("{product:?}"));
        }
        for codes in [x, w] {
            let whole = match codes.granularity {
                Granularity::Tensor | Granularity::Row => true,
                Granularity::Mx => false,
                Granularity::Block { rows, columns } => {
                    let steps = columns.is_multiple_of(STEP) || columns >= product.k;
                    rows > 0 && columns > 0 && steps
                }
            };
            if !whole {
                let expected = "f32 scales of rows or of blocks of a multiple of 32 inner columns";
                return refuse(expected, format!("{:?}", codes.granularity));
            }
        }
        Ok(Self { product, x, w })
    }

    /// The number of words of a row of x, and of a column of W.
    pub fn row_words(&self) -> usize {
        self.product.k.div_ceil(LANES_PER_WORD)
    }

    /// The number of scales of x, down and across.
    pub fn x_scale_shape(&self) -> [usize; 2] {
        let (rows, k) = (self.product.input_rows(), self.product.k);
        self.x.granularity.scale_shape(rows, k)
    }

    /// Whether the scales of x or W change along k.
    pub fn scales_along_k(&self) -> bool {
        [self.x, self.w]
            .iter()
            .any(|codes| self.along_k(*codes).is_some())
    }

    /// The inner columns that share a scale, if they aren't all of them.
    fn along_k(&self, codes: Fp8Scheme) -> Option<usize> {
        match codes.granularity {
            Granularity::Block { columns, .. } => Some(columns).filter(|c| *c < self.product.k),
            _ => None,
        }
    }

    /// The inner columns summed before the scales multiply: they share one scale of x and one of W and are at most 128.
    pub fn segment(&self) -> usize {
        let columns = [self.x, self.w].map(|codes| self.along_k(codes).unwrap_or(PROMOTED));
        columns.into_iter().fold(PROMOTED, gcd)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The oracle: sums the products of codes under one pair of scales in f64, times both scales; rows that no slot is sorted to are
/// 0.
///
/// `x` and `weights` are words and scales as [`Problem`] describes them, and `bias` is empty for a problem without one. A dense
/// product is computed as one expert's product of all rows.
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
mod oracle_tests;
#[cfg(test)]
mod tests;
