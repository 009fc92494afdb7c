//! Types of elements and tensors, as StableHLO writes them and PJRT's buffers hold them.

use std::fmt;

/// For each type its name in StableHLO, the bytes of an element, and the value of `PJRT_Buffer_Type`.
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

            /// Its value of `PJRT_Buffer_Type`.
            pub(crate) const fn code(self) -> i32 {
                match self { $(Self::$variant => $code),* }
            }
        }

        /// As StableHLO writes it.
        impl fmt::Display for ElementType {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $name),* })
            }
        }
    };
}

elements! {
    /// Booleans; a byte each in a buffer.
    Pred "i1" 1 1
    /// Signed, 8 bits.
    S8 "i8" 1 2
    /// Signed, 16 bits.
    S16 "i16" 2 3
    /// Signed, 32 bits.
    S32 "i32" 4 4
    /// Signed, 64 bits.
    S64 "i64" 8 5
    /// Unsigned, 8 bits.
    U8 "ui8" 1 6
    /// Unsigned, 16 bits.
    U16 "ui16" 2 7
    /// Unsigned, 32 bits.
    U32 "ui32" 4 8
    /// Unsigned, 64 bits.
    U64 "ui64" 8 9
    /// IEEE half precision.
    F16 "f16" 2 10
    /// The upper half of an f32.
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
    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16 | Self::BF16 | Self::F32 | Self::F64 | Self::F8E4M3FN | Self::F8E5M2
        )
    }

    /// Whether it is an integer type without a sign.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    /// The largest value of an integer type; 1 of booleans and floats.
    pub const fn largest(self) -> i128 {
        let bits = 8 * self.bytes() as u32;
        match self {
            Self::Pred => 1,
            element if element.is_float() => 1,
            element if element.is_unsigned() => (1 << bits) - 1,
            _ => (1 << (bits - 1)) - 1,
        }
    }

    /// The smallest value of an integer type; 0 of booleans and floats.
    pub const fn smallest(self) -> i128 {
        match self {
            Self::S8 | Self::S16 | Self::S32 | Self::S64 => -self.largest() - 1,
            _ => 0,
        }
    }

    /// The type that has this value of `PJRT_Buffer_Type`, if it is one of these.
    pub(crate) fn from_code(code: i32) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|element| element.code() == code)
    }
}

/// Shape and element type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Extents of the dimensions; empty for a scalar.
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

    /// As [`Self::bytes`]; none where an extent or the product is past what the C API can say (`i64`).
    pub(crate) fn checked_bytes(&self) -> Option<usize> {
        // An extent of zero makes the product zero, but must not hide one that does not fit.
        let mut extents = self.shape.iter().filter(|&&extent| extent != 0).copied();
        let all = extents.try_fold(self.element.bytes(), usize::checked_mul);
        let all = all.filter(|&bytes| i64::try_from(bytes).is_ok())?;
        Some(if self.shape.contains(&0) { 0 } else { all })
    }

    /// The same shape with other elements.
    pub fn with_element(&self, element: ElementType) -> Self {
        Self::new(self.shape.clone(), element)
    }

    /// The same elements in another shape.
    pub fn with_shape(&self, shape: impl Into<Vec<usize>>) -> Self {
        Self::new(shape, self.element)
    }
}

/// As StableHLO writes it: `tensor<2x3xf32>`.
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
