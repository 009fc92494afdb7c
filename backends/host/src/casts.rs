//! Conversions between f32 and the types of 16 bits: vector code, on several threads where that pays off.

use crate::values::Values;
use crate::vector::{Kernel, Transpose, dispatch};
use crate::workers::each_row;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use pulp::Simd;

/// Values that are converted together, as many as threads are woken for.
const PART: usize = 1 << 15;

/// Converts numbers to f32, which holds them exactly.
pub fn widened(values: Values<'_>) -> Vec<f32> {
    converted(values.len(), |first, to: &mut [f32]| {
        dispatch(Widen { values, first, to });
    })
}

/// Rounds numbers to f16, to the nearest, of two the even one.
pub fn to_f16(values: &[f32]) -> Vec<f16> {
    converted(values.len(), |first, to: &mut [f16]| {
        to.convert_from_f32_slice(&values[first..][..to.len()]);
    })
}

/// Rounds numbers to bf16, to the nearest, of two the even one.
pub fn to_bf16(values: &[f32]) -> Vec<bf16> {
    converted(values.len(), |first, to: &mut [bf16]| {
        let from = &values[first..][..to.len()];
        dispatch(Round { from, to });
    })
}

/// Has all parts of `len` values written, each from its first value on.
fn converted<N: Copy + Default + Send>(
    len: usize,
    write: impl Fn(usize, &mut [N]) + Sync,
) -> Vec<N> {
    let mut all = vec![N::default(); len];
    each_row(&mut all, PART, &|part, to: &mut [N]| write(part * PART, to));
    all
}

/// The work of [`widened`] for a part.
struct Widen<'a> {
    values: Values<'a>,
    first: usize,
    to: &'a mut [f32],
}

impl Kernel for Widen<'_> {
    #[inline(always)]
    fn run<S: Simd, T: Transpose>(self, _: S, _: T) {
        self.values.convert(self.first, self.to);
    }
}

/// The work of [`to_bf16`] for a part.
struct Round<'a> {
    from: &'a [f32],
    to: &'a mut [bf16],
}

impl Kernel for Round<'_> {
    #[inline(always)]
    fn run<S: Simd, T: Transpose>(self, _: S, _: T) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = rounded(*from);
        }
    }
}

/// Rounds a number to bf16, as [`bf16::from_f32`] does, without a branch.
#[inline(always)]
pub(crate) fn rounded(value: f32) -> bf16 {
    let bits = value.to_bits();
    let up = 0x7FFF + (bits >> 16 & 1);
    // A NaN stays one, whatever its lowest bits are.
    let bits = if value.is_nan() {
        bits | 0x0040_0000
    } else {
        bits.wrapping_add(up)
    };
    bf16::from_bits((bits >> 16) as u16)
}
