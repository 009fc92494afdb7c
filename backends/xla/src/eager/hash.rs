//! Hashes of single operations, for finding rounds.

use burn_ir::{IrVisitorMut, OperationIr, ScalarIr, TensorId, TensorIr, TensorStatus};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// A hash of an operation's kind, shapes and integers: without the numbers of its tensors and without
/// float scalars, which change from round to round.
pub(super) fn relative_hash(operation: &OperationIr) -> u64 {
    let mut operation = operation.clone();
    operation.visit_mut(&mut Anonymous);
    let mut hasher = DefaultHasher::new();
    operation.hash(&mut hasher);
    hasher.finish()
}

struct Anonymous;

impl IrVisitorMut for Anonymous {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        tensor.id = TensorId::new(0);
        tensor.status = TensorStatus::ReadOnly;
    }

    fn visit_scalar_mut(&mut self, scalar: &mut ScalarIr) {
        if let ScalarIr::Float(value) = scalar {
            *value = 0.0;
        }
    }
}
