//! Products with FP8 weights in plain Rust: decode a block of a panel into the cache, multiply all
//! rows by it, go on.
//!
//! 64 inner columns of a panel are 16 KiB of f32, which stay in the first-level cache for register
//! tiles of up to [`ROWS`] rows × two registers. It is compiled once for each instruction set and runs
//! on all cores, a panel to a task. Sums run over k in order with fused multiply-adds where there are
//! any, as in the kernels, and a row's result doesn't depend on the others.

use moebius_ops::fp8::{Fp8Format, LANES_PER_WORD};
use moebius_ops::grouped_gemm::fp8::{PANEL, expert_words, scale_shape};
use moebius_ops::grouped_gemm::{Fp8Weights, Problem};
use moebius_ops::scaling::ScaleType;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

/// Rows of a register tile.
const ROWS: usize = 6;
/// Words of inner columns that are decoded at once.
const WORDS: usize = 16;
/// Inner columns that are decoded at once.
const DEPTH: usize = LANES_PER_WORD * WORDS;

/// Decoded inner columns of a panel.
type Block = [[f32; PANEL]; DEPTH];

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

    /// x · Wᵀ of expert `e`: \[rows, n or 2n\], gate columns first.
    pub(in crate::ops) fn product(&self, e: usize, x: &[f32]) -> Vec<f32> {
        let Problem { n, k, .. } = *self.problem;
        let (columns, rows) = (n * self.problem.parts(), x.len() / k);
        let panels = self.problem.parts() * n.div_ceil(PANEL);
        let products: Vec<Vec<[f32; PANEL]>> = (0..panels)
            .into_par_iter()
            .map(|panel| {
                PanelProduct {
                    coded: self,
                    expert: e,
                    panel,
                    x,
                }
                .run()
            })
            .collect();
        let mut y = vec![0.0; rows * columns];
        for (panel, product) in products.iter().enumerate() {
            let (first, part, len) = self.columns_of(panel);
            for (row, values) in product.iter().enumerate() {
                let at = row * columns + part * n + first;
                y[at..at + len].copy_from_slice(&values[..len]);
            }
        }
        y
    }

    /// First column, part and columns of a panel of an expert.
    fn columns_of(&self, panel: usize) -> (usize, usize, usize) {
        let panels = self.problem.n.div_ceil(PANEL);
        let first = panel % panels * PANEL;
        (first, panel / panels, PANEL.min(self.problem.n - first))
    }

    /// x times one panel.
    #[inline(always)]
    fn panel<S: Simd>(&self, simd: S, e: usize, panel: usize, x: &[f32]) -> Vec<[f32; PANEL]> {
        let k = self.problem.k;
        let words = k.div_ceil(LANES_PER_WORD);
        let at = e * expert_words(self.problem) + panel * words * PANEL;
        let codes = &self.panels[at..at + words * PANEL];
        let mut sums = vec![[0.0; PANEL]; x.len() / k];
        let mut block: Box<Block> = Box::new([[0.0; PANEL]; DEPTH]);
        let mut scale = ScaleRow::default();
        for (b, codes) in codes.chunks(WORDS * PANEL).enumerate() {
            for (word, codes) in codes.chunks_exact(PANEL).enumerate() {
                self.scale_row(e, panel, b * WORDS + word, &mut scale);
                let block = &mut block[LANES_PER_WORD * word..][..LANES_PER_WORD];
                match self.weights.format {
                    Fp8Format::E4M3 => decode::<true>(codes, &scale.values, block),
                    Fp8Format::E5M2 => decode::<false>(codes, &scale.values, block),
                }
            }
            let first = b * DEPTH;
            let depth = DEPTH.min(k - first);
            for (tile, sums) in sums.chunks_mut(ROWS).enumerate() {
                let x = &x[tile * ROWS * k + first..];
                multiply_rows(simd, (x, k), &block[..depth], sums);
            }
        }
        sums
    }

    /// The scales of a panel's columns at inner word `word`, unless they are there.
    #[inline(always)]
    fn scale_row(&self, e: usize, panel: usize, word: usize, scale: &mut ScaleRow) {
        let (n, k) = (self.problem.n, self.problem.k);
        let rows = n * self.problem.parts();
        let granularity = self.weights.granularity;
        let [block_rows, block_columns] = granularity.block(rows, k);
        let block = LANES_PER_WORD * word / block_columns;
        if scale.block == Some(block) {
            return;
        }
        let [down, across] = scale_shape(self.problem);
        let across = match granularity.scale_type() {
            ScaleType::F32 => across,
            ScaleType::E8M0 => across * LANES_PER_WORD,
        };
        let (first, part, len) = self.columns_of(panel);
        for (lane, value) in scale.values.iter_mut().take(len).enumerate() {
            let row = (part * n + first + lane) / block_rows;
            *value = self.scales[(e * down + row) * across + block];
        }
        scale.block = Some(block);
    }
}

