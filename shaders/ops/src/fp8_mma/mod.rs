//! W8A8 with FP8 matrix instructions: codes of x times codes of W, without decoding either.
//!
//! out\[r\] = Σ_k (sx · x_k) · (sw · w_k) + b, where x and w are FP8 codes and sx, sw their scales; rows and
//! experts as in [`grouped_gemm`], panels of W as in [`grouped_gemm::fp8`]. `mma.m16n8k32` multiplies
//! codes exactly and sums in f32, 128 inner columns at most: those sums are added in f32 outside the
//! instruction (Hopper's keeps some 14 bits of a sum), times their scales where scales change along
//! k. Other scales multiply once, at the end.
//!
//! Shapes: x u32 \[T or R, ⌈k/4⌉\], four codes along k to a word, missing ones zero codes; its scales f32
//! as [`Granularity`] has them for \[T or R, k\]; W panels \[E, 1, ⌈n/64⌉, ⌈k/4⌉, 64\], its scales f32; b f32
//! \[E, n\], where there is one; out \[R, n\] f32. A block of scales has a multiple of 32 inner columns, those of one instruction, or all.
//! Rows no slot is sorted to are left as they are. The hardware chooses the order of a sum.
//!
//! Source of the sums of 128 columns: DeepSeek-V3, 3.3.2.
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

/// Inner columns of one instruction.
pub const STEP: usize = 32;

/// The most inner columns that are summed by instructions alone.
pub const PROMOTED: usize = 128;

/// One product of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Rows, experts and sizes, and what the codes of W are.
    pub product: grouped_gemm::Problem,
    /// What the codes of x are; the formats may differ.
    pub x: Fp8Scheme,
    /// What the codes of W are.
    pub w: Fp8Scheme,
}

impl Problem {
    /// `product`, whose weights are codes, with rows that are codes as `x` says.
    ///
    /// # Errors
    /// [`Mismatch`] for weights that aren't codes in \[E, n, k\], a product that is more than one
    /// (gate, activation) or not f32, MX scales, or scale blocks that cut the inner columns of
    /// an instruction.
    pub fn new(product: grouped_gemm::Problem, x: Fp8Scheme) -> Result<Self, Mismatch> {
        let refuse =
            |expected: &str, got: String| Err(Fault::Config.error("fp8_mma", expected, got));
        let Some(w) = product
            .fp8
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

    /// Words of a row of x, and of a column of W.
    pub fn row_words(&self) -> usize {
        self.product.k.div_ceil(LANES_PER_WORD)
    }

    /// Scales of x, down and across.
    pub fn x_scale_shape(&self) -> [usize; 2] {
        let (rows, k) = (self.product.input_rows(), self.product.k);
        self.x.granularity.scale_shape(rows, k)
    }

    /// Whether a scale changes along k.
    pub fn scales_along_k(&self) -> bool {
        [self.x, self.w]
            .iter()
            .any(|codes| self.along_k(*codes).is_some())
    }

    /// Inner columns under one scale, where they are fewer than all.
    fn along_k(&self, codes: Fp8Scheme) -> Option<usize> {
        match codes.granularity {
            Granularity::Block { columns, .. } => Some(columns).filter(|c| *c < self.product.k),
            _ => None,
        }
    }

    /// Inner columns whose sums are added at once: under one scale of x and one of W, at most 128.
    pub fn segment(&self) -> usize {
        let columns = [self.x, self.w].map(|codes| self.along_k(codes).unwrap_or(PROMOTED));
        columns.into_iter().fold(PROMOTED, gcd)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The oracle: codes multiplied in f64, sums under one pair of scales times both; rows that no slot
/// is sorted to are 0.
///
/// `x` and `weights` are words and scales as in [`Problem`], `bias` is empty where the problem has none; a
/// dense product is that of one expert with all rows.
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
