//! Which tensors of a program over several devices are divided among the places of experts.

use crate::custom::{self, experts_of, is_stack};
use crate::stablehlo::{Axis, Mesh};
use burn_ir::{BaseOperationIr, CustomOpIr, OperationIr, ScalarIr, TensorId, TensorIr};
use moebius_ops::Operation;
use std::collections::{HashMap, HashSet};

/// The tensors of a program that lie divided on the devices where the program takes or gives them: along dimension 0, in
/// one part for each place of experts.
///
/// These are the stacks of experts, and what is made of them or becomes them in operations that keep dimension 0:
/// weights in another precision, the state of an optimizer. A wrong guess costs an exchange, and changes no result.
pub(crate) struct Divided {
    mesh: Mesh,
    tensors: HashSet<TensorId>,
}

impl Divided {
    /// The divided tensors of `operations`, which get those in `given` divided.
    pub(crate) fn of(
        mesh: Mesh,
        operations: &[OperationIr],
        given: impl IntoIterator<Item = TensorId>,
    ) -> Self {
        let mut groups = Groups {
            places: mesh.places(Axis::Experts),
            parents: HashMap::new(),
            divided: given.into_iter().collect(),
        };
        if groups.places > 1 {
            for operation in operations {
                groups.see(operation);
            }
        }
        let roots: HashSet<TensorId> = groups.divided.iter().map(|id| groups.root(*id)).collect();
        let all = operations.iter().flat_map(OperationIr::nodes);
        let tensors = all.map(|tensor| tensor.id).chain(groups.divided.clone());
        let tensors = tensors.filter(|id| roots.contains(&groups.root(*id)));
        Self {
            mesh,
            tensors: tensors.collect(),
        }
    }

    /// The devices.
    pub(crate) fn mesh(&self) -> Mesh {
        self.mesh
    }

    /// Whether a tensor is divided.
    pub(crate) fn contains(&self, id: TensorId) -> bool {
        self.tensors.contains(&id)
    }
}

/// Groups of tensors that are divided together.
struct Groups {
    /// The places of experts.
    places: usize,
    /// Another tensor of a tensor's group; none for the one that stands for the group.
    parents: HashMap<TensorId, TensorId>,
    /// Tensors that are divided; so are their groups.
    divided: HashSet<TensorId>,
}

impl Groups {
    fn root(&self, id: TensorId) -> TensorId {
        let mut root = id;
        while let Some(parent) = self.parents.get(&root) {
            root = *parent;
        }
        root
    }

    fn join(&mut self, one: TensorId, other: TensorId) {
        let (one, other) = (self.root(one), self.root(other));
        if one != other {
            self.parents.insert(one, other);
        }
    }

    fn see(&mut self, operation: &OperationIr) {
        if let OperationIr::Custom(ir) = operation {
            self.see_custom(ir);
            return;
        }
        // A reshape keeps the parts of equal size, whatever the first dimension becomes.
        let reshapes = matches!(
            operation,
            OperationIr::BaseFloat(BaseOperationIr::Reshape(_))
                | OperationIr::BaseInt(BaseOperationIr::Reshape(_))
                | OperationIr::BaseBool(BaseOperationIr::Reshape(_))
        );
        let inputs: Vec<&TensorIr> = operation.inputs().collect();
        for output in operation.outputs() {
            for input in &inputs {
                let alike = reshapes || input.shape.first() == output.shape.first();
                if alike && self.divides(input) && self.divides(output) {
                    self.join(input.id, output.id);
                }
            }
        }
    }

    fn see_custom(&mut self, ir: &CustomOpIr) {
        let words: Vec<u64> = ir.scalars.iter().copied().map(ScalarIr::elem).collect();
        // A description that can't be read is an error of the lowering.
        let Ok(operation) = custom::unpack(&words) else {
            return;
        };
        let described = operation.signature();
        let operands = described.operands.iter().zip(&ir.inputs);
        let named = operands.chain(described.results.iter().zip(&ir.outputs));
        if experts_of(&operation).is_some_and(|experts| experts.is_multiple_of(self.places)) {
            let stacks = named.filter(|(info, _)| is_stack(info.name));
            self.divided.extend(stacks.map(|(_, tensor)| tensor.id));
        } else if let (Operation::Quantize(_), Some(first)) = (&operation, ir.inputs.first()) {
            for (_, tensor) in named {
                let alike = tensor.shape.first() == first.shape.first();
                if alike && self.divides(tensor) {
                    self.join(tensor.id, first.id);
                }
            }
        }
    }

    /// Whether the places of experts divide the first dimension of a tensor.
    fn divides(&self, tensor: &TensorIr) -> bool {
        let first = tensor.shape.first();
        first.is_some_and(|first| *first > 0 && first.is_multiple_of(self.places))
    }
}

#[cfg(test)]
#[path = "divided_tests.rs"]
mod tests;