/// The scales of a panel's columns in a block of inner columns.
struct ScaleRow {
    block: Option<usize>,
    /// Columns past the last have codes of 0 and any scale.
    values: [f32; PANEL],
}

impl Default for ScaleRow {
    fn default() -> Self {
        Self {
            block: None,
            values: [1.0; PANEL],
        }
    }
}

/// Four inner columns of a panel from its words, by the bits: moved to an f32's exponent, a code is
/// 2^(127 − bias) too small, and a product makes subnormals right as well.
#[inline(always)]
fn decode<const E4M3: bool>(codes: &[i32], scales: &[f32; PANEL], to: &mut [[f32; PANEL]]) {
    let (format, keep, special, rest) = if E4M3 {
        (Fp8Format::E4M3, 0x07F0_0000, 0x07F0_0000, 0x7FC0_0000)
    } else {
        (Fp8Format::E5M2, 0x0FE0_0000, 0x0F80_0000, 0x7F80_0000)
    };
    let rebias = f32::from_bits((254 - format.bias()) << 23);
    for (lane, to) in to.iter_mut().enumerate() {
        let up = 8 * (3 - lane as u32);
        for ((code, scale), to) in codes.iter().zip(scales).zip(to.iter_mut()) {
            let top = (*code as u32) << up;
            let magnitude = (top >> (format.mantissa_bits() + 1)) & keep;
            let bits = (top & 0x8000_0000) | magnitude;
            let value = if magnitude >= special {
                f32::from_bits(bits | rest)
            } else {
                f32::from_bits(bits) * rebias
            };
            *to = value * scale;
        }
    }
}

/// Adds the products of up to [`ROWS`] rows, `k` apart in x, and a block.
#[inline(always)]
fn multiply_rows<S: Simd>(
    simd: S,
    (x, k): (&[f32], usize),
    block: &[[f32; PANEL]],
    sums: &mut [[f32; PANEL]],
) {
    match sums.len() {
        1 => multiply::<S, 1, 4>(simd, (x, k), block, sums),
        2 => multiply::<S, 2, 4>(simd, (x, k), block, sums),
        3 => multiply::<S, 3, 2>(simd, (x, k), block, sums),
        4 => multiply::<S, 4, 2>(simd, (x, k), block, sums),
        5 => multiply::<S, 5, 2>(simd, (x, k), block, sums),
        _ => multiply::<S, ROWS, 2>(simd, (x, k), block, sums),
    }
}

/// A tile of R rows × C registers at a time, whose sums stay in registers.
#[inline(always)]
fn multiply<S: Simd, const R: usize, const C: usize>(
    simd: S,
    (x, k): (&[f32], usize),
    block: &[[f32; PANEL]],
    sums: &mut [[f32; PANEL]],
) {
    let rows: [&[f32]; R] = std::array::from_fn(|r| &x[r * k..][..block.len()]);
    for first in (0..PANEL / S::F32_LANES).step_by(C) {
        let mut tile = [[simd.splat_f32s(0.0); C]; R];
        for (tile, sums) in tile.iter_mut().zip(sums.iter()) {
            tile.copy_from_slice(&S::as_simd_f32s(sums).0[first..first + C]);
        }
        for (kk, weights) in block.iter().enumerate() {
            let weights = &S::as_simd_f32s(weights).0[first..first + C];
            for r in 0..R {
                let a = simd.splat_f32s(rows[r][kk]);
                for c in 0..C {
                    tile[r][c] = simd.mul_add_e_f32s(a, weights[c], tile[r][c]);
                }
            }
        }
        for (tile, sums) in tile.iter().zip(sums.iter_mut()) {
            S::as_mut_simd_f32s(sums).0[first..first + C].copy_from_slice(tile);
        }
    }
}

/// A panel on its way to the vectors of this machine.
struct PanelProduct<'a> {
    coded: &'a Coded<'a>,
    expert: usize,
    panel: usize,
    x: &'a [f32],
}

impl WithSimd for PanelProduct<'_> {
    type Output = Vec<[f32; PANEL]>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        self.coded.panel(simd, self.expert, self.panel, self.x)
    }
}

impl PanelProduct<'_> {
    /// Runs what is compiled for the widest vectors there are, or that the process is held to.
    fn run(self) -> Vec<[f32; PANEL]> {
        #[cfg(target_arch = "x86_64")]
        {
            let wide = moebius_device::simd() == moebius_device::Simd::Avx512;
            if let Some(avx512) = pulp::x86::V4::try_new().filter(|_| wide) {
                return avx512.vectorize(
                    #[inline(always)]
                    || self.with_simd(avx512),
                );
            }
            if let Some(avx2) = pulp::x86::V3::try_new() {
                return avx2.vectorize(
                    #[inline(always)]
                    || self.with_simd(avx2),
                );
            }
        }
        pulp::Arch::new().dispatch(self)
    }
}
