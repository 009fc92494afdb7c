//! Tensors on the host, and what an operation computes of them in plain Rust: the one oracle of every harness.

use super::{Operation, Scalar, Signature, TensorInfo, contents};
use crate::error::ShapeError;
use crate::permute::Sorted;

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
    fn check(&self, of: &TensorInfo) -> Result<(), ShapeError> {
        let kind = |floats| if floats { "floats" } else { "words" };
        let expected = matches!(of.scalar, Scalar::Float(_));
        let got = matches!(self, Self::Floats(_));
        ShapeError::unless(expected == got, of.name, kind(expected), kind(got))?;
        ShapeError::check(of.name, of.shape.iter().product(), self.len())
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

/// What an oracle computes, by the names of the signature. It may have more than the operation asks for.
pub(super) type Computed = Vec<(&'static str, HostTensor)>;

/// Operands by their names.
pub(super) struct Operands<'a>(Vec<(&'static str, &'a HostTensor)>);

impl<'a> Operands<'a> {
    fn new(signature: &Signature, tensors: &'a [HostTensor]) -> Self {
        let names = signature.operands.iter().map(|info| info.name);
        Self(names.zip(tensors).collect())
    }

    pub(super) fn find(&self, name: &str) -> Option<&'a HostTensor> {
        let found = self.0.iter().find(|(own, _)| *own == name);
        found.map(|(_, tensor)| *tensor)
    }

    /// The floats of an operand; none where the operation has no such operand.
    pub(super) fn floats(&self, name: &str) -> &'a [f64] {
        match self.find(name) {
            Some(HostTensor::Floats(values)) => values,
            _ => &[],
        }
    }

    /// The same in f32, which holds what any of the element types does.
    pub(super) fn f32s(&self, name: &str) -> Vec<f32> {
        self.floats(name).iter().map(|x| *x as f32).collect()
    }

    /// The same of an operand that may be absent.
    pub(super) fn maybe_f32s(&self, name: &str) -> Option<Vec<f32>> {
        self.find(name).map(|_| self.f32s(name))
    }

    /// The words of an operand; none where the operation has no such operand.
    pub(super) fn words(&self, name: &str) -> &'a [u32] {
        match self.find(name) {
            Some(HostTensor::Words(words)) => words,
            _ => &[],
        }
    }

    /// A mask that may be absent.
    pub(super) fn mask(&self) -> Option<Vec<bool>> {
        self.find("mask")?;
        let mask = self.words("mask").iter();
        Some(mask.map(|word| *word != 0).collect())
    }

    /// The sort of the slots. Without one, all `rows` rows are one expert's, in their order.
    pub(super) fn sorted(&self, rows: usize) -> Sorted {
        if self.find("offsets").is_none() {
            let order: Vec<u32> = (0..rows as u32).collect();
            return Sorted {
                offsets: vec![0, rows as u32],
                positions: order.clone(),
                order,
            };
        }
        Sorted {
            order: self.words("order").to_vec(),
            offsets: self.words("offsets").to_vec(),
            positions: self.words("positions").to_vec(),
        }
    }
}

impl Operation {
    /// Checks the description, and that `tensors` are its operands: as many elements of the right kind, and sorts, places and spans
    /// that exist.
    ///
    /// # Errors
    /// [`ShapeError`] for what doesn't fit.
    pub fn check_operands(&self, tensors: &[HostTensor]) -> Result<(), ShapeError> {
        self.check()?;
        let signature = self.signature();
        ShapeError::check("operands", signature.operands.len(), tensors.len())?;
        let mut pairs = signature.operands.iter().zip(tensors);
        pairs.try_for_each(|(info, tensor)| tensor.check(info))?;
        contents::check(self, &Operands::new(&signature, tensors))
    }

    /// The results for `operands`, both in the order of the signature, computed in f64 and not rounded to the operation's type;
    /// rows of experts that no slot is sorted to are 0.
    ///
    /// # Errors
    /// As [`Operation::check_operands`].
    pub fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, ShapeError> {
        self.check_operands(operands)?;
        let signature = self.signature();
        let mut computed = self.compute(&Operands::new(&signature, operands))?;
        let mut result = |info: &TensorInfo| {
            let place = computed.iter().position(|(name, _)| *name == info.name);
            let Some(place) = place else {
                unreachable!("{} computes {}", signature.name, info.name);
            };
            let (_, tensor) = computed.swap_remove(place);
            tensor.check(info).map(|()| tensor)
        };
        signature.results.iter().map(&mut result).collect()
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
