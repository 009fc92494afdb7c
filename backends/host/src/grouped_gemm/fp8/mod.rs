//! Products with FP8 weights.

mod decode;

use super::{coded, coded_backward};
use crate::fp8_codes::{CODES, Format};
use crate::permute::Segments;
use crate::product::{Factor, Part, Right, Run, Scratch, WIDEST, prefetch};
use crate::quantize::Scales;
use crate::values::Matrices;
use crate::vector::Transpose;
use decode::{MOST, OfPanel, decode, multiply_few};
use moebius_ops::fp8::LANES_PER_WORD;
use moebius_ops::grouped_gemm::Problem;
use moebius_ops::grouped_gemm::fp8::{PANEL, expert_words, scale_shape};
use moebius_ops::scaling::{Fp8Scheme, ScaleType, e8m0_value};
use pulp::Simd;
use std::borrow::Cow;
use std::ops::Range;

/// The weights of all experts as codes.
#[derive(Clone, Debug)]
pub struct Weights<'a> {
    /// The words of codes, in panels.
    pub codes: &'a [i32],
    /// The scales of the codes.
    pub scales: Scales<'a>,
    /// The biases, \[E, n or 2n\].
    pub bias: Option<&'a [f32]>,
}

/// Computes \[R,n\] from x \[T,k\] or \[R,k\], for rows sorted as `segments` says, or without a sort for all rows of a single expert.
pub fn linear(
    problem: &Problem,
    segments: Option<&Segments>,
    x: Matrices<'_>,
    weights: &Weights<'_>,
) -> Vec<f32> {
    let scales = values(&weights.scales);
    let right = |e| Coded::of(problem, (weights.codes, &scales), e);
    coded(problem, segments, (x, weights.bias), right)
}

/// Computes the gradients that are needed of a plain product of sorted rows, from that of its result \[R,n\]: of x \[R,k\], and of the biases
/// \[E,n\].
pub fn linear_backward(
    problem: &Problem,
    segments: &Segments,
    needs: [bool; 2],
    dy: &[f32],
    weights: &Weights<'_>,
) -> [Option<Vec<f32>>; 2] {
    let scales = values(&weights.scales);
    let right = |e| Turned(Coded::of(problem, (weights.codes, &scales), e));
    coded_backward(problem, segments, needs, dy, right)
}

/// Returns the values of scales. f32 scales are borrowed, because a copy would take longer than a product with one row. A row of E8M0
/// scales includes the padding of its words.
fn values<'a>(scales: &'a Scales<'_>) -> Cow<'a, [f32]> {
    match scales {
        Scales::F32(scales) => Cow::Borrowed(scales),
        Scales::E8M0(words) => {
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            bytes.map(e8m0_value).collect()
        }
    }
}

/// The number of inner values whose codes stay in the first-level cache while a panel's columns are computed in turn; a multiple of
/// [`CODES`].
const DEPTH: usize = 256;

/// The number of neighbouring blocks whose scales are read together, because they are neighbours in memory while the scales of the next
/// column are far away.
const BLOCKS: usize = 8;

/// The weights of one expert as a factor \[k, n or 2n\] with the gate's columns first; codes are decoded into the panels that are
/// multiplied.
struct Coded<'a> {
    problem: &'a Problem,
    scheme: Fp8Scheme,
    expert: usize,
    /// Panels of words of this expert.
    words: &'a [i32],
    /// The values of the scales of all experts.
    all_scales: &'a [f32],
}

impl<'a> Coded<'a> {
    /// The weights of expert `expert` from the panels of words and the scales of all experts.
    fn of(problem: &'a Problem, (panels, scales): (&'a [i32], &'a [f32]), expert: usize) -> Self {
        let Some(scheme) = problem.stored.fp8() else {
            unreachable!("a call with FP8 weights has a problem with codes");
        };
        let size = expert_words(problem);
        Self {
            problem,
            scheme,
            expert,
            words: &panels[expert * size..][..size],
            all_scales: scales,
        }
    }
}

