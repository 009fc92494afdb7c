//! What one stream has recorded, as far as it hasn't run, and a recorded sequence without what changes from step to step:
//! numbers of tensors and float scalars.

use crate::lower::takes_scalars;
use crate::machine::RunError;
use burn_ir::{IrVisitorMut, OperationIr, ScalarIr, TensorId, TensorIr, TensorStatus};
use moebius_pjrt::Buffer;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
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

/// What two sequences share if one program serves both.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Structure {
    /// The operations, without drops; tensors numbered by first use. The scalars of those that
    /// [`takes_scalars`] names are places among [`Canonical::scalars`].
    pub(super) operations: Vec<OperationIr>,
    /// Tensors that come from outside, by first use.
    pub(super) inputs: Vec<TensorIr>,
    /// Results that are still needed.
    pub(super) outputs: Vec<TensorId>,
}

impl Structure {
    /// A hash of the operations: a step of a training hashes some ten thousand numbers, and no input from outside chooses
    /// them.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.operations.hash(&mut hasher);
        hasher.finish()
    }
}

/// A structure, and what a run of it takes and leaves.
#[derive(Debug)]
pub(super) struct Canonical {
    pub(super) structure: Structure,
    /// The tensors that are the inputs.
    pub(super) inputs: Vec<TensorId>,
    /// Whether an input's last tensor is dropped. One program serves runs that differ in it.
    pub(super) consumed: Vec<bool>,
    /// The tensors that are the outputs.
    pub(super) outputs: Vec<TensorIr>,
    /// The scalars of the operations that [`takes_scalars`] names.
    pub(super) scalars: Vec<f64>,
    /// Tensors that are dropped by the end of the run, and that weren't made by it.
    pub(super) released: Vec<TensorId>,
}

impl Canonical {
    /// The canonical form of `operations`.
    pub(super) fn of(operations: Vec<OperationIr>) -> Self {
        let mut lifetimes = Lifetimes::default();
        for operation in &operations {
            lifetimes.see(operation);
        }
        let Lifetimes {
            inputs: taken,
            made,
            made_ids,
            dead,
            ..
        } = lifetimes;
        let mut numbers = Numbers::default();
        let mut relative = operations;
        relative.retain(|operation| !matches!(operation, OperationIr::Drop(_)));
        for operation in &mut relative {
            numbers.takes_scalars = takes_scalars(operation);
            operation.visit_mut(&mut numbers);
        }
        let made = made.into_iter();
        let outputs: Vec<TensorIr> = made.filter(|t| !dead.contains(&t.id)).collect();
        let inputs = taken.iter().map(|t| t.id).collect();
        let consumed = taken.iter().map(|t| dead.contains(&t.id)).collect();
        let released = dead.difference(&made_ids).copied().collect();
        let mut relative_inputs = taken;
        for tensor in &mut relative_inputs {
            numbers.visit_tensor_mut(tensor);
        }
        let structure = Structure {
            operations: relative,
            inputs: relative_inputs,
            outputs: outputs.iter().map(|t| numbers.of(t.id)).collect(),
        };
        Self {
            structure,
            inputs,
            consumed,
            outputs,
            scalars: numbers.scalars,
            released,
        }
    }
}

/// Who makes, uses and drops the tensors of a sequence.
#[derive(Default)]
struct Lifetimes {
    inputs: Vec<TensorIr>,
    seen: FxHashSet<TensorId>,
    made: Vec<TensorIr>,
    made_ids: FxHashSet<TensorId>,
    dead: FxHashSet<TensorId>,
}

impl Lifetimes {
    fn see(&mut self, operation: &OperationIr) {
        if let OperationIr::Drop(tensor) = operation {
            self.dead.insert(tensor.id);
            return;
        }
        for tensor in operation.inputs() {
            if tensor.status == TensorStatus::ReadWrite {
                self.dead.insert(tensor.id);
            }
            if !self.made_ids.contains(&tensor.id) && self.seen.insert(tensor.id) {
                self.inputs.push(tensor.clone());
            }
        }
        for tensor in operation.outputs() {
            if self.made_ids.insert(tensor.id) {
                self.made.push(tensor.clone());
            }
        }
    }
}

/// Numbers tensors and float scalars in the order in which they are visited.
#[derive(Default)]
struct Numbers {
    tensors: FxHashMap<TensorId, TensorId>,
    scalars: Vec<f64>,
    /// Whether the scalars of the operation at hand become places.
    takes_scalars: bool,
}

impl Numbers {
    fn of(&mut self, id: TensorId) -> TensorId {
        let next = TensorId::new(self.tensors.len() as u64);
        *self.tensors.entry(id).or_insert(next)
    }
}

impl IrVisitorMut for Numbers {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        tensor.id = self.of(tensor.id);
        // Who uses a tensor last is told by `consumed` and `outputs`.
        tensor.status = TensorStatus::ReadOnly;
    }

    fn visit_scalar_mut(&mut self, scalar: &mut ScalarIr) {
        if self.takes_scalars {
            self.scalars.push(scalar.elem());
            *scalar = ScalarIr::UInt(self.scalars.len() as u64 - 1);
        }
    }
}

#[cfg(test)]
#[path = "recording_tests.rs"]
pub(super) mod tests;
