//! Quantisation on the host, with the arithmetic of the kernels: a block's scale follows from its largest finite magnitude or
//! from a least-squares search; each value is divided by the scale in f32 and encoded. NaN stays NaN.

use super::{Quantizer, ScaleRule};
use crate::error::Mismatch;
use crate::fp8::{Fp8Format, Overflow, decode_host, encode_host};
use crate::scaling::{Fp8Scheme, Granularity, HostScales};
use std::num::NonZero;
use std::ops::Range;
use std::thread;

/// The number of values below which a second thread costs more than it saves.
const SMALL: usize = 1 << 16;

/// The codes and scales of one matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// One code per value, row-major.
    pub codes: Vec<u8>,
    /// Scales, row-major; a single one if the whole matrix shares it.
    pub scales: HostScales,
}

/// Quantises `values`, row-major \[rows, columns\], on all cores of the host.
///
/// # Errors
/// [`Mismatch`] when the length of `values` isn't `rows` · `columns`, or the quantiser's settings don't fit each other.
pub fn quantize_host(
    values: &[f32],
    rows: usize,
    columns: usize,
    quantizer: impl Into<Quantizer>,
) -> Result<Quantized, Mismatch> {
    let quantizer = quantizer.into();
    quantizer.validate()?;
    let right = rows.checked_mul(columns) == Some(values.len());
    let expected = format_args!("{rows} x {columns}");
    Mismatch::unless(right, "values to quantise", expected, values.len())?;
    let blocks = Blocks::of(quantizer.granularity, [rows, columns]);
    let threads = if values.len() < SMALL {
        1
    } else {
        thread::available_parallelism().map_or(1, NonZero::get)
    };
    let amaxes = if values.is_empty() {
        // A tensor has its one scale even when it is empty.
        let grid = Fp8Scheme::from(quantizer).grid(rows, columns);
        vec![0.0; grid.iter().product()]
    } else {
        amaxes(values, &blocks, threads)
    };
    let kind = quantizer.granularity.scale_type();
    let mut scales = HostScales::of_amaxes(kind, &amaxes, quantizer.format, quantizer.margin);
    if let HostScales::F32(scales) = &mut scales
        && quantizer.scales == ScaleRule::LeastSquares
        && !values.is_empty()
    {
        improve(scales, values, &blocks, quantizer.format, threads);
    }
    let codes = encode(values, &blocks, &scales.to_f32(), &quantizer, threads);
    Ok(Quantized { codes, scales })
}

/// The largest finite magnitude, or 0 if there is none. The bits of magnitudes, as integers, are ordered like the magnitudes.
pub fn amax_host(values: &[f32]) -> f32 {
    let magnitude = |value: &f32| {
        let bits = value.to_bits() & 0x7FFF_FFFF;
        if bits < 0x7F80_0000 { bits } else { 0 }
    };
    f32::from_bits(values.iter().map(magnitude).fold(0, u32::max))
}

/// The blocks of a stack of matrices; their scales lie matrix by matrix, row by row, without padding.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    rows: usize,
    columns: usize,
    /// Rows and columns of a block.
    block: [usize; 2],
    /// Blocks of a matrix, down and across.
    count: [usize; 2],
}

impl Blocks {
    /// The blocks of matrices of `rows` × `columns`.
    pub fn of(granularity: Granularity, [rows, columns]: [usize; 2]) -> Self {
        let [high, wide] = granularity.block(rows, columns);
        Self {
            rows,
            columns,
            // Clamped to the matrix, because larger sizes could overflow indices.
            block: [high.min(rows.max(1)), wide.min(columns.max(1))],
            count: granularity.blocks(rows, columns),
        }
    }

    /// The number of values per row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Blocks of a matrix, down and across.
    pub fn count(&self) -> [usize; 2] {
        self.count
    }

    /// The indices of the scales of a row's blocks; rows are counted over all matrices.
    pub fn of_row(&self, row: usize) -> Range<usize> {
        let [down, across] = self.count;
        let first = (row / self.rows * down + row % self.rows / self.block[0]) * across;
        first..first + across
    }

    /// Raises the `amaxes` of a row's blocks to the row's largest finite magnitudes.
    pub fn raise(&self, amaxes: &mut [f32], values: &[f32]) {
        for (amax, values) in amaxes.iter_mut().zip(values.chunks(self.block[1])) {
            *amax = amax.max(amax_host(values));
        }
    }

