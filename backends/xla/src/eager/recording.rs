//! What one stream has recorded, as far as it hasn't run.

use super::canonical::Canonical;
use super::hash::{ById, Ids, Multiply, Relative};
use super::period::Rhythm;
use super::recorder::Slot;
use crate::machine::RunError;
use crate::pjrt::Buffer;
use burn_ir::{OperationIr, TensorId};
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
    /// What the pending operations make.
    made: Ids,
    /// What they take from elsewhere.
    taken: ById<Slot>,
    /// Runs of the device when an operation came last.
    pub(super) touched: u64,
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
        self.made
            .extend(operation.outputs().map(|tensor| tensor.id));
        self.places.push(self.pending.len());
        self.hashes.push(self.relative.hash(&mut operation));
        self.pending.push(operation);
    }

    /// Records that nobody needs a tensor any more that it has.
    pub(super) fn release(&mut self, operation: OperationIr) {
        self.pending.push(operation);
    }

    /// Where to cut it before the next operation comes.
    pub(super) fn cut(&mut self) -> Option<usize> {
        let count = self.rhythm.cut(&self.hashes)?;
        Some(self.places.get(count).copied().unwrap_or(self.len()))
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// What was recorded before place `end`. What nobody needs after it is held no longer.
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
