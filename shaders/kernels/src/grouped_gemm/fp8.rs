//! How CubeCL computes [`moebius_ops::grouped_gemm::fp8`].

use super::{KERNEL, Problem, Sizes, WeightLayout};
use crate::fp8::{Conversion, decode_bits, decode_four};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::fp8::{Fp8Format, LANES_PER_WORD};
use moebius_ops::grouped_gemm::fp8::{PANEL, scale_words};
use moebius_ops::scaling::{Fp8Scheme, Granularity, MX_BLOCK};

/// Checks that the kernels can read the problem's weights on `device`.
pub(super) fn supported(problem: &Problem, device: &Capability) -> Result<(), Unsupported> {
    let Some(weights) = problem.stored.fp8() else {
        return Ok(());
    };
    let [_, columns] = problem.weight_rows();
    let whole = weights.check(columns);
    whole.map_err(|error| Unsupported::new(KERNEL, error.expected, error.got))?;
    crate::fits_binding(KERNEL, scale_words(problem) * 4, device)
}

/// The number of words of a row of weights, of `words` words, that share a scale.
#[cube]
pub(super) fn block_words(words: usize, #[comptime] granularity: Granularity) -> usize {
    match comptime!(granularity) {
        Granularity::Tensor | Granularity::Row => words,
        Granularity::Block { columns, .. } => comptime!(columns.div_ceil(LANES_PER_WORD)).runtime(),
        Granularity::Mx => comptime!(MX_BLOCK / LANES_PER_WORD).runtime(),
    }
}

/// The scale of a row of an expert's matrix in block `across`.
#[cube]
pub(super) fn scale_at(
    scales: &[u32],
    sizes: &Sizes,
    expert: usize,
    row: usize,
    block: usize,
    #[comptime] granularity: Granularity,
) -> f32 {
    let first = expert * sizes.scales_down;
    match comptime!(granularity) {
        Granularity::Tensor => f32::reinterpret(scales[expert]),
        Granularity::Row => f32::reinterpret(scales[first + row]),
        Granularity::Block { rows, .. } => {
            f32::reinterpret(scales[(first + row / rows) * sizes.scales_across + block])
        }
        Granularity::Mx => {
            let word = scales[(first + row) * sizes.scales_across + block / 4];
            let byte = (word >> (8 * (block % 4) as u32)) & 0xFF;
            // 2⁻¹²⁷ is subnormal; 255 is NaN.
            let bits = select(byte == 0, 0x0040_0000u32, byte << 23);
            f32::reinterpret(select(byte == 255, 0x7FC0_0000u32, bits))
        }
    }
}

/// The numbers by which the codes of an expert are found. A line is a row of the weights as they lie in memory: an output column of weights
/// \[n, k\], or an inner column of weights \[k, n\].
#[derive(CubeType, Clone, Copy)]
pub(super) struct Panels {
    expert: usize,
    /// Lines of a part.
    lines: usize,
    /// Words per line, and words that share a scale.
    words: usize,
    block: usize,
    /// The index of the expert's first matrix in the slab.
    in_slab: usize,
    /// Panels per matrix.
    of_part: usize,
}

#[cube]
pub(super) fn panels_of(
    sizes: &Sizes,
    expert: usize,
    #[comptime] parts: usize,
    #[comptime] layout: WeightLayout,
    #[comptime] granularity: Granularity,
) -> Panels {
    let (lines, width) = match comptime!(layout) {
        WeightLayout::OutIn => (sizes.n, sizes.k),
        WeightLayout::InOut => (sizes.k, sizes.n),
    };
    let words = width.div_ceil(4);
    let block = block_words(words, granularity);
    Panels {
        expert,
        lines,
        words,
        block,
        in_slab: (expert - sizes.slab_first) * parts,
        of_part: lines.div_ceil(PANEL),
    }
}

/// A word of a line of a part of an expert, and its scale; neither may lie past the ends.
#[cube]
fn code_and_scale(
    codes: &[u32],
    scales: &[u32],
    sizes: &Sizes,
    panels: &Panels,
    part: usize,
    line: usize,
    word: usize,
    #[comptime] granularity: Granularity,
) -> (u32, f32) {
    let panel = (panels.in_slab + part) * panels.of_part + line / PANEL;
    let code = codes[(panel * panels.words + word) * PANEL + line % PANEL];
    let (row, block) = (part * panels.lines + line, word / panels.block);
    let scale = scale_at(scales, sizes, panels.expert, row, block, granularity);
    (code, scale)
}

/// The four values of a word of a line of a part of an expert, times their scale; 0 past the ends.
#[cube]
pub(super) fn four_of_line(
    codes: &[u32],
    scales: &[u32],
    sizes: &Sizes,
    panels: &Panels,
    part: usize,
    line: usize,
    word: usize,
    #[comptime] fp8: Fp8Scheme,
    #[comptime] conversion: Conversion,
) -> Vector<f32, Const<4>> {
    let mut four = Vector::<f32, Const<4>>::new(0.0f32);
    if word < panels.words && line < panels.lines {
        let of = fp8.granularity;
        let (code, scale) = code_and_scale(codes, scales, sizes, panels, part, line, word, of);
        four = decode_four(code, fp8.format, conversion) * Vector::new(scale);
    }
    four
}

/// The value of a line of a part of an expert at `column`, times its scale; neither may lie past the ends.
#[cube]
pub(super) fn one_of_line(
    codes: &[u32],
    scales: &[u32],
    sizes: &Sizes,
    panels: &Panels,
    part: usize,
    line: usize,
    column: usize,
    #[comptime] fp8: Fp8Scheme,
) -> f32 {
    let of = fp8.granularity;
    let (word, scale) = code_and_scale(codes, scales, sizes, panels, part, line, column / 4, of);
    let code = (word >> (8 * (column % 4) as u32)) & 0xFF;
    f32::reinterpret(decode_bits(code, fp8.format)) * scale
}

