//! FP8 weights as a factor of products in plain Rust: codes are decoded into the panel that is multiplied.

use crate::ops::host_product::{Part, Right, Scratch, Transpose};
use moebius_ops::fp8::{Fp8Format, LANES_PER_WORD};
use moebius_ops::grouped_gemm::fp8::{PANEL, expert_words, scale_shape};
use moebius_ops::grouped_gemm::{Fp8Weights, Problem};
use moebius_ops::scaling::ScaleType;

/// Columns that are decoded together.
const GROUP: usize = 8;

/// The weights of all experts.
pub(in crate::ops) struct Coded<'a> {
    problem: &'a Problem,
    weights: Fp8Weights,
    panels: &'a [i32],
    scales: &'a [f32],
}

impl<'a> Coded<'a> {
    /// Panels of words and the values of the scales; `None` for a problem without codes.
    pub(in crate::ops) fn new(
        problem: &'a Problem,
        panels: &'a [i32],
        scales: &'a [f32],
    ) -> Option<Self> {
        let weights = problem.fp8?;
        Some(Self {
            problem,
            weights,
            panels,
            scales,
        })
    }

    /// The factor of expert `e`: \[k, n or 2n\], gate columns first.
    pub(in crate::ops) fn expert(&'a self, e: usize) -> CodedExpert<'a> {
        let size = expert_words(self.problem);
        CodedExpert {
            coded: self,
            words: &self.panels[e * size..][..size],
            expert: e,
        }
    }
}

/// The weights of one expert.
pub(in crate::ops) struct CodedExpert<'a> {
    coded: &'a Coded<'a>,
    words: &'a [i32],
    expert: usize,
}

impl Right for CodedExpert<'_> {
    #[inline(always)]
    fn pack<T: Transpose>(
        &self,
        _: T,
        part: &Part,
        (panel, size): (&mut [f32], usize),
        _: &mut Scratch,
    ) {
        match self.coded.weights.format {
            Fp8Format::E4M3 => self.decode::<true>(part, panel, size),
            Fp8Format::E5M2 => self.decode::<false>(part, panel, size),
        }
    }
}

impl CodedExpert<'_> {
    #[inline(always)]
    fn decode<const E4M3: bool>(&self, part: &Part, panel: &mut [f32], size: usize) {
        let Problem { n, k, .. } = *self.coded.problem;
        let (words, panels) = (k.div_ceil(LANES_PER_WORD), n.div_ceil(PANEL));
        let mut column = part.across.start;
        while column < part.across.end {
            let (of_part, within) = (column / n, column % n);
            // Neighbours in the same panel.
            let count = (part.across.end - column)
                .min(GROUP - within % GROUP)
                .min(n - within);
            let at = (of_part * panels + within / PANEL) * words * PANEL;
            let codes = &self.words[at..][..words * PANEL];
            let group = within % PANEL / GROUP * GROUP;
            let lanes = within % GROUP..within % GROUP + count;
            let to = (&mut panel[column - part.across.start..], size);
            self.decode_group::<E4M3>((codes, group), (of_part, within), lanes, part, to);
            column += count;
        }
    }

    /// The inner values of a part, of some lanes of a group of columns.
    #[inline(always)]
    fn decode_group<const E4M3: bool>(
        &self,
        (codes, group): (&[i32], usize),
        (of_part, within): (usize, usize),
        lanes: std::ops::Range<usize>,
        part: &Part,
        (to, size): (&mut [f32], usize),
    ) {
        let rows = self.coded.problem.n * self.coded.problem.parts();
        let granularity = self.coded.weights.granularity;
        let [_, block_columns] = granularity.block(rows, self.coded.problem.k);
        let mut kk = part.inner.start;
        while kk < part.inner.end {
            let block = kk / block_columns;
            let end = ((block + 1) * block_columns).min(part.inner.end);
            let mut scales = [1.0; GROUP];
            for (lane, scale) in scales[lanes.clone()].iter_mut().enumerate() {
                *scale = self.scale(of_part, within + lane, block);
            }
            let words = kk / LANES_PER_WORD..end.div_ceil(LANES_PER_WORD);
            let codes = &codes[words.start * PANEL..words.end * PANEL];
            let to = &mut to[(kk - part.inner.start) * size..];
            let place = (to, size, lanes.clone());
            decode_words::<E4M3>((codes, group), &scales, end - kk, place);
            kk = end;
        }
    }

    fn scale(&self, of_part: usize, column: usize, block: usize) -> f32 {
        let Problem { n, k, .. } = *self.coded.problem;
        let granularity = self.coded.weights.granularity;
        let [block_rows, _] = granularity.block(n * self.coded.problem.parts(), k);
        let [down, across] = scale_shape(self.coded.problem);
        let across = match granularity.scale_type() {
            ScaleType::F32 => across,
            ScaleType::E8M0 => across * LANES_PER_WORD,
        };
        let row = (of_part * n + column) / block_rows;
        self.coded.scales[(self.expert * down + row) * across + block]
    }
}

