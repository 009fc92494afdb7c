//! Collectives: exchange between the devices that run one program.

use super::builder::list;
use super::{Builder, Reduction, Value};
use moebius_pjrt::{ElementType, TensorType};
use std::fmt;

/// Groups of devices, of equal size, that exchange within the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaGroups(Vec<Vec<usize>>);

impl ReplicaGroups {
    /// One group of all `devices`.
    pub fn all(devices: usize) -> Self {
        Self(vec![(0..devices).collect()])
    }

    /// The number of devices in each group.
    pub fn size(&self) -> usize {
        self.0[0].len()
    }
}

impl fmt::Display for ReplicaGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = list(self.0.iter().map(list));
        write!(
            f,
            "dense<{rows}> : tensor<{}x{}xi64>",
            self.0.len(),
            self.size()
        )
    }
}

impl Builder {
    /// The reduction of `x` over the devices of a group.
    pub fn all_reduce(&self, kind: Reduction, x: Value, groups: &ReplicaGroups) -> Value {
        let ty = self.ty(x);
        let count = groups.size();
        let more = (2 * (count - 1) * ty.bytes()).div_ceil(count) as u64;
        self.exchanged.update(|bytes| bytes + more);
        let region = self.reducer(kind, ty.element);
        let operation = format_args!(
            "\"stablehlo.all_reduce\"({x}) <{{replica_groups = {groups}}}> ({region})"
        );
        self.typed(operation, &[x], ty)
    }

    /// The `x` of every device of the group, joined along dimension `join` in the order of the devices.
    pub fn all_gather(&self, x: Value, join: usize, groups: &ReplicaGroups) -> Value {
        let from = self.ty(x);
        let count = groups.size();
        let more = ((count - 1) * from.bytes()) as u64;
        self.exchanged.update(|bytes| bytes + more);
        let mut shape = from.shape.clone();
        shape[join] *= count;
        let operation = format_args!(
            "\"stablehlo.all_gather\"({x}) <{{all_gather_dim = {join} : i64, replica_groups = {groups}}}>"
        );
        self.typed(operation, &[x], from.with_shape(shape))
    }

    /// Cuts `x` into equal parts along dimension `split`, sends part i to device i of the group, and joins the received
    /// parts along dimension `join`, in the order of the devices.
    pub fn all_to_all(&self, x: Value, split: usize, join: usize, groups: &ReplicaGroups) -> Value {
        let from = self.ty(x);
        let count = groups.size();
        let more = (from.bytes() / count * (count - 1)) as u64;
        self.exchanged.update(|bytes| bytes + more);
        let mut shape = from.shape.clone();
        shape[split] /= count;
        shape[join] *= count;
        let to = from.with_shape(shape);
        let operation = format_args!(
            "\"stablehlo.all_to_all\"({x}) <{{concat_dimension = {join} : i64, replica_groups = {groups}, \
             split_count = {count} : i64, split_dimension = {split} : i64}}>"
        );
        self.typed(operation, &[x], to)
    }

    /// The `x` of the device `by` places before this one, among `devices` in a circle.
    pub fn rotate(&self, x: Value, by: usize, devices: usize) -> Value {
        if by.is_multiple_of(devices) {
            return x;
        }
        let ty = self.ty(x);
        self.exchanged.update(|bytes| bytes + ty.bytes() as u64);
        let pairs = list((0..devices).map(|from| list([from, (from + by) % devices])));
        let operation = format_args!(
            "\"stablehlo.collective_permute\"({x}) <{{source_target_pairs = dense<{pairs}> : tensor<{devices}x2xi64>}}>"
        );
        self.typed(operation, &[x], ty)
    }

    /// This device's number among the replicas: a ui32 scalar.
    pub fn replica_id(&self) -> Value {
        self.of_type("stablehlo.replica_id", TensorType::scalar(ElementType::U32))
    }
}
