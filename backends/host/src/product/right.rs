//! What may be the right factor of a product.

use super::along;
use super::factor::{Factor, Part, Run, Scratch, WIDEST};
use crate::values::Values;
use crate::vector::Transpose;
use pulp::Simd;

/// A right factor.
pub(crate) trait Right: Sync {
    /// How many columns are packed together, where a panel has `width`: those that whole lines of the cache hold.
    fn together(&self, width: usize) -> usize;

    /// Panels of so many columns, one behind the other, each by its inner values; what they have beyond the part means nothing.
    fn pack<S: Simd, T: Transpose>(
        &self,
        vectors: (S, T),
        part: &Part,
        panels: (&mut [f32], usize),
        scratch: &mut Scratch,
    );

    /// How many rows at most are multiplied with it together where it lies, when there are few: 8, 4, or none.
    fn tile(&self) -> usize;

    /// Adds the products of N rows, given as \[inner\]\[N\], and the columns of a part, at most [`WIDEST`], to sums.
    fn multiply<S: Simd, T: Transpose, const N: usize>(
        &self,
        vectors: (S, T),
        part: &Part,
        left: &[[f32; N]],
        sums: &mut [[f32; WIDEST]; N],
    );
}

impl Right for Factor<'_> {
    fn together(&self, width: usize) -> usize {
        match self.run {
            Run::Along => width,
            Run::Across => WIDEST,
        }
    }

    #[inline(always)]
    fn pack<S: Simd, T: Transpose>(
        &self,
        (_, transpose): (S, T),
        part: &Part,
        panels: (&mut [f32], usize),
        scratch: &mut Scratch,
    ) {
        Factor::pack(self, transpose, part, panels, scratch);
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
        part: &Part,
        left: &[[f32; N]],
        sums: &mut [[f32; WIDEST]; N],
    ) {
        match self.values {
            Values::F32(values) => along::multiply(vectors, (self, values), part, left, sums),
            Values::F16(values) => along::multiply(vectors, (self, values), part, left, sums),
            Values::Bf16(values) => along::multiply(vectors, (self, values), part, left, sums),
        }
    }
}
