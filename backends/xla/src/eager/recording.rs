//! What one stream has recorded, as far as it hasn't run.

use super::canonical::Canonical;
use super::hash::{ById, Ids, Multiply, Relative};
use super::period::Rhythm;
use super::recorder::Slot;
use crate::machine::RunError;
use crate::pjrt::Buffer;
use burn_ir::{OperationIr, TensorId, TensorIr, TensorStatus};
use std::hash::Hasher;
use std::sync::Arc;

/// Operations of one stream, in order. A thread is a stream, unless it says otherwise.
///
/// Tensors that come from elsewhere are held from the first operation on that takes them: other streams
/// may drop them or use them up.
#[derive(Default)]
pub(super) struct Recording {
    /// Operations that compute, and drops between them.
    pending: Vec<OperationIr>,
    /// Of each pending operation that computes: drops come in any order (gradients live in a hash table).
    hashes: Vec<u64>,
    /// Where those operations are.
    places: Vec<usize>,
    relative: Relative,
    rhythm: Rhythm,
    /// What the pending operations make and tensors still refer to.
    made: Ids,
    /// What they take from elsewhere.
    taken: ById<Slot>,
}

/// What runs as one program.
pub(super) struct Piece {
    pub(super) canonical: Canonical,
    /// A hash of the operations.
    pub(super) key: u64,
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
    pub(super) fn compute(&mut self, mut operation: OperationIr) {
        let used_up = |tensor: &&TensorIr| tensor.status == TensorStatus::ReadWrite;
        for tensor in operation.inputs().filter(used_up) {
            self.made.remove(&tensor.id);
        }
        self.made
            .extend(operation.outputs().map(|tensor| tensor.id));
        self.places.push(self.pending.len());
        self.hashes.push(self.relative.hash(&mut operation));
        self.pending.push(operation);
    }

    /// Records that a tensor that it has is dropped.
    pub(super) fn release(&mut self, tensor: TensorIr) {
        self.made.remove(&tensor.id);
        self.pending.push(OperationIr::Drop(tensor));
    }

    /// Whether a tensor refers to anything that it makes.
    pub(super) fn is_needed(&self) -> bool {
        !self.made.is_empty()
    }

    /// Where to cut it before the next operation comes.
    pub(super) fn cut(&mut self) -> Option<usize> {
        let count = self.rhythm.cut(&self.hashes)?;
        Some(self.places.get(count).copied().unwrap_or(self.len()))
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// What was recorded before place `end`. What only that part needed is held no longer.
    pub(super) fn piece(&mut self, end: usize) -> Piece {
        let operations: Vec<OperationIr> = self.pending.drain(..end).collect();
        let count = self.places.partition_point(|place| *place < end);
        let mut key = Multiply::default();
        let hashes = self.hashes.drain(..count);
        hashes.for_each(|hash| key.write_u64(hash));
        self.places.drain(..count);
        self.places.iter_mut().for_each(|place| *place -= end);
        for tensor in operations.iter().flat_map(OperationIr::outputs) {
            self.made.remove(&tensor.id);
        }
        let canonical = Canonical::of(operations);
        let input = |id: &TensorId| {
            let slot = self.taken.get(id).cloned();
            slot.unwrap_or(Err(RunError::Unknown { id: *id }))
        };
        let inputs = canonical.inputs.iter().map(input).collect();
        for id in &canonical.released {
            self.taken.remove(id);
        }
        if self.pending.is_empty() {
            self.taken.clear();
        }
        Piece {
            canonical,
            key: key.finish(),
            inputs,
        }
    }

    /// What a piece left: the rest may take it.
    pub(super) fn left(&mut self, id: TensorId, slot: &Slot) {
        if !self.pending.is_empty() {
            self.taken.insert(id, slot.clone());
        }
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
        let piece = recording.piece(1);
        assert_eq!(piece.canonical.outputs.len(), 1);
        assert_eq!(has(&recording), [true, false, true]);
        recording.left(TensorId::new(1), &nothing());
        assert_eq!(has(&recording), [true, true, true]);
        let rest = recording.piece(recording.len());
        assert_eq!(rest.canonical.released, [TensorId::new(1)]);
        assert_eq!(has(&recording), [false; 3]);
    }

    #[test]
    fn nobody_needs_what_was_dropped() {
        let mut recording = Recording::default();
        recording.take(TensorId::new(0), nothing());
        recording.compute(map(0, TensorStatus::ReadOnly, 1));
        recording.compute(map(1, TensorStatus::ReadWrite, 2));
        recording.release(tensor(0, TensorStatus::ReadWrite));
        assert!(recording.is_needed());
        recording.release(tensor(2, TensorStatus::ReadWrite));
        assert!(!recording.is_needed());
        let piece = recording.piece(recording.len());
        assert!(piece.canonical.outputs.is_empty());
        assert_eq!(piece.canonical.released, [TensorId::new(0)]);
    }
}
