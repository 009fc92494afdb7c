//! Shapes, slices, copies, and elements by index. Reads clamp indices that lie outside, and writes there are left out;
//! Burn's own backends treat both as errors.

use super::{LowerError, Lowering, Result};
use crate::stablehlo::{Builder, Gather, Reduction, Scatter, Value};
use burn_backend::Slice;
use burn_backend::tensor::IndexingUpdateOp;
use burn_ir::{
    BaseOperationIr, CatOpIr, GatherNdOpIr, GatherOpIr, ScalarIr, ScatterNdOpIr, ScatterOpIr,
    SelectAssignOpIr, SliceAssignOpIr, SliceOpIr, TensorIr, UnfoldOpIr,
};
use moebius_pjrt::ElementType::{self, S32};
use moebius_pjrt::TensorType;

/// The range of a slice along one dimension: `count` elements `start`, `start` + `step`, …, in descending order if
/// `reversed`.
struct Range {
    start: usize,
    step: usize,
    count: usize,
    reversed: bool,
}

impl Range {
    /// Converts Burn's slice of a dimension. With a negative step the range is the same, taken from its end.
    fn new(slice: Slice, extent: usize) -> Self {
        let inside = |at: isize| {
            let at = if at < 0 { at + extent as isize } else { at };
            at.clamp(0, extent as isize) as usize
        };
        let (start, end) = (inside(slice.start), slice.end.map_or(extent, inside));
        let step = slice.step.unsigned_abs().max(1);
        let count = end.saturating_sub(start).div_ceil(step);
        let reversed = slice.step < 0;
        let start = if reversed && count > 0 {
            end - 1 - (count - 1) * step
        } else {
            start
        };
        Self {
            start,
            step,
            count,
            reversed,
        }
    }

    /// The index after the last element.
    fn limit(&self) -> usize {
        match self.count {
            0 => self.start,
            count => self.start + (count - 1) * self.step + 1,
        }
    }
}

fn ranges(slices: &[Slice], shape: &[usize]) -> Vec<Range> {
    let all = Slice::new(0, None, 1);
    let slice = |d: usize| slices.get(d).copied().unwrap_or(all);
    let shape = shape.iter().enumerate();
    shape.map(|(d, n)| Range::new(slice(d), *n)).collect()
}

