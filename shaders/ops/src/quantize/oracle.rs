//! The oracles of quantisation in plain Rust: quotients and products in f64, codes and scales by the host codec.

use super::Problem;
use crate::error::Mismatch;
use crate::fp8::{LANES_PER_WORD, decode_host, encode_host};
use crate::scaling::{ScaleType, e8m0_host, e8m0_value, scale_host};

/// Scales on the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Scales {
    /// One f32 per block.
    F32(Vec<f32>),
    /// One E8M0 byte per block, four to a word, rows padded to whole words.
    E8M0(Vec<u32>),
}

impl Problem {
    /// The index of the scale of the value at `column` of `row`, counting rows over all matrices: an index of f32s, or of E8M0
    /// bytes in padded rows.
    fn scale_index(&self, row: usize, column: usize) -> usize {
        let [_, rows, _] = self.shape();
        let ([block_rows, block_columns], [down, _]) = (self.block(), self.blocks());
        let line = row / rows * down + row % rows / block_rows;
        line * self.padded_across() + column / block_columns
    }

    /// The row and column of every value.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let [matrices, rows, columns] = self.shape();
        (0..matrices * rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
    }
}

impl Scales {
    /// The scale at an index from [`Problem::scale_index`].
    fn at(&self, index: usize) -> f64 {
        match self {
            Self::F32(scales) => f64::from(scales[index]),
            Self::E8M0(words) => {
                let bytes = words[index / LANES_PER_WORD].to_le_bytes();
                f64::from(e8m0_value(bytes[index % LANES_PER_WORD]))
            }
        }
    }

    fn check(&self, problem: &Problem) -> Result<(), Mismatch> {
        let (len, scale_type) = match self {
            Self::F32(scales) => (scales.len(), ScaleType::F32),
            Self::E8M0(words) => (words.len(), ScaleType::E8M0),
        };
        let expected = problem.granularity().scale_type();
        let (right, got) = (scale_type == expected, format_args!("{scale_type:?}"));
        Mismatch::unless(right, "type of scales", format_args!("{expected:?}"), got)?;
        Mismatch::check("scales", problem.scales(), len)
    }
}

/// The oracle of amax: the largest finite magnitude, or 0 if there is none.
pub fn amax_reference(x: &[f32]) -> f32 {
    let finite = x.iter().filter(|x| x.is_finite());
    finite.fold(0.0, |amax: f32, x| amax.max(x.abs()))
}

/// The oracle of the scales of x \[M, rows, columns\].
///
/// # Errors
/// [`Mismatch`] when the length of `x` differs from the problem's.
pub fn scales_reference(problem: &Problem, x: &[f32]) -> Result<Scales, Mismatch> {
    Mismatch::check("x", problem.len(), x.len())?;
    let [down, across] = problem.blocks();
    let padded = problem.padded_across();
    let mut blocks = vec![Vec::new(); problem.shape()[0] * down * padded];
    for ((row, column), x) in problem.places().zip(x) {
        blocks[problem.scale_index(row, column)].push(*x);
    }
    let amax = blocks.iter().map(|block| amax_reference(block));
    let (format, margin) = (problem.format(), problem.margin());
    Ok(match problem.granularity().scale_type() {
        ScaleType::F32 => Scales::F32(amax.map(|amax| scale_host(amax, format, margin)).collect()),
        ScaleType::E8M0 => {
            let byte = |(at, amax)| {
                if at % padded < across {
                    e8m0_host(amax, format, margin)
                } else {
                    0
                }
            };
            let bytes: Vec<u8> = amax.enumerate().map(byte).collect();
            Scales::E8M0(crate::fp8::pack(&bytes))
        }
    })
}

/// The oracle of the words of x \[M, rows, columns\] under `scales`.
///
/// # Errors
/// [`Mismatch`] when the length of a slice differs from the problem's.
pub fn encode_reference(
    problem: &Problem,
    x: &[f32],
    scales: &Scales,
) -> Result<Vec<u32>, Mismatch> {
    Mismatch::check("x", problem.len(), x.len())?;
    scales.check(problem)?;
    let [.., row_words] = problem.words_shape();
    let mut words = vec![0; problem.words()];
    for ((row, column), x) in problem.places().zip(x) {
        let scale = scales.at(problem.scale_index(row, column));
        let quotient = if x.is_finite() {
            (f64::from(*x) / scale) as f32
        } else {
            *x
        };
        let code = encode_host(quotient, problem.format(), problem.overflow());
        let (word, lane) = (column / LANES_PER_WORD, column % LANES_PER_WORD);
        words[row * row_words + word] |= u32::from(code) << (8 * lane);
    }
    Ok(words)
}

/// The oracle of the values \[M, rows, columns\] of `words` under `scales`.
///
/// # Errors
/// [`Mismatch`] when the length of a slice differs from the problem's.
pub fn dequantize_reference(
    problem: &Problem,
    words: &[u32],
    scales: &Scales,
) -> Result<Vec<f64>, Mismatch> {
    Mismatch::check("words", problem.words(), words.len())?;
    scales.check(problem)?;
    let [.., row_words] = problem.words_shape();
    let value = |(row, column): (usize, usize)| {
        let lanes = words[row * row_words + column / LANES_PER_WORD].to_le_bytes();
        let value = decode_host(lanes[column % LANES_PER_WORD], problem.format());
        f64::from(value) * scales.at(problem.scale_index(row, column))
    };
    Ok(problem.places().map(value).collect())
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
