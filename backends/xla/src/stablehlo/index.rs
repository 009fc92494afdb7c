//! Indexing (gather and scatter) and sorting.

use super::builder::{array, joined, list};
use super::{Builder, Reduction, Value};
use moebius_pjrt::TensorType;

/// Dimension numbers of a [`Builder::gather`], named as in StableHLO's specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the specification has the definitions")]
pub struct Gather {
    pub offset_dims: Vec<usize>,
    pub collapsed_slice_dims: Vec<usize>,
    pub operand_batching_dims: Vec<usize>,
    pub start_indices_batching_dims: Vec<usize>,
    pub start_index_map: Vec<usize>,
    pub index_vector_dim: usize,
    pub slice_sizes: Vec<usize>,
}

/// Dimension numbers of a [`Builder::scatter`], named as in StableHLO's specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the specification has the definitions")]
pub struct Scatter {
    pub update_window_dims: Vec<usize>,
    pub inserted_window_dims: Vec<usize>,
    pub input_batching_dims: Vec<usize>,
    pub scatter_indices_batching_dims: Vec<usize>,
    pub scatter_dims_to_operand_dims: Vec<usize>,
    pub index_vector_dim: usize,
    pub unique_indices: bool,
}

/// Writes dimension numbers as attributes need them; those of batches only if there are any.
macro_rules! numbers {
    ($of:ident: $($name:ident)*) => {{
        let all = [$((stringify!($name), &$of.$name)),*].into_iter();
        let said = all.filter(|(name, dims)| !name.contains("batching") || !dims.is_empty());
        said.map(|(name, dims)| format!("{name} = {}, ", list(dims))).collect::<String>()
    }};
}

impl Builder {
    /// Slices of `x` at `indices`, which are clamped to the tensor.
    pub fn gather(&self, x: Value, indices: Value, g: &Gather) -> Value {
        let to = self.ty(x).with_shape(gather_shape(&self.ty(indices), g));
        let numbers = numbers!(g: offset_dims collapsed_slice_dims operand_batching_dims
            start_indices_batching_dims start_index_map);
        let vector = g.index_vector_dim;
        let sizes = array(&g.slice_sizes);
        let operation = format_args!(
            "\"stablehlo.gather\"({x}, {indices}) <{{dimension_numbers = \
             #stablehlo.gather<{numbers}index_vector_dim = {vector}>, \
             indices_are_sorted = false, slice_sizes = {sizes}}}>"
        );
        self.typed(operation, &[x, indices], to)
    }

    /// `x` with `updates` combined into it at `indices`; updates that reach outside are left out. Without `kind`,
    /// updates replace the old elements, and indices must be unique.
    pub fn scatter(
        &self,
        (x, indices, updates): (Value, Value, Value),
        s: &Scatter,
        kind: Option<Reduction>,
    ) -> Value {
        let to = self.ty(x);
        let scalar = TensorType::scalar(to.element);
        let region = match kind {
            Some(kind) => self.reducer(kind, to.element),
            None => self.region(&[scalar.clone(), scalar], |_, args| vec![args[1]]),
        };
        let numbers = numbers!(s: update_window_dims inserted_window_dims input_batching_dims
            scatter_indices_batching_dims scatter_dims_to_operand_dims);
        let (vector, unique) = (s.index_vector_dim, s.unique_indices);
        let operation = format_args!(
            "\"stablehlo.scatter\"({x}, {indices}, {updates}) <{{indices_are_sorted = false, \
             scatter_dimension_numbers = #stablehlo.scatter<{numbers}index_vector_dim = {vector}>, \
             unique_indices = {unique}}}> ({region})"
        );
        self.typed(operation, &[x, indices, updates], to)
    }

    /// Slices of `x` along dimension 0 at `indices` \[n\]: \[n, …\]. Indices are clamped to the dimension.
    pub fn take(&self, x: Value, indices: Value) -> Value {
        self.take_along(x, indices, 0)
    }

    /// Slices of `x` along dimension `dim` at `indices` \[n\]. Indices are clamped to the dimension.
    pub fn take_along(&self, x: Value, indices: Value, dim: usize) -> Value {
        let mut slice_sizes = self.shape(x);
        slice_sizes[dim] = 1;
        let g = Gather {
            offset_dims: (0..slice_sizes.len()).filter(|d| *d != dim).collect(),
            collapsed_slice_dims: vec![dim],
            start_index_map: vec![dim],
            index_vector_dim: 1,
            slice_sizes,
            ..Gather::default()
        };
        self.gather(x, indices, &g)
    }

    /// `x` with slices of `updates` \[n, …\] combined into it along dimension 0 at `indices` \[n\]; slices outside are
    /// left out. Without `kind`, they replace the old ones, and indices must be unique.
    pub fn put(&self, x: Value, indices: Value, updates: Value, kind: Option<Reduction>) -> Value {
        let s = Scatter {
            update_window_dims: (1..self.ty(x).rank()).collect(),
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            unique_indices: kind.is_none(),
            ..Scatter::default()
        };
        self.scatter((x, indices, updates), &s, kind)
    }

    /// Sorts values of one shape together along `dim`, in the order that `less` gives; equal elements keep their order.
    /// `less` gets, for each value in turn, its left and its right element.
    pub fn sort(
        &self,
        values: &[Value],
        dim: usize,
        less: impl FnOnce(&Self, &[Value]) -> Value,
    ) -> Vec<Value> {
        let types = self.types(values);
        let pairs = types.iter().flat_map(|ty| {
            let scalar = TensorType::scalar(ty.element);
            [scalar.clone(), scalar]
        });
        let pairs: Vec<TensorType> = pairs.collect();
        let region = self.region(&pairs, |b, args| vec![less(b, args)]);
        let names = joined(values);
        let operation = format_args!(
            "\"stablehlo.sort\"({names}) <{{dimension = {dim} : i64, is_stable = true}}> ({region})"
        );
        self.typed_many(operation, values, types)
    }
}

fn gather_shape(indices: &TensorType, g: &Gather) -> Vec<usize> {
    let batch = (0..indices.rank()).filter(|d| *d != g.index_vector_dim);
    let mut batch = batch.map(|d| indices.shape[d]);
    let dropped =
        |d: &usize| g.collapsed_slice_dims.contains(d) || g.operand_batching_dims.contains(d);
    let mut offsets = (0..g.slice_sizes.len())
        .filter(|d| !dropped(d))
        .map(|d| g.slice_sizes[d]);
    let vector = usize::from(g.index_vector_dim < indices.rank());
    let rank = indices.rank() - vector + g.offset_dims.len();
    let extent = |d: usize| {
        if g.offset_dims.contains(&d) {
            offsets.next()
        } else {
            batch.next()
        }
    };
    (0..rank).filter_map(extent).collect()
}
