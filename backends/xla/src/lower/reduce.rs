//! Reductions and cumulative sums.

use super::{LowerError, Lowering, tensor_type};
use crate::ElementType;
use crate::stablehlo::{Reduction, Value};
use burn_ir::{DimOpIr, NumericOperationIr, ReduceDimWithIndicesOpIr, TensorIr};

impl Lowering<'_> {
    pub(super) fn reductions(&mut self, op: &NumericOperationIr) -> Result<(), LowerError> {
        use NumericOperationIr as Op;
        use Reduction::{Max, Min, Product, Sum};
        match op {
            Op::Sum(d) => self.reduce(&d.input, &d.out, None, Sum),
            Op::SumDim(d) => self.reduce(&d.input, &d.out, Some(&[d.axis]), Sum),
            Op::SumDims(d) => self.reduce(&d.input, &d.out, Some(&d.axes), Sum),
            Op::Prod(d) => self.reduce(&d.input, &d.out, None, Product),
            Op::ProdDim(d) => self.reduce(&d.input, &d.out, Some(&[d.axis]), Product),
            Op::Max(d) => self.reduce(&d.input, &d.out, None, Max),
            Op::MaxDim(d) => self.reduce(&d.input, &d.out, Some(&[d.axis]), Max),
            Op::Min(d) => self.reduce(&d.input, &d.out, None, Min),
            Op::MinDim(d) => self.reduce(&d.input, &d.out, Some(&[d.axis]), Min),
            Op::MaxAbs(d) => self.max_abs(&d.input, &d.out, None),
            Op::MaxAbsDim(d) => self.max_abs(&d.input, &d.out, Some(&[d.axis])),
            Op::Mean(d) => self.mean(&d.input, &d.out, None),
            Op::MeanDim(d) => self.mean(&d.input, &d.out, Some(&[d.axis])),
            Op::ArgMax(d) => self.arg_extreme(&d.input, &d.out, d.axis, true),
            Op::ArgMin(d) => self.arg_extreme(&d.input, &d.out, d.axis, false),
            Op::MaxDimWithIndices(d) => self.extreme_with_indices(d, true),
            Op::MinDimWithIndices(d) => self.extreme_with_indices(d, false),
            Op::CumSum(d) => self.cumulative(d, Sum),
            Op::CumProd(d) => self.cumulative(d, Product),
            Op::CumMin(d) => self.cumulative(d, Min),
            Op::CumMax(d) => self.cumulative(d, Max),
            other => self.order(other),
        }
    }

    /// The dimensions that are named, or all.
    fn dims(&self, x: Value, axes: Option<&[usize]>) -> Vec<usize> {
        axes.map_or_else(|| (0..self.b.ty(x).rank()).collect(), <[usize]>::to_vec)
    }

    fn reduce(
        &mut self,
        input: &TensorIr,
        out: &TensorIr,
        axes: Option<&[usize]>,
        kind: Reduction,
    ) -> Result<(), LowerError> {
        let x = self.get(input)?;
        let dims = self.dims(x, axes);
        let x = match kind {
            Reduction::Sum | Reduction::Product => self.widen(x),
            _ => x,
        };
        let y = self.b.reduce(kind, x, &dims);
        self.finish(out, y)
    }

    fn max_abs(
        &mut self,
        input: &TensorIr,
        out: &TensorIr,
        axes: Option<&[usize]>,
    ) -> Result<(), LowerError> {
        let x = self.get(input)?;
        let (dims, x) = (self.dims(x, axes), self.absolute(x));
        let y = self.b.reduce(Reduction::Max, x, &dims);
        self.finish(out, y)
    }

    /// Integers are divided towards zero; their sums wrap in their own type.
    fn mean(
        &mut self,
        input: &TensorIr,
        out: &TensorIr,
        axes: Option<&[usize]>,
    ) -> Result<(), LowerError> {
        let x = self.get(input)?;
        let dims = self.dims(x, axes);
        let count: usize = dims.iter().map(|d| self.b.ty(x).shape[*d]).product();
        let x = self.widen(x);
        let sum = self.b.reduce(Reduction::Sum, x, &dims);
        // The count may be larger than a narrow integer.
        let sum = match self.b.element(sum) {
            element if element.is_float() || element == ElementType::U64 => sum,
            _ => self.b.convert(sum, ElementType::S64),
        };
        let count = self.b.splat_like(count as f64, sum);
        let y = self.b.div(sum, count);
        self.finish(out, y)
    }

    fn arg_extreme(
        &mut self,
        input: &TensorIr,
        out: &TensorIr,
        axis: usize,
        max: bool,
    ) -> Result<(), LowerError> {
        let x = self.get(input)?;
        let (_, at) = self.b.arg_extreme(max, x, axis, ElementType::S32);
        self.finish(out, at)
    }

    fn extreme_with_indices(
        &mut self,
        d: &ReduceDimWithIndicesOpIr,
        max: bool,
    ) -> Result<(), LowerError> {
        let x = self.get(&d.tensor)?;
        let (value, at) = self.b.arg_extreme(max, x, d.dim, ElementType::S32);
        self.finish(&d.out, value)?;
        self.finish(&d.out_indices, at)
    }

    fn cumulative(&mut self, d: &DimOpIr, kind: Reduction) -> Result<(), LowerError> {
        let x = self.get(&d.input)?;
        let x = self.widen(x);
        let y = self.b.cumulative(kind, x, d.axis);
        self.finish(&d.out, y)
    }

    /// The mean of x over `dims`, which keep extent 1.
    pub(super) fn mean_keep(&mut self, x: Value, dims: &[usize]) -> Value {
        let count: usize = dims.iter().map(|d| self.b.ty(x).shape[*d]).product();
        let sum = self.b.reduce_keep(Reduction::Sum, x, dims);
        let count = self.b.splat_like(count as f64, sum);
        self.b.div(sum, count)
    }

    /// x as f32 if the output is narrower, and as the output's type otherwise.
    pub(super) fn get_wide(&mut self, tensor: &TensorIr) -> Result<Value, LowerError> {
        tensor_type(tensor)?;
        let x = self.get(tensor)?;
        Ok(self.widen(x))
    }
}
