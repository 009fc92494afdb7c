//! Operands by their names, for oracles, and what oracles compute.

use super::{HostTensor, Signature};
use crate::permute::Sorted;

/// What an oracle computes, by the names of the signature. It may have more than the operation asks for.
pub(super) type Computed = Vec<(&'static str, HostTensor)>;

/// Operands by their names.
pub(super) struct Operands<'a>(Vec<(&'static str, &'a HostTensor)>);

impl<'a> Operands<'a> {
    pub(super) fn new(signature: &Signature, tensors: &'a [HostTensor]) -> Self {
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
