//! Weights with 2:4 structured sparsity as a factor: groups are put together while they are decoded.

use super::decoded::{Decode, Decoded};
use crate::product::Run;
use crate::values::{Matrices, Stored, Values};
use moebius_ops::grouped_gemm::sparse24::{GROUP, GROUPS_PER_WORD, place_words, places_of};

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
