//! Hashes of single operations, for finding rounds, and of names of tensors.

use burn_ir::{IrVisitorMut, OperationIr, ScalarIr, TensorId, TensorIr, TensorStatus};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A map by names of tensors.
pub(super) type ById<T> = HashMap<TensorId, T, BuildHasherDefault<Multiply>>;
/// A set of names of tensors.
pub(super) type Ids = HashSet<TensorId, BuildHasherDefault<Multiply>>;

/// Hashes numbers of our own making with a rotation and a product each: a step of a training hashes some
/// ten thousand of them, and no input from outside chooses them.
#[derive(Default)]
pub(super) struct Multiply(u64);

/// 2⁶⁴ over the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Multiply {
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(GOLDEN);
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        // Tables look at the low bits, a product mixes into the high ones.
        self.0 ^ (self.0 >> 32)
    }
}

/// Hashes an operation's kind, shapes and integers: without the numbers of its tensors and without
/// float scalars, which change from round to round.
#[derive(Debug, Default)]
pub(super) struct Relative {
    tensors: Vec<(TensorId, TensorStatus)>,
    scalars: Vec<f64>,
}

impl Relative {
    /// The hash of `operation`, which is as before afterwards.
    pub(super) fn hash(&mut self, operation: &mut OperationIr) -> u64 {
        operation.visit_mut(&mut Hide(self));
        let mut hasher = Multiply::default();
        operation.hash(&mut hasher);
        // Taken from the end again.
        self.tensors.reverse();
        self.scalars.reverse();
        operation.visit_mut(&mut Restore(self));
        hasher.finish()
    }
}

struct Hide<'a>(&'a mut Relative);

impl IrVisitorMut for Hide<'_> {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        self.0.tensors.push((tensor.id, tensor.status));
        tensor.id = TensorId::new(0);
        tensor.status = TensorStatus::ReadOnly;
    }

    fn visit_scalar_mut(&mut self, scalar: &mut ScalarIr) {
        if let ScalarIr::Float(value) = scalar {
            self.0.scalars.push(*value);
            *value = 0.0;
        }
    }
}

struct Restore<'a>(&'a mut Relative);

impl IrVisitorMut for Restore<'_> {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        if let Some((id, status)) = self.0.tensors.pop() {
            (tensor.id, tensor.status) = (id, status);
        }
    }

    fn visit_scalar_mut(&mut self, scalar: &mut ScalarIr) {
        if let ScalarIr::Float(value) = scalar
            && let Some(before) = self.0.scalars.pop()
        {
            *value = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_backend::{DType, Shape};
    use burn_ir::{NumericOperationIr, ScalarOpIr};

    fn product(first: u64, scalar: f64, length: usize) -> OperationIr {
        let tensor = |id| TensorIr::uninit(TensorId::new(id), Shape::new([length]), DType::F32);
        OperationIr::NumericFloat(
            DType::F32,
            NumericOperationIr::MulScalar(ScalarOpIr {
                lhs: tensor(first),
                rhs: ScalarIr::Float(scalar),
                out: tensor(first + 1),
            }),
        )
    }

    #[test]
    fn names_and_floats_do_not_count_and_stay() {
        let mut relative = Relative::default();
        let mut hash = |mut operation: OperationIr| {
            let before = operation.clone();
            let hash = relative.hash(&mut operation);
            assert_eq!(operation, before);
            hash
        };
        assert_eq!(hash(product(1, 0.5, 3)), hash(product(70, -2.0, 3)));
        assert_ne!(hash(product(1, 0.5, 3)), hash(product(1, 0.5, 4)));
    }
}
