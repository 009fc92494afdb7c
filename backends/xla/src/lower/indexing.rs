//! Elements by index. Indices that lie outside are moved inside by reads, and writes there are left out;
//! Burn's own backends call both an error.

use super::{LowerError, Lowering};
use crate::ElementType;
use crate::stablehlo::{Gather, Reduction, Scatter, Value};
use burn_backend::tensor::IndexingUpdateOp;
use burn_ir::{
    GatherNdOpIr, GatherOpIr, ScatterNdOpIr, ScatterOpIr, SelectAssignOpIr, SelectOpIr, TensorIr,
};

impl Lowering<'_> {
    /// Slices of x at `indices` \[n\] along `dim`.
    pub(super) fn take_along(&mut self, x: Value, indices: Value, dim: usize) -> Value {
        let mut slice_sizes = self.b.shape(x);
        slice_sizes[dim] = 1;
        let offset_dims = (0..slice_sizes.len()).filter(|d| *d != dim).collect();
        let g = Gather {
            offset_dims,
            collapsed_slice_dims: vec![dim],
            start_index_map: vec![dim],
            index_vector_dim: 1,
            slice_sizes,
            ..Gather::default()
        };
        self.b.gather(x, indices, &g)
    }

    pub(super) fn select_indices(&mut self, d: &SelectOpIr) -> Result<(), LowerError> {
        let (x, at) = (self.get(&d.tensor)?, self.get(&d.indices)?);
        let y = self.take_along(x, at, d.dim);
        self.finish(&d.out, y)
    }

    pub(super) fn select_assign(&mut self, d: &SelectAssignOpIr) -> Result<(), LowerError> {
        let at = self.get(&d.indices)?;
        let x = self.get(&d.tensor)?;
        let s = Scatter {
            update_window_dims: (0..self.b.ty(x).rank()).filter(|i| *i != d.dim).collect(),
            inserted_window_dims: vec![d.dim],
            scatter_dims_to_operand_dims: vec![d.dim],
            index_vector_dim: 1,
            ..Scatter::default()
        };
        self.write((&d.tensor, at, &d.value), d.update, &s, &d.out)
    }

    /// Element \[…, i, …\] of the result is x\[…, indices\[…, i, …\], …\].
    pub(super) fn gather(&mut self, d: &GatherOpIr) -> Result<(), LowerError> {
        let (x, at) = (self.get(&d.tensor)?, self.get(&d.indices)?);
        let mut limit = self.b.shape(at);
        let rank = limit.len();
        limit[d.dim] = self.b.ty(x).shape[d.dim];
        let x = self.b.slice(x, &vec![0; rank], &limit, &vec![1; rank]);
        let batch: Vec<usize> = (0..rank).filter(|i| *i != d.dim).collect();
        let at = self.index_vectors(at);
        let g = Gather {
            collapsed_slice_dims: vec![d.dim],
            operand_batching_dims: batch.clone(),
            start_indices_batching_dims: batch,
            start_index_map: vec![d.dim],
            index_vector_dim: rank,
            slice_sizes: vec![1; rank],
            ..Gather::default()
        };
        let y = self.b.gather(x, at, &g);
        self.finish(&d.out, y)
    }

    pub(super) fn scatter(&mut self, d: &ScatterOpIr) -> Result<(), LowerError> {
        let at = self.get(&d.indices)?;
        let (of, to) = (self.b.shape(at), self.b.shape(self.get(&d.tensor)?));
        let rank = of.len();
        let batch: Vec<usize> = (0..rank).filter(|i| *i != d.dim).collect();
        if batch.iter().any(|i| of[*i] != to[*i]) {
            return Err(LowerError::Unsupported {
                operation: format!("Scatter of indices {of:?} into {to:?}"),
            });
        }
        let at = self.index_vectors(at);
        let s = Scatter {
            inserted_window_dims: vec![d.dim],
            input_batching_dims: batch.clone(),
            scatter_indices_batching_dims: batch,
            scatter_dims_to_operand_dims: vec![d.dim],
            index_vector_dim: rank,
            ..Scatter::default()
        };
        self.write((&d.tensor, at, &d.value), d.update, &s, &d.out)
    }

    pub(super) fn gather_nd(&mut self, d: &GatherNdOpIr) -> Result<(), LowerError> {
        let (x, at) = (self.get(&d.data)?, self.get(&d.indices)?);
        let (mut slice_sizes, rank) = (self.b.shape(x), self.b.ty(at).rank());
        let depth = self.b.ty(at).shape[rank - 1];
        slice_sizes[..depth].fill(1);
        let g = Gather {
            offset_dims: (rank - 1..rank - 1 + slice_sizes.len() - depth).collect(),
            collapsed_slice_dims: (0..depth).collect(),
            start_index_map: (0..depth).collect(),
            index_vector_dim: rank - 1,
            slice_sizes,
            ..Gather::default()
        };
        let y = self.b.gather(x, at, &g);
        self.finish(&d.out, y)
    }

    pub(super) fn scatter_nd(&mut self, d: &ScatterNdOpIr) -> Result<(), LowerError> {
        let at = self.get(&d.indices)?;
        let (rank, whole) = (self.b.ty(at).rank(), self.b.ty(self.get(&d.data)?).rank());
        let depth = self.b.ty(at).shape[rank - 1];
        let s = Scatter {
            update_window_dims: (rank - 1..rank - 1 + whole - depth).collect(),
            inserted_window_dims: (0..depth).collect(),
            scatter_dims_to_operand_dims: (0..depth).collect(),
            index_vector_dim: rank - 1,
            ..Scatter::default()
        };
        self.write((&d.data, at, &d.values), d.reduction, &s, &d.out)
    }

    /// `indices` as vectors of one element, along a further dimension.
    pub(super) fn index_vectors(&mut self, indices: Value) -> Value {
        let mut shape = self.b.shape(indices);
        shape.push(1);
        self.b.reshape(indices, &shape)
    }

    fn write(
        &mut self,
        (tensor, at, values): (&TensorIr, Value, &TensorIr),
        update: IndexingUpdateOp,
        s: &Scatter,
        out: &TensorIr,
    ) -> Result<(), LowerError> {
        let (x, values) = (self.get(tensor)?, self.get(values)?);
        let element = self.b.element(x);
        let kind = match (update, element) {
            (IndexingUpdateOp::Assign, _) => None,
            (IndexingUpdateOp::Add, ElementType::Pred) => Some(Reduction::Or),
            (IndexingUpdateOp::Add, _) => Some(Reduction::Sum),
            (IndexingUpdateOp::Mul, ElementType::Pred) => Some(Reduction::And),
            (IndexingUpdateOp::Mul, _) => Some(Reduction::Product),
            (IndexingUpdateOp::Min, _) => Some(Reduction::Min),
            (IndexingUpdateOp::Max, _) => Some(Reduction::Max),
        };
        let values = self.cast(values, element);
        let y = match self.b.ty(values).elements() {
            0 => x,
            _ => self.b.scatter((x, at, values), s, kind),
        };
        self.finish(out, y)
    }
}
