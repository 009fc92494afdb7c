//! What an operation computes of tensors on the host, in plain Rust: the one oracle of every harness.

use super::operands::Operands;
use super::{HostTensor, Operation, TensorInfo, contents};
use crate::error::Mismatch;

impl Operation {
    /// Checks the description, and that `tensors` are its operands: as many elements of the right kind, and sorts, places and spans
    /// that exist.
    ///
    /// # Errors
    /// [`Mismatch`] for what doesn't fit.
    pub fn check_operands(&self, tensors: &[HostTensor]) -> Result<(), Mismatch> {
        self.check()?;
        let signature = self.signature();
        Mismatch::check("operands", signature.operands.len(), tensors.len())?;
        let mut pairs = signature.operands.iter().zip(tensors);
        pairs.try_for_each(|(info, tensor)| tensor.check(info))?;
        contents::check(self, &Operands::new(&signature, tensors))
    }

    /// The results for `operands`, both in the order of the signature, computed in f64 and not rounded to the operation's type;
    /// rows of experts that no slot is sorted to are 0.
    ///
    /// # Errors
    /// As [`Operation::check_operands`].
    pub fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, Mismatch> {
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
#[path = "reference_tests.rs"]
mod tests;
