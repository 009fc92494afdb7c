//! A recorded sequence without what changes from step to step: numbers of tensors and float scalars.

use super::hash::{ById, Ids, Multiply};
use crate::lower::tagged;
use burn_ir::{
    BaseOperationIr, IrVisitorMut, NumericOperationIr, OperationIr, ScalarIr, TensorId, TensorIr,
    TensorStatus,
};
use std::hash::{Hash, Hasher};

/// What two sequences share if one program serves both.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Structure {
    /// The operations, without drops; tensors numbered by first use, float scalars by [`tagged`].
    pub(super) operations: Vec<OperationIr>,
    /// Tensors that come from outside, by first use.
    pub(super) inputs: Vec<TensorIr>,
    /// Results that are still needed.
    pub(super) outputs: Vec<TensorId>,
}

impl Structure {
    /// A hash of the operations.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = Multiply::default();
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
    /// The float scalars, by number.
    pub(super) scalars: Vec<f64>,
    /// Tensors that are dropped by the end of the run, and that weren't made by it.
    pub(super) released: Vec<TensorId>,
}

impl Canonical {
    /// The canonical form of `operations`.
    pub(super) fn of(operations: Vec<OperationIr>) -> Self {
        let mut lifetimes = Lifetimes::default();
        operations
            .iter()
            .for_each(|operation| lifetimes.see(operation));
        let mut numbers = Numbers::default();
        let computing = operations.into_iter();
        let computing = computing.filter(|op| !matches!(op, OperationIr::Drop(_)));
        let relative = computing.map(|mut operation| {
            numbers.tags = takes_tags(&operation);
            operation.visit_mut(&mut numbers);
            operation
        });
        let relative: Vec<OperationIr> = relative.collect();
        let consumed = lifetimes
            .inputs
            .iter()
            .map(|t| lifetimes.dead.contains(&t.id))
            .collect();
        let outputs: Vec<TensorIr> = lifetimes
            .made
            .into_iter()
            .filter(|t| !lifetimes.dead.contains(&t.id))
            .collect();
        let made = &lifetimes.made_ids;
        let released = lifetimes
            .dead
            .iter()
            .filter(|id| !made.contains(*id))
            .copied()
            .collect();
        let inputs = lifetimes.inputs.iter().map(|t| t.id).collect();
        let relative_inputs = lifetimes.inputs.iter().map(|tensor| {
            let mut tensor = tensor.clone();
            numbers.visit_tensor_mut(&mut tensor);
            tensor
        });
        let relative_inputs = relative_inputs.collect();
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
    seen: Ids,
    made: Vec<TensorIr>,
    made_ids: Ids,
    dead: Ids,
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
    tensors: ById<TensorId>,
    scalars: Vec<f64>,
    /// Whether scalars are tagged.
    tags: bool,
}

/// Whether an operation's float scalars may be values of the device: those of the others decide what
/// it is lowered to, or belong to a layer that keeps them.
fn takes_tags(operation: &OperationIr) -> bool {
    use BaseOperationIr as Base;
    use NumericOperationIr as Op;
    match operation {
        OperationIr::BaseFloat(operation) => matches!(
            operation,
            Base::MaskFill(_) | Base::EqualElem(_) | Base::NotEqualElem(_)
        ),
        OperationIr::NumericFloat(_, operation) => matches!(
            operation,
            Op::AddScalar(_)
                | Op::SubScalar(_)
                | Op::MulScalar(_)
                | Op::DivScalar(_)
                | Op::RemScalar(_)
                | Op::ClampMin(_)
                | Op::ClampMax(_)
                | Op::Clamp(_)
                | Op::GreaterElem(_)
                | Op::GreaterEqualElem(_)
                | Op::LowerElem(_)
                | Op::LowerEqualElem(_)
                | Op::Full(_)
                | Op::Pad(_)
        ),
        _ => false,
    }
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
        if let (ScalarIr::Float(value), true) = (scalar, self.tags) {
            self.scalars.push(*value);
            *value = tagged(self.scalars.len() - 1);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use burn_backend::{DType, Shape};
    use burn_ir::{CustomOpIr, ScalarOpIr};

    pub(in crate::eager) fn tensor(id: u64, status: TensorStatus) -> TensorIr {
        let mut tensor = TensorIr::uninit(TensorId::new(id), Shape::new([2]), DType::F32);
        tensor.status = status;
        tensor
    }

    fn step(first: u64, scalar: f64) -> Vec<OperationIr> {
        let read = |id| tensor(first + id, TensorStatus::ReadOnly);
        let last = |id| tensor(first + id, TensorStatus::ReadWrite);
        let made = |id| tensor(first + id, TensorStatus::NotInit);
        vec![
            OperationIr::NumericFloat(
                DType::F32,
                NumericOperationIr::MulScalar(ScalarOpIr {
                    lhs: last(1),
                    rhs: ScalarIr::Float(scalar),
                    out: made(2),
                }),
            ),
            OperationIr::Custom(CustomOpIr::new(
                "sum",
                &[last(2), read(0)],
                &[made(3), made(4)],
            )),
            OperationIr::Drop(last(3)),
            OperationIr::Drop(last(9)),
        ]
    }

    #[test]
    fn numbers_and_scalars_do_not_count() {
        let (a, b) = (
            Canonical::of(step(10, 0.5)),
            Canonical::of(step(70, f64::NAN)),
        );
        assert_eq!(a.structure, b.structure);
        assert_eq!(a.scalars, [0.5]);
        let ids = |ids: &[TensorId]| ids.iter().map(TensorId::value).collect::<Vec<_>>();
        assert_eq!(ids(&a.inputs), [11, 10]);
        assert_eq!(a.consumed, [true, false]);
        assert_eq!(
            a.outputs.iter().map(|t| t.id.value()).collect::<Vec<_>>(),
            [14]
        );
        let mut released = ids(&a.released);
        released.sort_unstable();
        assert_eq!(released, [11, 19]);
    }

    #[test]
    fn lives_of_results_count_and_those_of_inputs_do_not() {
        let once = Canonical::of(step(10, 0.5));
        let mut longer = step(10, 0.5);
        longer.remove(2);
        assert_ne!(Canonical::of(longer).structure, once.structure);
        let mut used_up = step(10, 0.5);
        used_up.push(OperationIr::Drop(tensor(10, TensorStatus::ReadWrite)));
        let used_up = Canonical::of(used_up);
        assert_eq!(used_up.structure, once.structure);
        assert_eq!(used_up.consumed, [true, true]);
    }
}
