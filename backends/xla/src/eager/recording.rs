//! What one stream has recorded, as far as it hasn't run.

use super::canonical::Canonical;
use crate::machine::RunError;
use burn_ir::{OperationIr, TensorId, TensorIr, TensorStatus};
use moebius_pjrt::Buffer;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Where a tensor is: in a buffer, or nowhere, because what should have made it failed.
pub(super) type Slot = Result<Arc<Buffer>, RunError>;

/// Operations of one stream, in order. A thread is a stream, unless it says otherwise.
///
/// Tensors that come from elsewhere are held from the first operation on that takes them: other streams
/// may drop them or use them up.
#[derive(Default)]
pub(super) struct Recording {
    /// Operations that compute, and drops between them.
    operations: Vec<OperationIr>,
    /// What the operations make and tensors still refer to.
    made: FxHashSet<TensorId>,
    /// What they take from elsewhere.
    taken: FxHashMap<TensorId, Slot>,
}

/// What runs as one program.
pub(super) struct Piece {
    pub(super) canonical: Canonical,
    pub(super) inputs: Result<Vec<Arc<Buffer>>, RunError>,
}

impl Recording {
    /// Whether it makes this tensor.
    pub(super) fn makes(&self, id: TensorId) -> bool {
        self.made.contains(&id)
    }

    /// Whether its operations make or take this tensor.
    pub(super) fn has(&self, id: TensorId) -> bool {
        self.makes(id) || self.taken.contains_key(&id)
    }

    /// Takes a tensor from elsewhere.
    pub(super) fn take(&mut self, id: TensorId, slot: Slot) {
        self.taken.insert(id, slot);
    }

    /// Records an operation that computes. What it takes is there.
    pub(super) fn compute(&mut self, operation: OperationIr) {
        let used_up = |tensor: &&TensorIr| tensor.status == TensorStatus::ReadWrite;
        for tensor in operation.inputs().filter(used_up) {
            self.made.remove(&tensor.id);
        }
        self.made
            .extend(operation.outputs().map(|tensor| tensor.id));
        self.operations.push(operation);
    }

    /// Records that a tensor that it has is dropped.
    pub(super) fn release(&mut self, tensor: TensorIr) {
        self.made.remove(&tensor.id);
        self.operations.push(OperationIr::Drop(tensor));
    }

    /// Whether a tensor refers to anything that it makes.
    pub(super) fn is_needed(&self) -> bool {
        !self.made.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    /// All of it as one program.
    pub(super) fn into_piece(self) -> Piece {
        let canonical = Canonical::of(self.operations);
        let input = |id: &TensorId| {
            let slot = self.taken.get(id).cloned();
            slot.unwrap_or(Err(RunError::Unknown(*id)))
        };
        let inputs = canonical.inputs.iter().map(input).collect();
        Piece { canonical, inputs }
    }
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
