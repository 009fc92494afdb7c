//! Numbers in their stored types.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Numbers of one of the float types of tensors.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// f32 numbers.
    F32(&'a [f32]),
    /// f16 numbers.
    F16(&'a [f16]),
    /// bf16 numbers.
    Bf16(&'a [bf16]),
}

/// Matrices of one size, one after the other, each row by row.
#[derive(Clone, Copy, Debug)]
pub struct Matrices<'a> {
    /// The values of all matrices.
    pub values: Values<'a>,
    /// The number of rows in a matrix.
    pub rows: usize,
    /// The number of values in a row.
    pub columns: usize,
}

impl<'a> Matrices<'a> {
    /// One matrix of f32 values with rows of `columns` values.
    pub(crate) fn of_slice(values: &'a [f32], columns: usize) -> Self {
        Self {
            values: Values::F32(values),
            rows: values.len() / columns.max(1),
            columns,
        }
    }
}

impl Values<'_> {
    /// Converts `to.len()` numbers from `at` on to f32.
    #[inline(always)]
    pub(crate) fn convert(self, at: usize, to: &mut [f32]) {
        let len = to.len();
        match self {
            Self::F32(values) => to.copy_from_slice(&values[at..][..len]),
            Self::F16(values) => values[at..][..len].convert_to_f32_slice(to),
            Self::Bf16(values) => {
                for (to, value) in to.iter_mut().zip(&values[at..][..len]) {
                    *to = f32::from_bits(u32::from(value.to_bits()) << 16);
                }
            }
        }
    }
}

/// A stored float type.
pub(crate) trait Stored: Copy {
    /// Converts the number to f32, which holds it exactly.
    fn f32(self) -> f32;
}

impl Stored for f32 {
    #[inline(always)]
    fn f32(self) -> f32 {
        self
    }
}

impl Stored for bf16 {
    #[inline(always)]
    fn f32(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

/// Two neighbouring bf16 numbers, as the bits of an f32.
impl Stored for [u16; 2] {
    #[inline(always)]
    fn f32(self) -> f32 {
        pulp::cast(self)
    }
}

impl Stored for f16 {
    /// Moves the bits to where an f32 has its exponent and mantissa, which gives a number too small by the factor 2^112; NaN and infinities
    /// then still lack ones in the exponent.
    #[inline(always)]
    fn f32(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let magnitude = (bits & 0x7FFF) << 13;
        let number = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
        let special = if magnitude >= 0x0F80_0000 {
            0x7F80_0000
        } else {
            0
        };
        f32::from_bits(number | special | (bits & 0x8000) << 16)
    }
}