impl Lowering<'_> {
    pub(super) fn layout(&self, op: &BaseOperationIr) -> Result<Value> {
        use BaseOperationIr as Op;
        match op {
            // `operation` sets the shape of results.
            Op::Reshape(d) => self.get(&d.input),
            Op::SwapDims(d) => self.map(&d.input, |b, x| b.swap_dims(x, d.dim1, d.dim2)),
            Op::Permute(d) => self.map(&d.input, |b, x| b.transpose(x, &d.axes)),
            Op::Flip(d) => self.map(&d.input, |b, x| b.reverse(x, &d.axes)),
            Op::Expand(d) => self.map(&d.input, |b, x| b.broadcast_to(x, &d.out.shape)),
            Op::Unfold(d) => self.unfold(d),
            Op::Slice(d) => self.slice(d),
            Op::SliceAssign(d) => self.slice_assign(d),
            // [a, n, b] → [a, times, n, b]
            Op::RepeatDim(d) => self.map(&d.tensor, |b, x| b.repeat_at(x, d.dim, d.times)),
            Op::Cat(d) => self.cat(d),
            other => unreachable!("{other:?} is lowered in elements.rs"),
        }
    }

    fn cat(&self, d: &CatOpIr) -> Result<Value> {
        let values = d.tensors.iter().map(|tensor| self.get(tensor));
        let values = values.collect::<Result<Vec<_>>>()?;
        let some = |value: &Value| self.b.ty(*value).shape[d.dim] > 0;
        let values: Vec<Value> = values.into_iter().filter(some).collect();
        Ok(self.b.concatenate(&values, d.dim))
    }

    fn slice(&self, d: &SliceOpIr) -> Result<Value> {
        let b = self.b;
        let x = self.get(&d.tensor)?;
        let ranges = ranges(&d.ranges, &b.shape(x));
        let start: Vec<usize> = ranges.iter().map(|r| r.start).collect();
        let limit: Vec<usize> = ranges.iter().map(Range::limit).collect();
        let step: Vec<usize> = ranges.iter().map(|r| r.step).collect();
        Ok(b.reversed(b.slice(x, &start, &limit, &step), &ranges))
    }

    fn slice_assign(&self, d: &SliceAssignOpIr) -> Result<Value> {
        let b = self.b;
        let (x, value) = (self.get(&d.tensor)?, self.get(&d.value)?);
        let ranges = ranges(&d.ranges, &b.shape(x));
        let counts: Vec<usize> = ranges.iter().map(|r| r.count).collect();
        if counts.contains(&0) {
            return Ok(x);
        }
        let value = b.cast(value, b.element(x));
        let value = b.reversed(b.broadcast_to(value, &counts), &ranges);
        Ok(if ranges.iter().all(|r| r.step == 1 || r.count == 1) {
            b.write_block(x, value, &ranges)
        } else {
            b.write_spread(x, value, &ranges)
        })
    }

    /// Windows of `size` elements along a dimension; the window becomes the last dimension.
    fn unfold(&self, d: &UnfoldOpIr) -> Result<Value> {
        let b = self.b;
        let x = self.get(&d.input)?;
        let count = d.out.shape[d.dim];
        let y = b.take_along(x, self.windows(count, d.step, d.size), d.dim);
        let mut shape = b.shape(x);
        let rank = shape.len();
        shape.splice(d.dim..=d.dim, [count, d.size]);
        let y = b.reshape(y, &shape);
        let mut permutation: Vec<usize> = (0..=rank).filter(|i| *i != d.dim + 1).collect();
        permutation.push(d.dim + 1);
        Ok(b.transpose(y, &permutation))
    }

    /// The indices i · `step` + j for i < `count`, j < `size`, as a vector \[`count` · `size`\].
    fn windows(&self, count: usize, step: usize, size: usize) -> Value {
        let ty = TensorType::new([count, size], S32);
        let (i, j) = (self.b.iota(ty.clone(), 0), self.b.iota(ty.clone(), 1));
        let i = self.b.mul(i, self.scalar(ScalarIr::UInt(step as u64), ty));
        self.b.reshape(self.b.add(i, j), &[count * size])
    }
}

impl Builder {
    fn reversed(&self, x: Value, ranges: &[Range]) -> Value {
        let reversed = (0..ranges.len()).filter(|d| ranges[*d].reversed);
        match reversed.collect::<Vec<_>>() {
            dims if dims.is_empty() => x,
            dims => self.reverse(x, &dims),
        }
    }

    fn write_block(&self, x: Value, value: Value, ranges: &[Range]) -> Value {
        let scalar = TensorType::scalar(S32);
        let start = |r: &Range| self.splat_int(r.start as i128, scalar.clone());
        let starts: Vec<Value> = ranges.iter().map(start).collect();
        self.dynamic_update_slice(x, value, &starts)
    }

    /// Writes elements with steps between them: zeros fill the steps, and a mask marks the elements.
    fn write_spread(&self, x: Value, value: Value, ranges: &[Range]) -> Value {
        let shape = self.shape(x);
        let low: Vec<i64> = ranges.iter().map(|r| r.start as i64).collect();
        let high = (0..shape.len()).map(|d| (shape[d] - ranges[d].limit()) as i64);
        let high: Vec<i64> = high.collect();
        let interior: Vec<usize> = ranges.iter().map(|r| r.step - 1).collect();
        let zero = self.scalar(0.0, self.element(x));
        let spread = self.pad(value, zero, &low, &high, &interior);
        let there = self.splat(1.0, self.ty(value).with_element(ElementType::Pred));
        let no = self.scalar(0.0, ElementType::Pred);
        self.select(self.pad(there, no, &low, &high, &interior), spread, x)
    }
}

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

    /// Gathers elements along a dimension: element \[…, i, …\] of the result is x\[…, indices\[…, i, …\], …\].
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
    /// Reshapes `indices` to vectors of one element, along a further dimension.
    pub(super) fn index_vectors(&self, indices: Value) -> Value {
        let mut shape = self.shape(indices);
        shape.push(1);
        self.reshape(indices, &shape)
    }
}
