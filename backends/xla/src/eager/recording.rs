//! Recordings of streams, and their canonical form, which leaves out what changes from step to step: the numbers of
//! tensors and the float scalars.

use super::stored::Stored;
use crate::lower::takes_scalars;
use crate::machine::RunError;
use burn_ir::{IrVisitorMut, OperationIr, ScalarIr, TensorId, TensorIr, TensorStatus};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The place of a tensor: its values, or the error of the run that should have made it.
pub(super) type Slot = Result<Arc<Stored>, RunError>;

/// The operations of one stream that haven't run, in order. Each thread is a stream, unless it chooses another.
///
/// Tensors made elsewhere are held from the first operation on that takes them, because other streams may drop or
/// consume them.
#[derive(Default)]
pub(super) struct Recording {
    /// The operations that compute, and drops between them.
    operations: Vec<OperationIr>,
    /// The tensors that the operations make and that are still referred to.
    made: FxHashSet<TensorId>,
    /// The tensors that the operations take from elsewhere.
    taken: FxHashMap<TensorId, Slot>,
}

/// The part of a recording that runs as one program, with its inputs.
pub(super) struct Piece {
    pub(super) canonical: Canonical,
    pub(super) inputs: Result<Vec<Arc<Stored>>, RunError>,
}

impl Recording {
    /// Whether an operation makes this tensor.
    pub(super) fn makes(&self, id: TensorId) -> bool {
        self.made.contains(&id)
    }

    /// Whether an operation makes or takes this tensor.
    pub(super) fn has(&self, id: TensorId) -> bool {
        self.makes(id) || self.taken.contains_key(&id)
    }

    /// Adds a tensor from elsewhere.
    pub(super) fn take(&mut self, id: TensorId, slot: Slot) {
        self.taken.insert(id, slot);
    }

    /// Records an operation that computes. The recording must already have the operation's inputs.
    pub(super) fn compute(&mut self, operation: OperationIr) {
        let used_up = |tensor: &&TensorIr| tensor.status == TensorStatus::ReadWrite;
        for tensor in operation.inputs().filter(used_up) {
            self.made.remove(&tensor.id);
        }
        self.made
            .extend(operation.outputs().map(|tensor| tensor.id));
        self.operations.push(operation);
    }

    /// Records the drop of a tensor that the recording has.
    pub(super) fn release(&mut self, tensor: TensorIr) {
        self.made.remove(&tensor.id);
        self.operations.push(OperationIr::Drop(tensor));
    }

    /// Whether some result is still referred to.
    pub(super) fn is_needed(&self) -> bool {
        !self.made.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    /// Turns the whole recording into one program's piece.
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

/// The part of a sequence of operations that decides its program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Structure {
    /// The operations, without drops. Tensors are numbered by first use, and the scalars of operations that
    /// [`takes_scalars`] names are indices into [`Canonical::scalars`].
    pub(super) operations: Vec<OperationIr>,
    /// The tensors that the operations take from elsewhere, by first use.
    pub(super) inputs: Vec<TensorIr>,
    /// The results that are still needed.
    pub(super) outputs: Vec<TensorId>,
}

impl Structure {
    /// A hash of the operations. It needn't resist attacks: no outside input chooses them. A training step hashes some
    /// ten thousand numbers.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.operations.hash(&mut hasher);
        hasher.finish()
    }
}

/// A structure, and the tensors and scalars of one run.
#[derive(Debug)]
pub(super) struct Canonical {
    pub(super) structure: Structure,
    /// The tensor of each input.
    pub(super) inputs: Vec<TensorId>,
    /// Whether each input is dropped by the end of the run. Runs that differ here share a program.
    pub(super) consumed: Vec<bool>,
    /// The tensor of each output.
    pub(super) outputs: Vec<TensorIr>,
    /// The scalars of the operations that [`takes_scalars`] names.
    pub(super) scalars: Vec<f64>,
    /// The tensors that are dropped by the end of the run but were made before it.
    pub(super) released: Vec<TensorId>,
}

impl Canonical {
    /// Brings `operations` into canonical form.
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

/// The tensors that a sequence takes, makes and drops.
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
    /// Whether the scalars of the current operation become indices.
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
        // `consumed` and `outputs` tell who uses a tensor last.
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