/// The values of four lines of an expert's weights \[k, n\] from `line` on at `column`, times their scales; 0 past the ends.
#[cube]
pub(super) fn four_of_lines(
    codes: &[u32],
    scales: &[u32],
    sizes: &Sizes,
    panels: &Panels,
    line: usize,
    column: usize,
    #[comptime] fp8: Fp8Scheme,
) -> Vector<f32, Const<4>> {
    let mut four = Vector::<f32, Const<4>>::new(0.0f32);
    let part = 0usize.runtime();
    #[unroll]
    for lane in 0..4usize {
        if line + lane < panels.lines && column < sizes.n {
            let one = one_of_line(codes, scales, sizes, panels, part, line + lane, column, fp8);
            four.insert(lane, one);
        }
    }
    four
}

/// A word of a line of a part of an expert, and its scale, for kernels that read several before they decode any; 0 past the ends.
#[cube]
pub(super) fn word_of_line(
    codes: &[u32],
    scales: &[u32],
    sizes: &Sizes,
    panels: &Panels,
    part: usize,
    line: usize,
    word: usize,
    #[comptime] of: Granularity,
) -> (u32, f32) {
    let mut code = 0u32;
    let mut scale = 0.0f32;
    if word < panels.words && line < panels.lines {
        let found = code_and_scale(codes, scales, sizes, panels, part, line, word, of);
        code = found.0;
        scale = found.1;
    }
    (code, scale)
}

/// Decodes code `lane` of every word, for devices that keep subnormals.
///
/// The code's bits, moved to the exponent of an f32, make a number that is too small by a factor of 2^(127 − bias). One exact
/// product corrects it, also for subnormal codes.
#[cube]
pub(crate) fn decode_lane<N: Size>(
    words: Vector<u32, N>,
    #[comptime] lane: usize,
    #[comptime] format: Fp8Format,
) -> Vector<f32, N> {
    let (magnitude, bits) = lane_bits::<N>(words, lane, format);
    let value = Vector::<f32, N>::reinterpret(bits) * Vector::new(comptime!(rebias(format)));
    // The exponent of infinities and NaN in E5M2; NaN in E4M3.
    let (special, rest) = comptime!(match format {
        Fp8Format::E4M3 => (0x07F0_0000u32, 0x7FC0_0000u32),
        Fp8Format::E5M2 => (0x0F80_0000u32, 0x7F80_0000u32),
    });
    let is_special = magnitude.greater_equal(&Vector::new(special));
    let all = bits | Vector::new(rest);
    select_many(is_special, Vector::<f32, N>::reinterpret(all), value)
}

/// The factor 2^(127 − bias) that a code's bits lack when moved to the exponent of an f32.
pub(super) fn rebias(format: Fp8Format) -> f32 {
    f32::from_bits((254 - format.bias()) << 23)
}

/// Like [`decode_lane`] for codes that are neither NaN nor infinite, but without the factor [`rebias`].
#[cube]
pub(super) fn plain_lane<N: Size>(
    words: Vector<u32, N>,
    #[comptime] lane: usize,
    #[comptime] format: Fp8Format,
) -> Vector<f32, N> {
    let (_, bits) = lane_bits::<N>(words, lane, format);
    Vector::reinterpret(bits)
}

/// The bits of code `lane` of every word, moved to the exponent of an f32: without and with the sign. CubeCL's CPU compiler
/// shifts vectors of signed integers like unsigned ones, so the sign is moved separately.
#[cube]
fn lane_bits<N: Size>(
    words: Vector<u32, N>,
    #[comptime] lane: usize,
    #[comptime] format: Fp8Format,
) -> (Vector<u32, N>, Vector<u32, N>) {
    let shift = comptime!(8 * (3 - lane as u32));
    // The shift from the top byte to an exponent that ends at bit 23.
    let down = comptime!(format.mantissa_bits() + 1);
    let keep = comptime!(0x7Fu32 << (24 - down));
    let mut top = words;
    if comptime!(shift > 0) {
        top = words << Vector::new(shift);
    }
    let magnitude = (top >> Vector::new(down)) & Vector::new(keep);
    (magnitude, (top & Vector::new(0x8000_0000u32)) | magnitude)
}

/// Nonzero bits in every word that has a NaN or infinite code: a carry out of the exponent, or in E4M3 out of the mantissa.
#[cube]
pub(super) fn special_codes<N: Size>(
    words: Vector<u32, N>,
    #[comptime] format: Fp8Format,
) -> Vector<u32, N> {
    let least = comptime!(match format {
        Fp8Format::E4M3 => 0x7Fu32,
        Fp8Format::E5M2 => 0x7C,
    });
    let ones = comptime!(least * 0x0101_0101);
    let one = comptime!((least & least.wrapping_neg()) * 0x0101_0101);
    ((words & Vector::new(ones)) + Vector::new(one)) & Vector::new(0x8080_8080u32)
}

/// A nonzero bit for every scale that isn't finite, or wouldn't be after a product with [`rebias`].
#[cube]
pub(super) fn beyond<N: Size>(
    scales: Vector<f32, N>,
    #[comptime] format: Fp8Format,
) -> Vector<u32, N> {
    let factors = scales * Vector::new(comptime!(rebias(format)));
    let magnitudes = Vector::<u32, N>::reinterpret(factors) & Vector::new(0x7FFF_FFFFu32);
    (magnitudes + Vector::new(0x0080_0000u32)) & Vector::new(0x8000_0000u32)
}
