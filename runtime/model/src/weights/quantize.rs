//! Quantisation on the host: what a conversion without a device does.
//!
//! The same formulas as on a device: a block's scale follows from its largest finite magnitude or is found by least
//! squares, a value is divided by it in f32 and encoded; NaN stays NaN.

use std::error::Error;
use std::num::NonZero;
use std::thread;

use moebius::fp8::{
    Fp8Format, Quantizer, ScaleRule, ScaleType, e8m0_host, encode_host, scale_host,
};

use super::fp8::Fp8Scheme;
use super::least_squares::LeastSquares;
use moebius::fp8::HostScales;

/// Values below which a second thread costs more than it saves.
const SMALL: usize = 1 << 16;

/// Why a quantiser gave nothing.
pub type QuantizeError = Box<dyn Error + Send + Sync>;

/// The codes and scales of one matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// One code a value, row-major.
    pub codes: Vec<u8>,
    /// Scales, row-major; one where the whole matrix shares it.
    pub scales: HostScales,
}

/// [`quantize_host`], in the form in which a conversion takes a quantiser.
pub fn host_quantizer(
    quantizer: impl Into<Quantizer>,
) -> impl FnMut(&[f32], usize, usize) -> Result<Quantized, QuantizeError> {
    let quantizer = quantizer.into();
    move |values, rows, columns| quantize_host(values, rows, columns, quantizer)
}

/// Codes and scales of `values`, row-major \[rows, columns\], on all cores of the host; least squares by rows of blocks.
///
/// # Errors
/// When `values` is not of `rows` × `columns`, or the quantiser's settings don't fit each other.
pub fn quantize_host(
    values: &[f32],
    rows: usize,
    columns: usize,
    quantizer: impl Into<Quantizer>,
) -> Result<Quantized, QuantizeError> {
    let quantizer = quantizer.into();
    quantizer.validate()?;
    if rows.checked_mul(columns) != Some(values.len()) {
        let got = values.len();
        return Err(format!("expected {rows} x {columns} values, got {got}").into());
    }
    let Quantizer {
        format,
        granularity,
        margin,
        scales: rule,
        ..
    } = quantizer;
    let scheme = Fp8Scheme::from(quantizer);
    let [r, c] = granularity.block(rows, columns);
    let grid = Blocks {
        block: [r.min(rows.max(1)), c.min(columns.max(1))],
        columns,
        across: scheme.grid(rows, columns)[1],
    };
    let threads = if values.len() < SMALL {
        1
    } else {
        thread::available_parallelism().map_or(1, NonZero::get)
    };
    let amaxes = if values.is_empty() {
        // A tensor's one scale is there even so.
        vec![0.0; scheme.grid(rows, columns).iter().product()]
    } else {
        amaxes(values, rows, &grid, threads)
    };
    let scales = match granularity.scale_type() {
        ScaleType::F32 => {
            let scale = |&amax: &f32| scale_host(amax, format, margin);
            let mut scales: Vec<f32> = amaxes.iter().map(scale).collect();
            if rule == ScaleRule::LeastSquares && !values.is_empty() {
                improve(&mut scales, values, &grid, (format, threads));
            }
            HostScales::F32(scales)
        }
        ScaleType::E8M0 => {
            let scale = |&amax: &f32| e8m0_host(amax, format, margin);
            HostScales::E8M0(amaxes.iter().map(scale).collect())
        }
    };
    let factors = scales.to_f32();
    let codes = encode(values, rows, (&grid, &factors), (&quantizer, threads));
    Ok(Quantized { codes, scales })
}

/// The codes of values \[rows, columns\] by the scales of their blocks.
fn encode(
    values: &[f32],
    rows: usize,
    (grid, factors): (&Blocks, &[f32]),
    (quantizer, threads): (&Quantizer, usize),
) -> Vec<u8> {
    let mut codes = vec![0; values.len()];
    let width = grid.columns.max(1);
    let band = rows.div_ceil(threads).max(1) * width;
    in_bands(&mut codes, band, |index, codes| {
        let values = &values[index * band..];
        let first = index * (band / width);
        let lines = codes.chunks_mut(width).zip(values.chunks(width));
        for (row, (codes, values)) in lines.enumerate() {
            let factors = grid.of_row(factors, first + row);
            let blocks = codes.chunks_mut(grid.block[1]);
            let blocks = blocks.zip(values.chunks(grid.block[1])).zip(factors);
            for ((codes, values), &factor) in blocks {
                for (code, value) in codes.iter_mut().zip(values) {
                    *code = encode_host(value / factor, quantizer.format, quantizer.overflow);
                }
            }
        }
    });
    codes
}

