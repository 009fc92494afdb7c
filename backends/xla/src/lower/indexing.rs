//! Elements by index. Indices that lie outside are moved inside by reads, and writes there are left out;
//! Burn's own backends call both an error.

use super::{LowerError, Lowering, Result};
use crate::stablehlo::{Builder, Gather, Reduction, Scatter, Value};
use burn_backend::tensor::IndexingUpdateOp;
use burn_ir::{GatherNdOpIr, GatherOpIr, ScatterNdOpIr, ScatterOpIr, SelectAssignOpIr, TensorIr};
use moebius_pjrt::ElementType;

impl Lowering<'_> {
    pub(super) fn select_assign(&self, d: &SelectAssignOpIr) -> Result<Value> {
        let at = self.get(&d.indices)?;
        let x = self.get(&d.tensor)?;
        let s = Scatter {
            update_window_dims: (0..self.b.ty(x).rank()).filter(|i| *i != d.dim).collect(),
            inserted_window_dims: vec![d.dim],
            scatter_dims_to_operand_dims: vec![d.dim],
            index_vector_dim: 1,
            ..Scatter::default()
        };
        self.write((&d.tensor, at, &d.value), d.update, &s)
    }

    /// Element \[…, i, …\] of the result is x\[…, indices\[…, i, …\], …\].
    pub(super) fn gather(&self, d: &GatherOpIr) -> Result<Value> {
        let (x, at) = (self.get(&d.tensor)?, self.get(&d.indices)?);
        let mut limit = self.b.shape(at);
        let rank = limit.len();
        limit[d.dim] = self.b.ty(x).shape[d.dim];
        let x = self.b.slice(x, &vec![0; rank], &limit, &vec![1; rank]);
        let batch: Vec<usize> = (0..rank).filter(|i| *i != d.dim).collect();
        let at = self.b.index_vectors(at);
        let g = Gather {
            collapsed_slice_dims: vec![d.dim],
            operand_batching_dims: batch.clone(),
            start_indices_batching_dims: batch,
            start_index_map: vec![d.dim],
            index_vector_dim: rank,
            slice_sizes: vec![1; rank],
            ..Gather::default()
        };
        Ok(self.b.gather(x, at, &g))
    }

    pub(super) fn scatter(&self, d: &ScatterOpIr) -> Result<Value> {
        let at = self.get(&d.indices)?;
        let (of, to) = (self.b.shape(at), self.b.shape(self.get(&d.tensor)?));
        let rank = of.len();
        let batch: Vec<usize> = (0..rank).filter(|i| *i != d.dim).collect();
        if batch.iter().any(|i| of[*i] != to[*i]) {
            return Err(LowerError::Unsupported(format!(
                "Scatter of indices {of:?} into {to:?}"
            )));
        }
        let at = self.b.index_vectors(at);
        let s = Scatter {
            inserted_window_dims: vec![d.dim],
            input_batching_dims: batch.clone(),
            scatter_indices_batching_dims: batch,
            scatter_dims_to_operand_dims: vec![d.dim],
            index_vector_dim: rank,
            ..Scatter::default()
        };
        self.write((&d.tensor, at, &d.value), d.update, &s)
    }

    pub(super) fn gather_nd(&self, d: &GatherNdOpIr) -> Result<Value> {
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
        Ok(self.b.gather(x, at, &g))
    }

    pub(super) fn scatter_nd(&self, d: &ScatterNdOpIr) -> Result<Value> {
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
        self.write((&d.data, at, &d.values), d.reduction, &s)
    }

    fn write(
        &self,
        (tensor, at, values): (&TensorIr, Value, &TensorIr),
        update: IndexingUpdateOp,
        s: &Scatter,
    ) -> Result<Value> {
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
        let values = self.b.cast(values, element);
        Ok(match self.b.ty(values).elements() {
            0 => x,
            _ => self.b.scatter((x, at, values), s, kind),
        })
    }
}

impl Builder {
    /// `indices` as vectors of one element, along a further dimension.
    pub(super) fn index_vectors(&self, indices: Value) -> Value {
        let mut shape = self.shape(indices);
        shape.push(1);
        self.reshape(indices, &shape)
    }
}
