//! Weights as FP8 codes that kernels decode while loading: a quarter of the bytes of f32.
//!
//! w = code · scale, rounded to f32, so the product equals the product of the decoded weights to the last bit. Words lie in
//! panels \[E, parts, ⌈n/64⌉, ⌈k/4⌉, 64\]: a word holds the codes of four neighbouring inner columns of one output column, and
//! the words of 64 output columns lie side by side. A CPU register and the neighbouring units of a GPU therefore read
//! neighbouring words, and a panel is read front to back without transposition. Missing columns and codes are zeros. Each
//! expert's scales have the shape that [`Granularity`] gives for a matrix \[n or 2n, k\], one expert after the other.
//!
//! The gradient of x multiplies by the same panels: with [`WeightLayout::InOut`](super::WeightLayout) they are those of W \[k, n\], so
//! that a word holds four neighbouring output columns of one inner column.

use super::Problem;
use crate::error::{Fault, Mismatch};
use crate::fp8::{LANES_PER_WORD, decode_host};
use crate::quantize;
use crate::scaling::{Fp8Scheme, Granularity, e8m0_value};

/// Output columns per panel.
pub const PANEL: usize = 64;

impl Fp8Scheme {
    /// Checks that the four codes of a word share a scale, in rows of `k` columns.
    ///
    /// # Errors
    /// [`Mismatch`] for blocks that end inside a word, or that have no rows or columns.
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

/// The quantisation problem of one expert's weights, the matrix that lies in memory.
///
/// # Errors
/// [`Mismatch`] when the weights aren't codes or an index would not fit 31 bits.
pub fn matrix(problem: &Problem) -> Result<quantize::Problem, Mismatch> {
    let Some(weights) = problem.stored.fp8() else {
        return Err(Fault::Config.error("weights", "FP8 codes", "floats"));
    };
    let [rows, columns] = problem.weight_rows();
    let shape = [1, rows, columns];
    quantize::Problem::new(shape, problem.element, weights.granularity, weights.format)
}

/// The number of words of one expert's panels.
pub fn expert_words(problem: &Problem) -> usize {
    let [rows, columns] = of_part(problem);
    let panels = problem.parts() * rows.div_ceil(PANEL);
    panels * PANEL * columns.div_ceil(LANES_PER_WORD)
}

/// The rows of one part of an expert's weights as they lie in memory, and the weights in each.
fn of_part(problem: &Problem) -> [usize; 2] {
    let [rows, columns] = problem.weight_rows();
    [rows / problem.parts(), columns]
}

/// The number of scales of an expert's matrix, down and across, as they lie in memory; 0 without codes.
pub fn scale_shape(problem: &Problem) -> [usize; 2] {
    let shape = |weights: Fp8Scheme| {
        let [rows, columns] = problem.weight_rows();
        weights.granularity.scale_shape(rows, columns)
    };
    problem.stored.fp8().map_or([0, 0], shape)
}

/// The number of f32 scales, or of words of E8M0 scales, of all experts.
pub fn scale_words(problem: &Problem) -> usize {
    let [down, across] = scale_shape(problem);
    problem.experts * down * across
}

/// Rearranges row-major words \[E, n or 2n, ⌈k/4⌉\], or \[E, k, ⌈n/4⌉\], into panels.
pub fn to_panels(problem: &Problem, words: &[u32]) -> Vec<u32> {
    let mut panels = vec![0; problem.experts * expert_words(problem)];
    let [_, columns] = problem.weight_rows();
    for (row, word, at) in places(problem) {
        panels[at] = words[row * columns.div_ceil(LANES_PER_WORD) + word];
    }
    panels
}

/// Decodes `panels` to the weights \[E, n or 2n, k\] or \[E, k, n\]; `scales` lie as [`Granularity`] describes.
pub fn decoded(problem: &Problem, panels: &[u32], scales: &[u32]) -> Vec<f32> {
    let Some(Fp8Scheme {
        format,
        granularity,
    }) = problem.stored.fp8()
    else {
        return Vec::new();
    };
    let [n, k] = problem.weight_rows();
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

/// For every word: its row, its index in the row, and its index in the panels.
fn places(problem: &Problem) -> impl Iterator<Item = (usize, usize, usize)> {
    let [n, columns] = of_part(problem);
    let (words, panels) = (columns.div_ceil(LANES_PER_WORD), n.div_ceil(PANEL));
    let rows = problem.experts * problem.parts() * n;
    (0..rows * words).map(move |i| {
        let (row, word) = (i / words, i % words);
        let (matrix, column) = (row / n, row % n);
        let panel = matrix * panels + column / PANEL;
        let at = (panel * words + word) * PANEL + column % PANEL;
        (row, word, at)
    })
}
