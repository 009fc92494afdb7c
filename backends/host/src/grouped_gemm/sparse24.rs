//! Weights with 2:4 structured sparsity as a factor: groups are put together while they are decoded.

use super::decoded::{Decode, Decoded};
use super::lanes::{Few, InLanes, add_value};
use super::turned::{ACROSS, Block, LOW, Raw, SQUARE, turn_bytes};
use crate::product::{Part, Run};
use crate::values::{Matrices, Stored, Values};
use crate::vector::Transpose;
use moebius_ops::grouped_gemm::sparse24::{GROUP, GROUPS_PER_WORD, place_words, places_of};
use pulp::Simd;
use pulp::bytemuck::cast_ref;

/// Weights of a row that are decoded together, and those of them that are put in lanes together, of four bytes each.
const DECODED: usize = 128;
const TOGETHER: usize = 32;

/// The weights of one expert.
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
}

impl<'a> Sparse<'a> {
    /// The weights of expert `e` of a stack of kept weights \[E, n, k/2\]; their lines run as `run` says.
    pub(super) fn stacked(
        (kept, places): (Matrices<'a>, &'a [i32]),
        e: usize,
        run: Run,
    ) -> Decoded<'a> {
        let rows = Self {
            kept: kept.values,
            places,
            width: 2 * kept.columns,
            first: e * kept.rows,
        };
        Decoded::new(rows, run)
    }
}

impl Decode for Sparse<'_> {
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

    #[inline(always)]
    fn multiply<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        Part { inner, across }: &Part,
        raw: &mut Raw,
        few: &mut Few<'_>,
    ) {
        // Columns that lack keep any values.
        let mut rows = [[0.0_f32; DECODED]; ACROSS];
        for first in inner.clone().step_by(DECODED) {
            let count = DECODED.min(inner.end - first);
            for (to, row) in rows.iter_mut().zip(across.clone()) {
                self.decode(row, first, &mut to[..count]);
            }
            let bytes: [&[u8; 4 * DECODED]; ACROSS] = std::array::from_fn(|i| cast_ref(&rows[i]));
            for at in (0..count).step_by(TOGETHER) {
                for (square, bytes) in bytes.as_chunks::<SQUARE>().0.iter().enumerate() {
                    let words = &mut raw.words.as_flattened_mut()[SQUARE * square..];
                    for four in (0..TOGETHER).step_by(4) {
                        let to = &mut words[(LOW + four) * ACROSS..];
                        turn_bytes::<T, { 4 * DECODED }, 4>(vectors.1, bytes, 4 * (at + four), to);
                    }
                }
                few.take(vectors, Numbers, raw, first - inner.start + at);
            }
        }
    }
}

/// Weights in f32, in words from [`LOW`] on.
#[derive(Clone, Copy)]
struct Numbers;

impl InLanes for Numbers {
    #[inline(always)]
    fn add<S: Simd, T: Transpose, const N: usize, const V: usize>(
        self,
        (simd, _): (S, T),
        blocks: [Block<'_, S>; V],
        left: &[[f32; N]],
        registers: &mut [[S::f32s; V]; N],
    ) {
        for (at, left) in left.iter().take(TOGETHER).enumerate() {
            for (v, block) in blocks.iter().enumerate() {
                let value = simd.transmute_f32s_u32s(block.bits(LOW + at, 0, !0));
                add_value(simd, (v, value), left, registers);
            }
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