/// `depth` inner values of eight columns, from words [`PANEL`] apart, to some lanes of rows `size` apart.
#[inline(always)]
fn decode_words<const E4M3: bool>(
    (codes, group): (&[i32], usize),
    scales: &[f32; GROUP],
    depth: usize,
    (to, size, lanes): (&mut [f32], usize, std::ops::Range<usize>),
) {
    let mut factors = [0.0; GROUP];
    let mut exact = true;
    for (factor, scale) in factors.iter_mut().zip(scales) {
        *factor = scale * rebias::<E4M3>();
        exact &= factor.is_finite() || !scale.is_finite();
    }
    let mut four = [[0.0; GROUP]; LANES_PER_WORD];
    let rows = to.chunks_mut(LANES_PER_WORD * size);
    for (word, (codes, to)) in codes.chunks_exact(PANEL).zip(rows).enumerate() {
        let codes = &codes[group..][..GROUP];
        if exact && !any_special::<E4M3>(codes) {
            decode::<E4M3>(codes, &factors, &mut four);
        } else {
            decode_any::<E4M3>(codes, scales, &mut four);
        }
        let count = (depth - LANES_PER_WORD * word).min(LANES_PER_WORD);
        for (row, values) in to.chunks_mut(size).zip(&four).take(count) {
            match lanes.len() {
                GROUP => row[..GROUP].copy_from_slice(values),
                len => row[..len].copy_from_slice(&values[lanes.clone()]),
            }
        }
    }
}

/// What a code's bits, moved to an f32's exponent, are too small by.
#[inline(always)]
fn rebias<const E4M3: bool>() -> f32 {
    let format = if E4M3 {
        Fp8Format::E4M3
    } else {
        Fp8Format::E5M2
    };
    f32::from_bits((254 - format.bias()) << 23)
}

/// Whether a code is NaN or infinite: its exponent, and with E4M3 its mantissa, are all ones.
#[inline(always)]
fn any_special<const E4M3: bool>(codes: &[i32]) -> bool {
    let (ones, one) = if E4M3 {
        (0x7F7F_7F7F_u32, 0x0101_0101_u32)
    } else {
        (0x7C7C_7C7C, 0x0404_0404)
    };
    let mut any = 0;
    for word in codes {
        any |= (*word as u32 & ones) + one;
    }
    any & 0x8080_8080 != 0
}

/// Four inner values of eight columns without special codes: bits · (scale · 2^(127 − bias)) is rounded once, like code · scale.
#[inline(always)]
fn decode<const E4M3: bool>(
    codes: &[i32],
    factors: &[f32; GROUP],
    four: &mut [[f32; GROUP]; LANES_PER_WORD],
) {
    let (down, keep) = if E4M3 {
        (4, 0x87F0_0000)
    } else {
        (3, 0x8FE0_0000)
    };
    for (lane, values) in four.iter_mut().enumerate() {
        let up = 8 * (3 - lane as u32);
        for ((code, factor), value) in codes.iter().zip(factors).zip(values) {
            let bits = ((code << up) >> down) as u32 & keep;
            *value = f32::from_bits(bits) * factor;
        }
    }
}

/// The same of any codes and scales.
#[inline(always)]
fn decode_any<const E4M3: bool>(
    codes: &[i32],
    scales: &[f32; GROUP],
    four: &mut [[f32; GROUP]; LANES_PER_WORD],
) {
    let (special, rest) = if E4M3 {
        (0x07F0_0000, 0x7FC0_0000)
    } else {
        (0x0F80_0000, 0x7F80_0000)
    };
    let (down, keep) = if E4M3 {
        (4, 0x87F0_0000)
    } else {
        (3, 0x8FE0_0000)
    };
    for (lane, values) in four.iter_mut().enumerate() {
        let up = 8 * (3 - lane as u32);
        for ((code, scale), value) in codes.iter().zip(scales).zip(values) {
            let bits = ((code << up) >> down) as u32 & keep;
            let decoded = if bits & 0x7FFF_FFFF >= special {
                f32::from_bits(bits | rest)
            } else {
                f32::from_bits(bits) * rebias::<E4M3>()
            };
            *value = decoded * scale;
        }
    }
}