impl Right for Coded<'_> {
    fn together(&self, _: usize) -> usize {
        MOST
    }

    #[inline(always)]
    fn pack<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        part: &Part,
        (panels, size): (&mut [f32], usize),
        _: &mut Scratch,
    ) {
        let panel = part.inner.len() * size;
        let columns = part.across.clone();
        for first in columns.clone().step_by(MOST) {
            let of_panel = first..(first + MOST).min(columns.end);
            let to = &mut panels[(first - columns.start) / size * panel..];
            self.decode_some(vectors, &part.inner, of_panel, (to, size));
        }
    }

    /// A tile of 8 rows would leave no registers to decode in on AVX2.
    fn tile<S: Simd>(&self) -> usize {
        match S::F32_LANES {
            16.. => 8,
            _ => 4,
        }
    }

    #[inline(always)]
    fn multiply<S: Simd, T: Transpose, const N: usize>(
        &self,
        vectors: (S, T),
        Part { inner, across }: &Part,
        left: &[[f32; N]],
        sums: &mut [[f32; WIDEST]; N],
    ) {
        let n = self.problem.n;
        let mut first = across.start;
        while first < across.end {
            let within = first % n;
            let at = within % PANEL;
            let len = (across.end - first).min(PANEL - at).min(n - within);
            let of_sums = first - across.start;
            let mut of_panel = [[0.0; PANEL]; N];
            for (to, sums) in of_panel.iter_mut().zip(&*sums) {
                to[at..][..len].copy_from_slice(&sums[of_sums..][..len]);
            }
            self.multiply_panel(vectors, inner, first..first + len, left, &mut of_panel);
            for (sums, of_panel) in sums.iter_mut().zip(&of_panel) {
                sums[of_sums..][..len].copy_from_slice(&of_panel[at..][..len]);
            }
            first += len;
        }
    }
}

/// The weights of one expert as a factor \[n, k\], by which gradients of rows are multiplied: those of a [`Coded`], decoded a few columns at a
/// time, and then packed as dense weights are.
struct Turned<'a>(Coded<'a>);

impl Right for Turned<'_> {
    fn together(&self, _: usize) -> usize {
        WIDEST
    }

    #[inline(always)]
    fn pack<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        Part { inner, across }: &Part,
        panels: (&mut [f32], usize),
        scratch: &mut Scratch,
    ) {
        let (depth, lines, size) = (inner.len(), across.len(), panels.1);
        let mut decoded = std::mem::take(&mut scratch.decoded);
        decoded.resize(lines * (depth + MOST), 0.0);
        let (turned, some) = decoded.split_at_mut(lines * depth);
        for first in inner.clone().step_by(MOST) {
            let rows = first..(first + MOST).min(inner.end);
            self.0
                .decode_some(vectors, across, rows.clone(), (&mut *some, size));
            // Each group of rows is a panel, with a line for each of their values.
            let groups = rows.step_by(size).zip(some.chunks(lines * size));
            for (row, group) in groups {
                let at = row - inner.start;
                let count = size.min(depth - at);
                for (line, values) in group.chunks_exact(size).enumerate() {
                    turned[line * depth + at..][..count].copy_from_slice(&values[..count]);
                }
            }
        }
        let part = Part {
            inner: 0..depth,
            across: 0..lines,
        };
        let dense = Factor::of_slice(turned, depth, Run::Along);
        Right::pack(&dense, vectors, &part, panels, scratch);
        scratch.decoded = decoded;
    }

    fn tile<S: Simd>(&self) -> usize {
        0
    }

    #[inline(always)]
    fn multiply<S: Simd, T: Transpose, const N: usize>(
        &self,
        _: (S, T),
        _: &Part,
        _: &[[f32; N]],
        _: &mut [[f32; WIDEST]; N],
    ) {
        unreachable!("a factor without a tile is packed");
    }
}