    /// Encodes a row of values under the scales of its blocks; `codes` beyond the row stay unchanged.
    pub fn encode(
        &self,
        values: &[f32],
        scales: &[f32],
        codes: &mut [u8],
        (format, overflow): (Fp8Format, Overflow),
    ) {
        let wide = self.block[1];
        let blocks = values.chunks(wide).zip(codes.chunks_mut(wide));
        for ((values, codes), scale) in blocks.zip(scales) {
            for (value, code) in values.iter().zip(codes) {
                *code = encode_host(*value / *scale, format, overflow);
            }
        }
    }

    /// Decodes a row as code · scale; `table` has the values of all codes.
    pub fn decode(&self, codes: &[u8], scales: &[f32], table: &[f32; 256], values: &mut [f32]) {
        let wide = self.block[1];
        let blocks = values.chunks_mut(wide).zip(codes.chunks(wide));
        for ((values, codes), scale) in blocks.zip(scales) {
            for (value, code) in values.iter_mut().zip(codes) {
                *value = table[usize::from(*code)] * scale;
            }
        }
    }
}

/// The values of all codes of a format.
pub fn decoded_codes(format: Fp8Format) -> [f32; 256] {
    std::array::from_fn(|code| decode_host(code as u8, format))
}

/// The largest finite magnitude of every block of a non-empty matrix.
fn amaxes(values: &[f32], blocks: &Blocks, threads: usize) -> Vec<f32> {
    let (columns, [down, across]) = (blocks.columns, blocks.count);
    let mut amaxes = vec![0.0f32; down * across];
    let raise = |amaxes: &mut [f32], rows: &[f32]| {
        rows.chunks(columns)
            .for_each(|row| blocks.raise(amaxes, row));
    };
    if down == 1 {
        // With a single row of blocks, threads share the rows of values, so that a matrix with one scale uses all cores.
        let band = blocks.rows.div_ceil(threads);
        let mut parts = vec![0.0f32; blocks.rows.div_ceil(band) * across];
        in_bands(&mut parts, across, |index, part| {
            let rows = values[index * band * columns..].chunks(band * columns);
            rows.take(1).for_each(|rows| raise(part, rows));
        });
        for part in parts.chunks(across) {
            for (amax, &other) in amaxes.iter_mut().zip(part) {
                *amax = amax.max(other);
            }
        }
        return amaxes;
    }
    let strip = blocks.block[0] * columns;
    let band = down.div_ceil(threads);
    in_bands(&mut amaxes, band * across, |index, amaxes| {
        let strips = values[index * band * strip..].chunks(strip);
        for (amaxes, strip) in amaxes.chunks_mut(across).zip(strips) {
            raise(amaxes, strip);
        }
    });
    amaxes
}

/// Replaces the scales of the largest magnitudes by scales with a smaller squared error.
fn improve(scales: &mut [f32], values: &[f32], blocks: &Blocks, format: Fp8Format, threads: usize) {
    let (width, [down, across]) = (blocks.columns, blocks.count);
    let strip = blocks.block[0] * width;
    let band = down.div_ceil(threads);
    let search = LeastSquares::new(format);
    in_bands(scales, band * across, |index, scales| {
        let strips = values[index * band * strip..].chunks(strip);
        for (scales, strip) in scales.chunks_mut(across).zip(strips) {
            search.choose(scales, strip, [width, blocks.block[1]]);
        }
    });
}

/// Encodes a matrix under the scales of its blocks.
fn encode(
    values: &[f32],
    blocks: &Blocks,
    scales: &[f32],
    quantizer: &Quantizer,
    threads: usize,
) -> Vec<u8> {
    let mut codes = vec![0; values.len()];
    let width = blocks.columns.max(1);
    let band = blocks.rows.div_ceil(threads).max(1);
    let cast = (quantizer.format, quantizer.overflow);
    in_bands(&mut codes, band * width, |index, codes| {
        let first = index * band;
        let lines = codes
            .chunks_mut(width)
            .zip(values.chunks(width).skip(first));
        for (row, (codes, values)) in lines.enumerate() {
            let scales = &scales[blocks.of_row(first + row)];
            blocks.encode(values, scales, codes, cast);
        }
    });
    codes
}

/// Splits `out` into bands of `band` elements and calls `work` with each band's index and elements, each on its own thread.
fn in_bands<T: Send>(out: &mut [T], band: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    if out.len() <= band {
        return work(0, out);
    }
    thread::scope(|scope| {
        for (index, part) in out.chunks_mut(band).enumerate() {
            let work = &work;
            scope.spawn(move || work(index, part));
        }
    });
}