struct Blocks {
    block: [usize; 2],
    columns: usize,
    across: usize,
}

impl Blocks {
    /// The scales of a row's blocks.
    fn of_row<'a>(&self, scales: &'a [f32], row: usize) -> &'a [f32] {
        &scales[row / self.block[0] * self.across..][..self.across]
    }
}

/// The largest finite magnitude of every block of a matrix that isn't empty.
fn amaxes(values: &[f32], rows: usize, grid: &Blocks, threads: usize) -> Vec<f32> {
    let (height, width) = (grid.block[0], grid.columns);
    if rows <= height && threads > 1 && rows > 1 {
        // One row of blocks: shared out by rows of values, so that a matrix with one scale uses all cores.
        let single = Blocks {
            block: [1, grid.block[1]],
            ..*grid
        };
        let of_rows = amaxes(values, rows, &single, threads);
        let mut amaxes = vec![0.0f32; grid.across];
        for row in of_rows.chunks(grid.across.max(1)) {
            for (amax, &other) in amaxes.iter_mut().zip(row) {
                *amax = amax.max(other);
            }
        }
        return amaxes;
    }
    let down = rows.div_ceil(height);
    let mut amaxes = vec![0.0f32; down * grid.across];
    let band = down.div_ceil(threads);
    in_bands(&mut amaxes, band * grid.across, |index, amaxes| {
        let first = index * band * height * width;
        let strips = values[first..].chunks(height * width);
        for (amaxes, strip) in amaxes.chunks_mut(grid.across).zip(strips) {
            for row in strip.chunks(width) {
                for (amax, block) in amaxes.iter_mut().zip(row.chunks(grid.block[1])) {
                    *amax = block.iter().fold(*amax, |amax, value| match value.abs() {
                        magnitude if magnitude.is_finite() => amax.max(magnitude),
                        _ => amax,
                    });
                }
            }
        }
    });
    amaxes
}

/// Scales that leave less error, from those of the largest magnitudes.
fn improve(
    scales: &mut [f32],
    values: &[f32],
    grid: &Blocks,
    (format, threads): (Fp8Format, usize),
) {
    let (width, across) = (grid.columns, grid.across);
    let strip = grid.block[0] * width;
    let band = values.len().div_ceil(strip).div_ceil(threads);
    let search = LeastSquares::new(format);
    in_bands(scales, band * across, |index, scales| {
        let strips = values[index * band * strip..].chunks(strip);
        for (scales, strip) in scales.chunks_mut(across).zip(strips) {
            search.choose(scales, strip, [width, grid.block[1]]);
        }
    });
}

/// Calls `work` with the number and the elements of every band of `out`, each on a thread of its own.
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

/// How far decoded values are from the originals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distance {
    squares: f64,
    reference: f64,
    /// Largest |difference|.
    pub(super) max: f32,
    /// Originals that are NaN or infinite, which take no part.
    pub(super) non_finite: u64,
}

impl Distance {
    pub(super) fn add(&mut self, original: f32, decoded: f32) {
        if !original.is_finite() {
            self.non_finite += 1;
            return;
        }
        let difference = f64::from(decoded) - f64::from(original);
        self.squares += difference * difference;
        self.reference += f64::from(original) * f64::from(original);
        // NaN, which no encoding of a number gives, must not vanish in a maximum.
        let size = difference.abs() as f32;
        if size > self.max || size.is_nan() {
            self.max = size;
        }
    }

    /// ‖decoded − original‖₂ / ‖original‖₂; 0 for zeros that stay zeros.
    pub(super) fn relative_rms(&self) -> f64 {
        if self.squares == 0.0 {
            0.0
        } else {
            (self.squares / self.reference).sqrt()
        }
    }
}
