//! Programs over several devices: the mesh of their devices, and the parts of a program that every device computes for
//! itself.
//!
//! XLA's partitioner (Shardy) cuts a program with a [`Mesh`] into one for each device. It decides how values lie on the
//! devices, except arguments, results, and what goes into a [`Builder::part`] and comes out of it: these say so.

use super::builder::{joined, list, operands_and_types};
use super::{Builder, Reduction, Value};
use moebius_ops::{Fault, Mismatch};
use moebius_pjrt::{CompileOptions, TensorType};

/// The devices of a program, in rows of `data` devices, one row for each of `experts` places.
///
/// The devices of a row have the same experts and different tokens; devices in one place of all rows have different
/// experts and the same tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mesh {
    experts: usize,
    data: usize,
}

/// A direction of a [`Mesh`], along which the first dimension of a tensor can be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// From row to row.
    Experts,
    /// Within a row.
    Data,
}

impl Axis {
    const fn name(self) -> &'static str {
        match self {
            Self::Experts => "experts",
            Self::Data => "data",
        }
    }
}

impl Mesh {
    /// A mesh of `experts` · `data` devices.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] when either is 0, or for more devices than a program can be compiled for.
    pub fn new(experts: usize, data: usize) -> Result<Self, Mismatch> {
        for (what, places) in [("places of experts", experts), ("places of data", data)] {
            Fault::Config.unless(places > 0, what, "at least 1", places)?;
        }
        let (devices, most) = (experts.saturating_mul(data), CompileOptions::MAX_DEVICES);
        let expected = format_args!("at most {most}");
        Fault::Config.unless(devices <= most, "devices of a mesh", expected, devices)?;
        Ok(Self { experts, data })
    }

    /// The number of places of an axis.
    pub fn places(&self, axis: Axis) -> usize {
        match axis {
            Axis::Experts => self.experts,
            Axis::Data => self.data,
        }
    }

    /// The number of devices.
    pub fn devices(&self) -> usize {
        self.experts * self.data
    }

    /// The place along `axis` of the device with this number.
    pub fn place(&self, axis: Axis, device: usize) -> usize {
        match axis {
            Axis::Experts => device / self.data,
            Axis::Data => device % self.data,
        }
    }

    /// The type that a tensor has on each device when its first dimension is divided along `axis`.
    pub fn local(&self, ty: &TensorType, axis: Option<Axis>) -> TensorType {
        self.scaled(ty, axis, |extent, places| extent / places)
    }

    fn scaled(
        &self,
        ty: &TensorType,
        axis: Option<Axis>,
        change: impl Fn(usize, usize) -> usize,
    ) -> TensorType {
        let Some(axis) = axis else {
            return ty.clone();
        };
        let mut shape = ty.shape.clone();
        shape[0] = change(shape[0], self.places(axis));
        ty.with_shape(shape)
    }

    /// The line that declares the mesh.
    pub(super) fn declaration(&self) -> String {
        let Self { experts, data } = self;
        format!("  sdy.mesh @mesh = <[\"experts\"={experts}, \"data\"={data}]>\n")
    }

    /// The division of a tensor of `rank` dimensions, as `sdy` writes it.
    pub(super) fn sharding(rank: usize, axis: Option<Axis>) -> String {
        let dimension = |d: usize| match axis {
            Some(axis) if d == 0 => format!("{{\"{}\"}}", axis.name()),
            _ => "{}".to_owned(),
        };
        format!("<@mesh, {}>", list((0..rank).map(dimension)))
    }