/// The number of candidate scales of [`ScaleRule::LeastSquares`].
pub const LEAST_SQUARES_TRIED: usize = 16;

/// The factors 2^(i/16) of the candidate scales, relative to the scale of the largest magnitude, which is the first candidate. A
/// factor of 2 gives the same codes with another exponent, except for codes that lose bits at the end of their range. Smaller
/// factors saturate; for blocks of 32 or more of SmolLM2's weights they never helped.
pub fn least_squares_factors() -> [f32; LEAST_SQUARES_TRIED] {
    std::array::from_fn(|i| (i as f64 / LEAST_SQUARES_TRIED as f64).exp2() as f32)
}

/// The least-squares search for the scales of values in one format.
struct LeastSquares {
    grid: Grid,
    factors: [f32; LEAST_SQUARES_TRIED],
}

impl LeastSquares {
    fn new(format: Fp8Format) -> Self {
        Self {
            grid: Grid::of(format),
            factors: least_squares_factors(),
        }
    }

    /// Replaces each of `scales`, the first candidates, by the block's candidate with the least Σ (code · scale − x)², the first
    /// of equals. A block with a value that isn't finite keeps its first candidate.
    ///
    /// `strip` has the values of one row of blocks, `width` per row; each block is `columns` wide.
    fn choose(&self, scales: &mut [f32], strip: &[f32], [width, columns]: [usize; 2]) {
        let tried = |first: f32, i: usize| (first * self.factors[i]).min(f32::MAX);
        let mut errors = vec![[0.0f64; LEAST_SQUARES_TRIED]; scales.len()];
        for row in strip.chunks(width) {
            let blocks = row.chunks(columns);
            for ((block, errors), &first) in blocks.zip(&mut errors).zip(scales.iter()) {
                for (i, error) in errors.iter_mut().enumerate() {
                    *error += f64::from(self.grid.squared_errors(block, tried(first, i)));
                }
            }
        }
        for (scale, errors) in scales.iter_mut().zip(errors) {
            let mut best = 0;
            for i in 1..LEAST_SQUARES_TRIED {
                // The comparison is false if either error is NaN.
                if errors[i] < errors[best] {
                    best = i;
                }
            }
            *scale = tried(*scale, best);
        }
    }
}

/// The values of a format, by f32 bits: the mantissa bits it lacks, and the spacing of its subnormal values.
#[derive(Clone, Copy, Debug)]
struct Grid {
    /// The number of f32 mantissa bits that the format lacks.
    below: u32,
    smallest_normal: f32,
    /// 1.5 · 2²³ subnormal steps: adding it rounds a number to a multiple of the step.
    rounder: f32,
}

impl Grid {
    fn of(format: Fp8Format) -> Self {
        let below = f32::MANTISSA_DIGITS - 1 - format.mantissa_bits();
        let smallest_normal = (1.0 - f64::from(format.bias())).exp2();
        let step = smallest_normal / f64::from(format.mantissa_bits()).exp2();
        Self {
            below,
            smallest_normal: smallest_normal as f32,
            rounder: (1.5 * 23f64.exp2() * step) as f32,
        }
    }

    /// The nearest value of the format, ties to even. It ignores the format's largest value, because no magnitude exceeds that
    /// here. It has no branches, so that compilers vectorise it.
    fn nearest(self, x: f32) -> f32 {
        let bits = x.to_bits();
        let odd = (bits >> self.below) & 1;
        let half = (1 << (self.below - 1)) - 1;
        let normal = f32::from_bits((bits.wrapping_add(half + odd)) & !((1 << self.below) - 1));
        let subnormal = (x + self.rounder) - self.rounder;
        if x.abs() < self.smallest_normal {
            subnormal
        } else {
            normal
        }
    }

    /// The sum Σ (code · scale − x)² over part of a block.
    fn squared_errors(self, block: &[f32], scale: f32) -> f32 {
        let mut sums = [0.0f32; LANES];
        let (whole, rest) = block.as_chunks::<LANES>();
        for values in whole {
            for (sum, x) in sums.iter_mut().zip(values) {
                *sum += self.squared_error(*x, scale);
            }
        }
        let rest: f32 = rest.iter().map(|x| self.squared_error(*x, scale)).sum();
        sums.iter().sum::<f32>() + rest
    }

    fn squared_error(self, x: f32, scale: f32) -> f32 {
        let apart = self.nearest(x / scale) * scale - x;
        apart * apart
    }
}

/// Partial sums kept side by side, for SIMD.
const LANES: usize = 16;

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
