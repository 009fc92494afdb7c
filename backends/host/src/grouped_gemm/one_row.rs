//! A product of one row and weights in blocks: each block is multiplied as soon as it is turned, so that the processor waits for the next blocks
//! while it multiplies.

use super::lanes::{ACROSS, CODES, add_word};
use super::turned::{Block, Form, Raw, Taker, share};
use crate::vector::Transpose;
use moebius_ops::blocks::GROUP;
use pulp::Simd;

/// One row times the columns whose blocks it takes.
pub(super) struct OneRow<'a> {
    /// The row's inner values that are turned.
    pub(super) left: &'a [[f32; 1]],
    /// The sums of the columns, to which products are added in the order of inner values.
    pub(super) sums: &'a mut [f32; ACROSS],
}

impl Taker for OneRow<'_> {
    #[inline(always)]
    fn take<S: Simd, T: Transpose>(
        &mut self,
        vectors: (S, T),
        form: Form<'_>,
        raw: &Raw,
        at: usize,
    ) {
        let row = (&self.left[at..][..form.0.values], &mut *self.sums);
        // Several registers of columns at a time hide how long a sum waits for the one before.
        match const { S::F32_LANES } {
            16.. => columns::<S, T, 2>(vectors, form, raw, row),
            4.. => columns::<S, T, 4>(vectors, form, raw, row),
            _ => columns::<S, T, 8>(vectors, form, raw, row),
        }
    }
}

/// Multiplies a block of each column, with V registers of columns at a time.
#[inline(always)]
fn columns<S: Simd, T: Transpose, const V: usize>(
    (simd, transpose): (S, T),
    form: Form<'_>,
    raw: &Raw,
    (left, sums): (&[[f32; 1]], &mut [f32; ACROSS]),
) {
    let (layout, share) = (form.0, share(form.0));
    let none = simd.splat_f32s(0.0);
    let sums = S::as_mut_simd_f32s(sums).0.as_chunks_mut::<V>().0;
    for (some, sums) in sums.iter_mut().enumerate() {
        let mut registers = [*sums];
        let mut blocks = [Block::of(simd, raw, V * some); V];
        let mut zeros = [none; V];
        for v in 0..V {
            blocks[v] = Block::of(simd, raw, V * some + v);
            zeros[v] = blocks[v].zero(layout.levels);
        }
        for first in (0..layout.values).step_by(share) {
            let (mut scales, mut offsets) = ([none; V], [none; V]);
            for v in 0..V {
                [scales[v], offsets[v]] = blocks[v].scale(layout.scales, first);
            }
            let offsets = layout.scales.has_offsets().then_some(&offsets[..]);
            let numbers = [&zeros[..], &scales[..]];
            for value in (first..first + share).step_by(GROUP) {
                let left = left[value..][..GROUP].as_chunks::<CODES>().0;
                for (word, left) in left.iter().enumerate() {
                    let mut words = [simd.splat_u32s(0); V];
                    for v in 0..V {
                        words[v] = blocks[v].codes(transpose, form, [value, word]);
                    }
                    add_word(simd, &words, numbers, offsets, left, &mut registers);
                }
            }
        }
        *sums = registers[0];
    }
}