    /// The devices that differ only along `axes`, as lists of their numbers.
    fn groups(&self, axes: &[Axis]) -> Vec<Vec<usize>> {
        let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for device in 0..self.devices() {
            let others = [Axis::Experts, Axis::Data].into_iter();
            let others = others.filter(|axis| !axes.contains(axis));
            let place: Vec<usize> = others.map(|axis| self.place(axis, device)).collect();
            match groups.iter_mut().find(|(other, _)| *other == place) {
                Some((_, group)) => group.push(device),
                None => groups.push((place, vec![device])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

impl Builder {
    /// Appends a part of the program that every device computes for itself, on its share of `operands`: all of an
    /// operand, or its part along an axis. `results` says what of each result the devices make; a result that isn't
    /// divided must be the same on all devices. In a program without a mesh, the part is what `body` appends.
    ///
    /// # Errors
    ///
    /// The errors of `body`.
    pub fn part<E>(
        &self,
        operands: &[(Value, Option<Axis>)],
        results: &[Option<Axis>],
        body: impl FnOnce(&Self, &[Value]) -> Result<Vec<Value>, E>,
    ) -> Result<Vec<Value>, E> {
        let values: Vec<Value> = operands.iter().map(|(value, _)| *value).collect();
        let Some(mesh) = self.mesh() else {
            return body(self, &values);
        };
        let local = operands
            .iter()
            .map(|(value, axis)| self.value(mesh.local(&self.ty(*value), *axis)));
        let local: Vec<Value> = local.collect();
        let (inner, made) = self.aside(|| {
            self.inside.set(true);
            let made = body(self, &local);
            self.inside.set(false);
            made.inspect(|made| {
                let made = operands_and_types(made, &self.types(made));
                self.line(format_args!("sdy.return{made}"));
            })
        });
        let made = self.types(&made?);
        let types = made
            .iter()
            .zip(results)
            .map(|(ty, axis)| mesh.scaled(ty, *axis, |extent, places| extent * places));
        let of = |ty: &TensorType, axis| Mesh::sharding(ty.rank(), axis);
        let given = operands
            .iter()
            .map(|(value, axis)| of(&self.ty(*value), *axis));
        let taken = made.iter().zip(results).map(|(ty, axis)| of(ty, *axis));
        let arguments = local.iter().map(|v| format!("{v}: {}", self.ty(*v)));
        let operation = format!(
            "sdy.manual_computation({}) in_shardings={} out_shardings={} manual_axes={{\"experts\", \"data\"}} ({}) \
             {{\n{inner}{:indent$}}}",
            joined(&values),
            list(given),
            list(taken),
            joined(arguments),
            "",
            indent = self.indent(),
        );
        Ok(self.typed_many(operation, &values, types.collect()))
    }

    /// The sum of the `x` of all devices that differ only along `axes`, inside a [`Builder::part`].
    pub fn sum_over(&self, x: Value, axes: &[Axis]) -> Value {
        self.combined_over(Reduction::Sum, x, axes)
    }

    /// As [`Builder::sum_over`], with another reduction.
    pub fn combined_over(&self, kind: Reduction, x: Value, axes: &[Axis]) -> Value {
        let Some(mesh) = self.mesh else {
            return x;
        };
        let groups = mesh.groups(axes);
        let (count, size) = (groups.len(), groups[0].len());
        if size == 1 {
            return x;
        }
        let groups = list(groups.iter().map(list));
        self.channels.update(|channel| channel + 1);
        let channel = self.channels.get();
        let ty = self.ty(x);
        let region = self.reducer(kind, ty.element);
        let operation = format_args!(
            "\"stablehlo.all_reduce\"({x}) <{{channel_handle = #stablehlo.channel_handle<handle = {channel}, type = 1>, \
             replica_groups = dense<{groups}> : tensor<{count}x{size}xi64>, use_global_device_ids}}> ({region})"
        );
        self.typed(operation, &[x], ty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_differ_along_their_axes() {
        let mesh = Mesh::new(2, 3).unwrap();
        let groups = |axes: &[Axis]| mesh.groups(axes);
        assert_eq!(
            groups(&[Axis::Experts]),
            [vec![0, 3], vec![1, 4], vec![2, 5]]
        );
        assert_eq!(groups(&[Axis::Data]), [vec![0, 1, 2], vec![3, 4, 5]]);
        let all = [vec![0, 1, 2, 3, 4, 5]];
        assert_eq!(groups(&[Axis::Experts, Axis::Data]), all);
        let places = |axis| (0..6).map(|i| mesh.place(axis, i)).collect::<Vec<_>>();
        assert_eq!(places(Axis::Experts), [0, 0, 0, 1, 1, 1]);
        assert_eq!(places(Axis::Data), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_mesh_has_devices() {
        let refused = |experts, data| Mesh::new(experts, data).unwrap_err().to_string();
        assert!(refused(0, 2).starts_with("places of experts: expected"));
        assert!(refused(2, 0).starts_with("places of data: expected"));
        assert!(refused(1 << 9, 1 << 9).starts_with("devices of a mesh: expected"));
    }
}
