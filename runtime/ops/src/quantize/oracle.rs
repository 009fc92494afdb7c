//! The oracle, in plain Rust: quotients and products in f64, codes and scales by the host codec.

use super::{Problem, amax_reference};
use crate::error::ShapeError;
use crate::fp8::{LANES_PER_WORD, decode_host, encode_host};
use crate::scaling::{ScaleType, e8m0_host, e8m0_value, scale_host};

/// Scales on the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Scales {
    /// An f32 for each block.
    F32(Vec<f32>),
    /// Four E8M0 bytes to a word.
    E8M0(Vec<u32>),
}

impl Problem {
    /// Where the value at `column` of `row` (of all matrices) has its scale: the index of an f32,
    /// or of a byte, rows of which are padded.
    fn scale_index(&self, row: usize, column: usize) -> usize {
        let [_, rows, _] = self.shape;
        let ([block_rows, block_columns], [down, _]) = (self.block(), self.blocks());
        let line = row / rows * down + row % rows / block_rows;
        line * self.padded_across() + column / block_columns
    }

    /// Every row, column and index of a value.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let [matrices, rows, columns] = self.shape;
        (0..matrices * rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
    }
}

impl Scales {
    /// The scale at an index of [`Problem::scale_index`].
    fn at(&self, index: usize) -> f64 {
        match self {
            Self::F32(scales) => f64::from(scales[index]),
            Self::E8M0(words) => {
                let bytes = words[index / LANES_PER_WORD].to_le_bytes();
                f64::from(e8m0_value(bytes[index % LANES_PER_WORD]))
            }
        }
    }

    fn check(&self, problem: &Problem) -> Result<(), ShapeError> {
        let (len, scale_type) = match self {
            Self::F32(scales) => (scales.len(), ScaleType::F32),
            Self::E8M0(words) => (words.len(), ScaleType::E8M0),
        };
        let expected = problem.granularity.scale_type();
        if scale_type != expected {
            let (expected, got) = (format!("{expected:?}"), format!("{scale_type:?}"));
            return Err(ShapeError::new("type of scales", expected, got));
        }
        ShapeError::check("scales", problem.scales(), len)
    }
}

/// The scales of x \[M, rows, columns\].
///
/// # Errors
/// [`ShapeError`] when x isn't as long as the problem says.
pub fn scales_reference(problem: &Problem, x: &[f32]) -> Result<Scales, ShapeError> {
    ShapeError::check("x", problem.len(), x.len())?;
    let [down, across] = problem.blocks();
    let padded = problem.padded_across();
    let mut blocks = vec![Vec::new(); problem.shape[0] * down * padded];
    for ((row, column), x) in problem.places().zip(x) {
        blocks[problem.scale_index(row, column)].push(*x);
    }
    let amax = blocks.iter().map(|block| amax_reference(block));
    let (format, margin) = (problem.format, problem.margin);
    Ok(match problem.granularity.scale_type() {
        ScaleType::F32 => Scales::F32(amax.map(|amax| scale_host(amax, format, margin)).collect()),
        ScaleType::E8M0 => {
            let byte = |(at, amax)| match at % padded < across {
                true => e8m0_host(amax, format, margin),
                false => 0,
            };
            let bytes: Vec<u8> = amax.enumerate().map(byte).collect();
            Scales::E8M0(crate::fp8::pack(&bytes))
        }
    })
}

/// The words of x \[M, rows, columns\] under `scales`.
///
/// # Errors
/// [`ShapeError`] when a slice isn't as long as the problem says.
pub fn encode_reference(
    problem: &Problem,
    x: &[f32],
    scales: &Scales,
) -> Result<Vec<u32>, ShapeError> {
    ShapeError::check("x", problem.len(), x.len())?;
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
        let code = encode_host(quotient, problem.format, problem.overflow);
        let (word, lane) = (column / LANES_PER_WORD, column % LANES_PER_WORD);
        words[row * row_words + word] |= u32::from(code) << (8 * lane);
    }
    Ok(words)
}

/// The values \[M, rows, columns\] of `words` under `scales`.
///
/// # Errors
/// [`ShapeError`] when a slice isn't as long as the problem says.
pub fn dequantize_reference(
    problem: &Problem,
    words: &[u32],
    scales: &Scales,
) -> Result<Vec<f64>, ShapeError> {
    ShapeError::check("words", problem.words(), words.len())?;
    scales.check(problem)?;
    let [.., row_words] = problem.words_shape();
    let value = |(row, column): (usize, usize)| {
        let lanes = words[row * row_words + column / LANES_PER_WORD].to_le_bytes();
        let value = decode_host(lanes[column % LANES_PER_WORD], problem.format);
        f64::from(value) * scales.at(problem.scale_index(row, column))
    };
    Ok(problem.places().map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Element;
    use crate::fp8::{Fp8Format, unpack};
    use crate::scaling::Granularity;

    fn problem(shape: [usize; 3], granularity: Granularity) -> Problem {
        Problem::new(shape, Element::F32, granularity, Fp8Format::E4M3).unwrap()
    }

    #[test]
    fn rows_by_hand() {
        let problem = problem([1, 2, 3], Granularity::Row);
        let x = [448.0, -224.0, 1.0, 0.0, 896.0, f32::NAN];
        let scales = scales_reference(&problem, &x).unwrap();
        assert_eq!(scales, Scales::F32(vec![1.0, 2.0]));
        let words = encode_reference(&problem, &x, &scales).unwrap();
        assert_eq!(unpack(&words[..1], 4), [0x7E, 0xF6, 0x38, 0]);
        assert_eq!(unpack(&words[1..], 4), [0x00, 0x7E, 0x7F, 0]);
        let back = dequantize_reference(&problem, &words, &scales).unwrap();
        assert_eq!(back[..5], [448.0, -224.0, 1.0, 0.0, 896.0]);
        assert!(back[5].is_nan());
    }

    #[test]
    fn blocks_end_with_their_matrix() {
        let block = Granularity::Block {
            rows: 2,
            columns: 3,
        };
        // Two matrices of 3 × 4: blocks of 2 × 3, 2 × 1, 1 × 3 and 1 × 1.
        let problem = problem([2, 3, 4], block);
        let x: Vec<f32> = (0..24).map(|i| 448.0 * i as f32).collect();
        let scales = scales_reference(&problem, &x).unwrap();
        let want = vec![6.0, 7.0, 10.0, 11.0, 18.0, 19.0, 22.0, 23.0];
        assert_eq!(scales, Scales::F32(want));
    }

    #[test]
    fn mx_bytes_are_packed_by_row() {
        let problem = problem([1, 2, 40], Granularity::Mx);
        let mut x = vec![0.0; 80];
        (x[0], x[32], x[40]) = (448.0, 449.0, 224.0);
        let scales = scales_reference(&problem, &x).unwrap();
        let want = [[127, 128, 0, 0], [126, 127, 0, 0]].map(u32::from_le_bytes);
        assert_eq!(scales, Scales::E8M0(want.to_vec()));
    }

    #[test]
    fn wrong_lengths_and_types_are_shape_errors() {
        let problem = problem([1, 2, 3], Granularity::Row);
        assert!(scales_reference(&problem, &[0.0; 5]).is_err());
        let bytes = Scales::E8M0(vec![0; 2]);
        assert!(encode_reference(&problem, &[0.0; 6], &bytes).is_err());
        assert!(dequantize_reference(&problem, &[0; 2], &Scales::F32(vec![1.0])).is_err());
        assert!(problem.with_margin(65).is_err() && problem.with_margin(-64).is_ok());
    }
}
