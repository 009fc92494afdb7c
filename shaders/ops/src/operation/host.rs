//! Tensors on the host.

use super::{Scalar, TensorInfo};
use crate::error::Mismatch;

/// The elements of a tensor on the host; its shape is in the operation's signature.
#[derive(Clone, Debug, PartialEq)]
pub enum HostTensor {
    /// Floats of any type: f64 holds each of them.
    Floats(Vec<f64>),
    /// 32-bit words.
    Words(Vec<u32>),
}

impl HostTensor {
    /// Floats in f32.
    pub fn of_f32(values: &[f32]) -> Self {
        Self::Floats(values.iter().copied().map(f64::from).collect())
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Words(words) => words.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks that there are as many elements as `of` has, and floats where it has floats.
    pub(super) fn check(&self, of: &TensorInfo) -> Result<(), Mismatch> {
        let kind = |floats| if floats { "floats" } else { "words" };
        let expected = matches!(of.scalar, Scalar::Float(_));
        let got = matches!(self, Self::Floats(_));
        Mismatch::unless(expected == got, of.name, kind(expected), kind(got))?;
        Mismatch::check(of.name, of.shape.iter().product(), self.len())
    }
}

impl From<Vec<f64>> for HostTensor {
    fn from(values: Vec<f64>) -> Self {
        Self::Floats(values)
    }
}

impl From<Vec<u32>> for HostTensor {
    fn from(words: Vec<u32>) -> Self {
        Self::Words(words)
    }
}
