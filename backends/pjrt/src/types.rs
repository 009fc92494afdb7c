//! Types of elements and tensors, as StableHLO writes them and PJRT's buffers hold them.

use std::fmt;

/// Defines each element type with its name in StableHLO, its bytes, and its value of `PJRT_Buffer_Type`.
macro_rules! elements {
    ($($(#[$doc:meta])* $variant:ident $name:literal $bytes:literal $code:literal)*) => {
        /// The type of a tensor's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ElementType { $($(#[$doc])* $variant),* }

        impl ElementType {
            /// Every element type.
            pub const ALL: [Self; 15] = [$(Self::$variant),*];

            /// Bytes of one element in a buffer.
            pub const fn bytes(self) -> usize {
                match self { $(Self::$variant => $bytes),* }
            }

            /// The type's value of `PJRT_Buffer_Type`.
            pub(crate) const fn code(self) -> i32 {
                match self { $(Self::$variant => $code),* }
            }
        }

        /// Writes the type as StableHLO does.
        impl fmt::Display for ElementType {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $name),* })
            }
        }
    };
}

elements! {
    /// Booleans, one byte each in a buffer.
    Pred "i1" 1 1
    /// Signed 8-bit integers.
    S8 "i8" 1 2
    /// Signed 16-bit integers.
    S16 "i16" 2 3
    /// Signed 32-bit integers.
    S32 "i32" 4 4
    /// Signed 64-bit integers.
    S64 "i64" 8 5
    /// Unsigned 8-bit integers.
    U8 "ui8" 1 6
    /// Unsigned 16-bit integers.
    U16 "ui16" 2 7
    /// Unsigned 32-bit integers.
    U32 "ui32" 4 8
    /// Unsigned 64-bit integers.
    U64 "ui64" 8 9
    /// IEEE half precision.
    F16 "f16" 2 10
    /// The upper half of an f32 (bfloat16).
    BF16 "bf16" 2 13
    /// IEEE single precision.
    F32 "f32" 4 11
    /// IEEE double precision.
    F64 "f64" 8 12
    /// FP8 with 4 exponent bits, no infinities, largest 448 (OCP OFP8).
    F8E4M3FN "f8E4M3FN" 1 17
    /// FP8 with 5 exponent bits, largest finite 57344 (OCP OFP8).
    F8E5M2 "f8E5M2" 1 16
}

impl ElementType {
    /// Whether the type is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16 | Self::BF16 | Self::F32 | Self::F64 | Self::F8E4M3FN | Self::F8E5M2
        )
    }

    /// Whether the type is an unsigned integer type.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    /// The largest value of an integer type; 1 for booleans and floats.
    pub const fn largest(self) -> i128 {
        let bits = 8 * self.bytes() as u32;
        match self {
            Self::Pred => 1,
            element if element.is_float() => 1,
            element if element.is_unsigned() => (1 << bits) - 1,
            _ => (1 << (bits - 1)) - 1,
        }
    }

    /// The smallest value of an integer type; 0 for booleans and floats.
    pub const fn smallest(self) -> i128 {
        match self {
            Self::S8 | Self::S16 | Self::S32 | Self::S64 => -self.largest() - 1,
            _ => 0,
        }
    }

    /// The type with this value of `PJRT_Buffer_Type`, if [`ElementType`] has it.
    pub(crate) fn from_code(code: i32) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|element| element.code() == code)
    }
}

/// Shape and element type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Extents of the dimensions, outermost first; empty for a scalar.
    pub shape: Vec<usize>,
    /// Type of the elements.
    pub element: ElementType,
}

impl TensorType {
    /// A tensor of `shape`.
    pub fn new(shape: impl Into<Vec<usize>>, element: ElementType) -> Self {
        Self {
            shape: shape.into(),
            element,
        }
    }

    /// A tensor without dimensions.
    pub fn scalar(element: ElementType) -> Self {
        Self::new([], element)
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of the elements, without padding.
    pub fn bytes(&self) -> usize {
        self.elements() * self.element.bytes()
    }

    /// As [`Self::bytes`], but `None` when an extent or the product exceeds what the C API can express (`i64`).
    pub(crate) fn checked_bytes(&self) -> Option<usize> {
        // An extent of zero makes the product zero, but must not hide another extent that does not fit.
        let mut extents = self.shape.iter().filter(|&&extent| extent != 0).copied();
        let all = extents.try_fold(self.element.bytes(), usize::checked_mul);
        let all = all.filter(|&bytes| i64::try_from(bytes).is_ok())?;
        Some(if self.shape.contains(&0) { 0 } else { all })
    }

    /// A tensor type of the same shape with another element type.
    pub fn with_element(&self, element: ElementType) -> Self {
        Self::new(self.shape.clone(), element)
    }

    /// A tensor type of the same element type with another shape.
    pub fn with_shape(&self, shape: impl Into<Vec<usize>>) -> Self {
        Self::new(shape, self.element)
    }
}

/// Writes the type as StableHLO does: `tensor<2x3xf32>`.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for extent in &self.shape {
            write!(f, "{extent}x")?;
        }
        write!(f, "{}>", self.element)
    }
}

#[cfg(test)]
#[path = "types_tests.rs"]
mod tests;
