//! What one stream has recorded, as far as it hasn't run.

use super::canonical::Canonical;
use super::hash::{ById, Ids};
use super::recorder::Slot;
use crate::machine::RunError;
use crate::pjrt::Buffer;
use burn_ir::{OperationIr, TensorId, TensorIr, TensorStatus};
use std::sync::Arc;

/// Operations of one stream, in order. A thread is a stream, unless it says otherwise.
///
/// Tensors that come from elsewhere are held from the first operation on that takes them: other streams
/// may drop them or use them up.
#[derive(Default)]
pub(super) struct Recording {
    /// Operations that compute, and drops between them.
    operations: Vec<OperationIr>,
    /// What the operations make and tensors still refer to.
    made: Ids,
    /// What they take from elsewhere.
    taken: ById<Slot>,
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
            slot.unwrap_or(Err(RunError::Unknown { id: *id }))
        };
        let inputs = canonical.inputs.iter().map(input).collect();
        Piece { canonical, inputs }
    }
}

#[cfg(test)]
mod tests {
    use super::super::canonical::tests::tensor;
    use super::*;
    use burn_ir::CustomOpIr;

    /// Makes a tensor of another, which it may use up.
    fn map(from: u64, status: TensorStatus, to: u64) -> OperationIr {
        let (from, to) = (tensor(from, status), tensor(to, TensorStatus::NotInit));
        OperationIr::Custom(CustomOpIr::new("map", &[from], &[to]))
    }

    fn nothing() -> Slot {
        Err(RunError::Unknown {
            id: TensorId::new(0),
        })
    }

    #[test]
    fn it_has_what_it_makes_and_takes() {
        let mut recording = Recording::default();
        let has = |recording: &Recording| [0, 1, 2].map(|id| recording.has(TensorId::new(id)));
        recording.take(TensorId::new(0), nothing());
        recording.compute(map(0, TensorStatus::ReadOnly, 1));
        recording.compute(map(1, TensorStatus::ReadWrite, 2));
        assert_eq!(has(&recording), [true, false, true]);
        assert!(recording.makes(TensorId::new(2)) && !recording.makes(TensorId::new(0)));
        let piece = recording.into_piece();
        assert_eq!(piece.canonical.outputs.len(), 1);
        assert!(piece.canonical.released.is_empty());
    }

    #[test]
    fn dropped_results_are_not_needed() {
        let mut recording = Recording::default();
        recording.take(TensorId::new(0), nothing());
        recording.compute(map(0, TensorStatus::ReadOnly, 1));
        recording.compute(map(1, TensorStatus::ReadWrite, 2));
        recording.release(tensor(0, TensorStatus::ReadWrite));
        assert!(recording.is_needed());
        recording.release(tensor(2, TensorStatus::ReadWrite));
        assert!(!recording.is_needed());
        let piece = recording.into_piece();
        assert!(piece.canonical.outputs.is_empty());
        assert_eq!(piece.canonical.released, [TensorId::new(0)]);
    }
}