impl Coded<'_> {
    /// Decodes some inner values of at most [`MOST`] columns into panels of `size` columns.
    #[inline(always)]
    fn decode_some<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        inner: &Range<usize>,
        columns: Range<usize>,
        (to, size): (&mut [f32], usize),
    ) {
        let n = self.problem.n;
        // True if the columns are whole registers of neighbours in one panel of words.
        let within = columns.start % n;
        let neighbours = within % PANEL + columns.len() <= PANEL.min(n - within / PANEL * PANEL);
        if neighbours && columns.len().is_multiple_of(size) {
            self.decode(vectors, inner, columns, (to, inner.len() * size));
        } else {
            self.decode_each(inner, columns, (to, size));
        }
    }

    /// Decodes some inner values of columns that lie in one panel of words.
    #[inline(always)]
    fn decode<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        inner: &Range<usize>,
        columns: Range<usize>,
        (to, panel): (&mut [f32], usize),
    ) {
        let size = 2 * S::F32_LANES;
        let words = self.words_of(columns.start);
        let [_, block_columns] = self.block();
        let of_columns = self.scales(columns.start);
        let mut scales = [1.0; MOST];
        let scales = &mut scales[..columns.len()];
        let mut kk = inner.start;
        let mut block = kk / block_columns;
        while kk < inner.end {
            let end = ((block + 1) * block_columns).min(inner.end);
            of_columns.read(block, scales);
            block += 1;
            let to = &mut to[(kk - inner.start) * size..];
            let words = &words[kk / CODES * PANEL..];
            let count = (end - kk) / CODES;
            if count > 0 {
                let words = &words[..(count - 1) * PANEL + columns.len()];
                decode(
                    vectors,
                    self.format(),
                    (words, PANEL),
                    scales,
                    (&mut *to, panel),
                );
            }
            // These values are in a last word that isn't whole.
            for row in count * CODES..end - kk {
                for (column, scale) in scales.iter().enumerate() {
                    let value = self
                        .format()
                        .value(words[count * PANEL + column], row % CODES);
                    to[column / size * panel + row * size + column % size] = value * scale;
                }
            }
            kk = end;
        }
    }

    /// Adds the products with columns of one panel of words to the panel's sums.
    #[inline(always)]
    fn multiply_panel<S: Simd, T: Transpose, const N: usize>(
        &self,
        vectors: (S, T),
        inner: &Range<usize>,
        columns: Range<usize>,
        left: &[[f32; N]],
        sums: &mut [[f32; PANEL]; N],
    ) {
        let at = columns.start % self.problem.n % PANEL;
        let words = &self.words_of(columns.start - at)[inner.start / CODES * PANEL..];
        let (words, _) = words.as_chunks::<PANEL>();
        let [_, block_columns] = self.block();
        let of_columns = self.scales(columns.start);
        of_columns.prefetch_next(columns.len());
        let columns = at..at + columns.len();
        let mut scales = [[0.0; PANEL]; BLOCKS];
        let mut kk = inner.start;
        while kk < inner.end {
            let block = kk / block_columns;
            // Sums stay in registers over several blocks; the rest of one is a part by itself.
            let alone = block_columns >= DEPTH || !kk.is_multiple_of(block_columns);
            let count = if alone {
                1
            } else {
                (DEPTH / block_columns).min(BLOCKS)
            };
            let end = ((block + count) * block_columns).min(inner.end);
            let end = if alone { end.min(kk + DEPTH) } else { end };
            let blocks = block..end.div_ceil(block_columns);
            of_columns.read_blocks(vectors.1, blocks, (&mut scales, &columns));
            let part = OfPanel {
                format: self.format(),
                words: &words[(kk - inner.start) / CODES..],
                columns: columns.clone(),
                scales: &scales,
                block: if alone { DEPTH } else { block_columns },
            };
            let left = &left[kk - inner.start..end - inner.start];
            multiply_few(vectors, &part, left, sums);
            kk = end;
        }
    }

    /// Decodes some inner values of any columns.
    fn decode_each(
        &self,
        inner: &Range<usize>,
        columns: Range<usize>,
        (to, size): (&mut [f32], usize),
    ) {
        let [_, block_columns] = self.block();
        let first = columns.start;
        for column in columns {
            let words = self.words_of(column);
            let at = (column - first) / size * inner.len() * size + (column - first) % size;
            for (i, kk) in inner.clone().enumerate() {
                let value = self.format().value(words[kk / CODES * PANEL], kk % CODES);
                to[at + i * size] = value * self.scale(column, kk / block_columns);
            }
        }
    }

    fn format(&self) -> Format {
        Format::of(self.scheme.format)
    }

    /// The numbers of rows and columns that share a scale.
    fn block(&self) -> [usize; 2] {
        let Problem { n, k, .. } = *self.problem;
        let rows = n * self.problem.parts();
        self.scheme.granularity.block(rows, k)
    }

    /// Returns the words of a column, each [`PANEL`] after the one before.
    fn words_of(&self, column: usize) -> &[i32] {
        let Problem { n, k, .. } = *self.problem;
        let (of_part, within) = (column / n, column % n);
        let panel = of_part * n.div_ceil(PANEL) + within / PANEL;
        &self.words[panel * k.div_ceil(CODES) * PANEL + within % PANEL..]
    }

    fn scale(&self, column: usize, block: usize) -> f32 {
        let mut scale = [0.0];
        self.scales(column).read(block, &mut scale);
        scale[0]
    }

    /// Returns the scales of neighbouring columns from `first` on.
    fn scales(&self, first: usize) -> ColumnScales<'_> {
        let granularity = self.scheme.granularity;
        let [block_rows, _] = self.block();
        let [down, across] = scale_shape(self.problem);
        let across = match granularity.scale_type() {
            ScaleType::F32 => across,
            ScaleType::E8M0 => across * LANES_PER_WORD,
        };
        let row = self.expert * down + first / block_rows;
        ColumnScales {
            from: &self.all_scales[row * across..],
            across,
            block_rows,
            left: block_rows - first % block_rows,
        }
    }
}

