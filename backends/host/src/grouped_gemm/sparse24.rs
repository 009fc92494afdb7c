//! Weights with 2:4 structured sparsity as a factor: groups are put together in a cache, a few rows at a time, and then multiplied as
//! dense weights are, in the same order.

use crate::product::{Factor, Part, Right, Run, Scratch, WIDEST};
use crate::values::{Matrices, Stored, Values};
use crate::vector::Transpose;
use moebius_ops::grouped_gemm::sparse24::{GROUP, GROUPS_PER_WORD, place_words, places_of};
use pulp::Simd;

/// Rows of weights that a product with few rows puts together at once: as many as a [`Factor`] multiplies together.
const COLUMNS: usize = 16;

/// Weights of each of them, so that all fill half of a first-level cache; a multiple of the eight that a [`Factor`] transposes.
const DEPTH: usize = 256;

/// The weights of one expert, or their transpose.
#[derive(Clone, Copy)]
pub(super) struct Sparse<'a> {
    /// The kept weights of all experts.
    kept: Values<'a>,
    /// The words of their places.
    places: &'a [i32],
    /// The number of weights in a row.
    width: usize,
    /// The expert's first row.
    first: usize,
    run: Run,
}

impl<'a> Sparse<'a> {
    /// The weights of expert `e` of a stack of kept weights \[E, n, k/2\]; their lines run as `run` says.
    pub(super) fn stacked((kept, places): (Matrices<'a>, &'a [i32]), e: usize, run: Run) -> Self {
        Self {
            kept: kept.values,
            places,
            width: 2 * kept.columns,
            first: e * kept.rows,
            run,
        }
    }

    /// Writes the weights of row `row` from `column` on; both ends are those of groups.
    #[inline(always)]
    fn decode(&self, row: usize, column: usize, to: &mut [f32]) {
        let row = self.first + row;
        let words = place_words(self.width);
        let places = &self.places[row * words..][..words];
        let (half, first) = (self.width / 2, column / GROUP);
        let kept = row * half..(row + 1) * half;
        match self.kept {
            Values::F32(values) => decode(&values[kept], places, first, to),
            Values::F16(values) => decode(&values[kept], places, first, to),
            Values::Bf16(values) => decode(&values[kept], places, first, to),
        }
    }
}

/// Writes the groups of a row from group `first` on.
#[inline(always)]
fn decode<E: Stored>(kept: &[E], places: &[i32], first: usize, to: &mut [f32]) {
    let pairs = &kept.as_chunks::<2>().0[first..];
    let groups = to.as_chunks_mut::<GROUP>().0.iter_mut();
    for (at, (group, pair)) in groups.zip(pairs).enumerate() {
        let word = places[(first + at) / GROUPS_PER_WORD] as u32;
        let [one, other] = places_of(word, first + at);
        *group = [0.0; GROUP];
        group[other] = pair[1].f32();
        group[one] = pair[0].f32();
    }
}

impl Right for Sparse<'_> {
    fn together(&self, width: usize) -> usize {
        match self.run {
            Run::Along => width,
            Run::Across => WIDEST,
        }
    }

    #[inline(always)]
    fn pack<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        Part { inner, across }: &Part,
        panels: (&mut [f32], usize),
        scratch: &mut Scratch,
    ) {
        let (rows, columns) = match self.run {
            Run::Along => (across, inner),
            Run::Across => (inner, across),
        };
        let mut decoded = std::mem::take(&mut scratch.decoded);
        decoded.resize(rows.len() * columns.len(), 0.0);
        for (row, to) in rows.clone().zip(decoded.chunks_exact_mut(columns.len())) {
            self.decode(row, columns.start, to);
        }
        let part = Part {
            inner: 0..inner.len(),
            across: 0..across.len(),
        };
        let dense = Factor::of_slice(&decoded, columns.len(), self.run);
        Right::pack(&dense, vectors, &part, panels, scratch);
        scratch.decoded = decoded;
    }

    fn tile(&self) -> usize {
        match self.run {
            Run::Along => 8,
            Run::Across => 0,
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
        let mut decoded = [0.0; COLUMNS * DEPTH];
        for first in across.clone().step_by(COLUMNS) {
            let count = COLUMNS.min(across.end - first);
            let at = first - across.start;
            let mut own = [[0.0; WIDEST]; N];
            for (own, sums) in own.iter_mut().zip(&*sums) {
                own[..count].copy_from_slice(&sums[at..][..count]);
            }
            for from in inner.clone().step_by(DEPTH) {
                let depth = DEPTH.min(inner.end - from);
                for (row, to) in decoded.chunks_exact_mut(depth).take(count).enumerate() {
                    self.decode(first + row, from, to);
                }
                let part = Part {
                    inner: 0..depth,
                    across: 0..count,
                };
                let left = &left[from - inner.start..][..depth];
                let dense = Factor::of_slice(&decoded, depth, Run::Along);
                dense.multiply(vectors, &part, left, &mut own);
            }
            for (sums, own) in sums.iter_mut().zip(&own) {
                sums[at..][..count].copy_from_slice(&own[..count]);
            }
        }
    }
}
