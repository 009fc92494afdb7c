//! Weights as FP8 codes that are decoded while they are loaded: a quarter of the bytes of f32.
//!
//! w = code · scale, rounded to f32, so a product is that of the decoded weights to the last bit.
//! Words lie in panels \[E, parts, ⌈n/64⌉, ⌈k/4⌉, 64\]: the codes of four neighbouring inner columns
//! of one output column to a word, 64 output columns side by side. A register of a CPU or the
//! neighbouring units of a GPU read neighbouring words, a panel is read front to back, and nothing
//! is transposed on the way. Missing columns and codes are zeros. Scales lie as [`Granularity`] has
//! them for a matrix of \[n or 2n, k\], one after the other for each expert.

use super::Problem;
use crate::error::{Fault, Mismatch};
use crate::fp8::{LANES_PER_WORD, decode_host};
use crate::quantize;
use crate::scaling::{Fp8Scheme, Granularity, e8m0_value};

/// Output columns of a panel.
pub const PANEL: usize = 64;

impl Fp8Scheme {
    /// Checks that all codes of a word share a scale, in matrices of `k` inner columns.
    ///
    /// # Errors
    /// [`Mismatch`] for blocks that words straddle, or without rows or columns.
    pub fn check(&self, k: usize) -> Result<(), Mismatch> {
        let Granularity::Block { rows, columns } = self.granularity else {
            return Ok(());
        };
        let whole_words = columns >= k || columns.is_multiple_of(LANES_PER_WORD);
        let right = rows > 0 && columns > 0 && whole_words;
        let expected = "a multiple of 4 inner columns, or all";
        let got = format_args!("{rows} x {columns}");
        Fault::Config.unless(right, "scale blocks of weights", expected, got)
    }
}

/// The codes of one expert's weights as a matrix \[n or 2n, k\] with its scales.
///
/// # Errors
/// [`Mismatch`] without codes, and for more of them than 31 bits count.
pub fn matrix(problem: &Problem) -> Result<quantize::Problem, Mismatch> {
    let Some(weights) = problem.fp8 else {
        return Err(Fault::Config.error("weights", "FP8 codes", "floats"));
    };
    let shape = [1, problem.n * problem.parts(), problem.k];
    quantize::Problem::new(shape, problem.element, weights.granularity, weights.format)
}

/// Words of one expert's panels.
pub fn expert_words(problem: &Problem) -> usize {
    let panels = problem.parts() * problem.n.div_ceil(PANEL);
    panels * PANEL * problem.k.div_ceil(LANES_PER_WORD)
}

/// Scales down and across the matrix of an expert, as they lie in memory; 0 without codes.
pub fn scale_shape(problem: &Problem) -> [usize; 2] {
    let shape = |weights: Fp8Scheme| {
        let rows = problem.n * problem.parts();
        weights.granularity.scale_shape(rows, problem.k)
    };
    problem.fp8.map_or([0, 0], shape)
}

/// f32s or words of E8M0 bytes of all scales.
pub fn scale_words(problem: &Problem) -> usize {
    let [down, across] = scale_shape(problem);
    problem.experts * down * across
}

/// Row-major words \[E, n or 2n, ⌈k/4⌉\] as panels.
pub fn to_panels(problem: &Problem, words: &[u32]) -> Vec<u32> {
    let mut panels = vec![0; problem.experts * expert_words(problem)];
    for (row, word, at) in places(problem) {
        panels[at] = words[row * problem.k.div_ceil(LANES_PER_WORD) + word];
    }
    panels
}

/// The decoded weights \[E, n or 2n, k\] of `panels`, and of `scales` as [`Granularity`] has them.
pub fn decoded(problem: &Problem, panels: &[u32], scales: &[u32]) -> Vec<f32> {
    let Some(Fp8Scheme {
        format,
        granularity,
    }) = problem.fp8
    else {
        return Vec::new();
    };
    let (n, k) = (problem.n * problem.parts(), problem.k);
    let [rows, columns] = granularity.block(n, k);
    let [down, across] = scale_shape(problem);
    let mut weights = vec![0.0; problem.experts * n * k];
    for (row, word, at) in places(problem) {
        for (lane, code) in panels[at].to_le_bytes().into_iter().enumerate() {
            let column = LANES_PER_WORD * word + lane;
            if column < k {
                let first = (row / n * down + row % n / rows) * across;
                let block = column / columns;
                let scale = match granularity {
                    Granularity::Mx => {
                        e8m0_value(scales[first + block / 4].to_le_bytes()[block % 4])
                    }
                    _ => f32::from_bits(scales[first + block]),
                };
                weights[row * k + column] = decode_host(code, format) * scale;
            }
        }
    }
    weights
}

/// Row, word of the row and place in the panels of every word.
fn places(problem: &Problem) -> impl Iterator<Item = (usize, usize, usize)> {
    let (n, words) = (problem.n, problem.k.div_ceil(LANES_PER_WORD));
    let panels = n.div_ceil(PANEL);
    let rows = problem.experts * problem.parts() * n;
    (0..rows * words).map(move |i| {
        let (row, word) = (i / words, i % words);
        let (matrix, column) = (row / n, row % n);
        let panel = matrix * panels + column / PANEL;
        let at = (panel * words + word) * PANEL + column % PANEL;
        (row, word, at)
    })
}