/// The scales of neighbouring columns. Their position is computed once for many blocks, because divisions take longer than the products of
/// 32 values.
struct ColumnScales<'a> {
    /// The scales from the row of the first column on.
    from: &'a [f32],
    /// The number of scales in a row.
    across: usize,
    /// The number of columns that share a row of scales.
    block_rows: usize,
    /// The number of columns until the next row of scales.
    left: usize,
}

impl ColumnScales<'_> {
    /// Prefetches the scales of as many columns after the first `columns` ones.
    #[inline(always)]
    fn prefetch_next(&self, columns: usize) {
        let some = columns.div_ceil(self.block_rows) * self.across;
        let next = self.from.get(some..).unwrap_or_default();
        prefetch(&next[..some.min(next.len())]);
    }

    /// Reads the scales of neighbouring blocks for columns of a panel.
    #[inline(always)]
    fn read_blocks<T: Transpose>(
        &self,
        transpose: T,
        blocks: Range<usize>,
        (scales, columns): (&mut [[f32; PANEL]; BLOCKS], &Range<usize>),
    ) {
        let mut done = 0;
        if self.block_rows == 1 && blocks.len() == BLOCKS {
            for first in (0..columns.len() / BLOCKS * BLOCKS).step_by(BLOCKS) {
                let row =
                    |i: usize| self.from[(first + i) * self.across + blocks.start..].first_chunk();
                let rows = std::array::from_fn(|i| {
                    row(i).unwrap_or_else(|| unreachable!("the row has all of these blocks"))
                });
                let to = &mut scales.as_flattened_mut()[columns.start + first..];
                transpose.square(rows, to, PANEL);
                done = first + BLOCKS;
            }
        }
        if done == columns.len() {
            return;
        }
        for (block, scales) in blocks.zip(scales) {
            self.read(block, &mut scales[columns.clone()]);
        }
    }

    /// Reads the scales of a block of inner values.
    #[inline(always)]
    fn read(&self, block: usize, scales: &mut [f32]) {
        let rows = self.from[block..].iter().step_by(self.across);
        if self.block_rows == 1 {
            for (scale, row) in scales.iter_mut().zip(rows) {
                *scale = *row;
            }
            return;
        }
        let mut left = self.left;
        let mut scales = &mut scales[..];
        for row in rows {
            let (of_row, others) = scales.split_at_mut(left.min(scales.len()));
            of_row.fill(*row);
            if others.is_empty() {
                return;
            }
            (scales, left) = (others, self.block_rows);
        }
    }
}
