//! One tensor of a case file, and its values as numbers.

use half::{bf16, f16};
use safetensors::Dtype;

use super::error::CaseError;
use super::quoted;

/// A tensor of a case file: `bytes` holds exactly the elements `dtype` and `shape` name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorView<'a> {
    /// Name with its `in.` or `out.`.
    pub(crate) name: &'a str,
    /// Element type.
    pub(crate) dtype: Dtype,
    /// Extents, outermost first.
    pub(crate) shape: &'a [usize],
    /// Little-endian elements, row-major.
    pub(crate) bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// Whether the elements are whole numbers (truth values included).
    pub(crate) fn is_integer(&self) -> bool {
        matches!(
            self.dtype,
            Dtype::I64 | Dtype::I32 | Dtype::U8 | Dtype::BOOL
        )
    }

    /// The elements of an F64, F32, F16 or BF16 tensor, widened without loss.
    pub(crate) fn floats(&self) -> Result<Box<dyn Iterator<Item = f64> + 'a>, CaseError> {
        Ok(match self.dtype {
            Dtype::F64 => Box::new(self.chunks().map(f64::from_le_bytes)),
            Dtype::F32 => Box::new(self.chunks().map(|b| f64::from(f32::from_le_bytes(b)))),
            Dtype::F16 => Box::new(self.chunks().map(|b| f64::from(f16::from_le_bytes(b)))),
            Dtype::BF16 => Box::new(self.chunks().map(|b| f64::from(bf16::from_le_bytes(b)))),
            _ => return Err(self.wrong("F64, F32, F16 or BF16", self.dtype)),
        })
    }

    /// The elements of an I64, I32, U8 or BOOL tensor.
    pub(crate) fn ints(&self) -> Result<Box<dyn Iterator<Item = i64> + 'a>, CaseError> {
        Ok(match self.dtype {
            Dtype::I64 => Box::new(self.chunks().map(i64::from_le_bytes)),
            Dtype::I32 => Box::new(self.chunks().map(|b| i64::from(i32::from_le_bytes(b)))),
            Dtype::U8 | Dtype::BOOL => Box::new(self.bytes.iter().map(|&b| i64::from(b))),
            _ => return Err(self.wrong("I64, I32, U8 or BOOL", self.dtype)),
        })
    }

    /// The elements of a float tensor in f32; F64 is rounded to nearest.
    pub(crate) fn to_f32(self) -> Result<Vec<f32>, CaseError> {
        Ok(self.floats()?.map(|v| v as f32).collect())
    }

    /// The elements of a U8 tensor.
    pub(crate) fn to_bytes(self) -> Result<Vec<u8>, CaseError> {
        match self.dtype {
            Dtype::U8 => Ok(self.bytes.to_vec()),
            _ => Err(self.wrong("U8", self.dtype)),
        }
    }

    /// The elements of an integer tensor as truth values; anything but 0 and 1 is an error.
    pub(crate) fn to_bool(self) -> Result<Vec<bool>, CaseError> {
        let check = |(index, got)| match got {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.wrong(format!("0 or 1 at index {index}"), got)),
        };
        self.ints()?.enumerate().map(check).collect()
    }

    fn chunks<const N: usize>(&self) -> impl Iterator<Item = [u8; N]> + 'a {
        self.bytes.as_chunks::<N>().0.iter().copied()
    }

    fn wrong(&self, expected: impl Into<String>, got: impl ToString) -> CaseError {
        CaseError::WrongTensor {
            tensor: quoted(self.name),
            expected: expected.into(),
            got: got.to_string(),
        }
    }
}
