//! Reductions and cumulative sums.

use super::{LowerError, Lowering, tensor_type};
use crate::ElementType;
use crate::stablehlo::{Binary, Reduction, Value};
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
            Op::ArgMax(d) => self.map(&d.input, &d.out, |l, x| l.extreme(x, d.axis, true).1),
            Op::ArgMin(d) => self.map(&d.input, &d.out, |l, x| l.extreme(x, d.axis, false).1),
            Op::MaxDimWithIndices(d) => self.extreme_with_indices(d, true),
            Op::MinDimWithIndices(d) => self.extreme_with_indices(d, false),
            Op::CumSum(d) => self.cumulative(d, Sum),
            Op::CumProd(d) => self.cumulative(d, Product),
            Op::CumMin(d) => self.cumulative(d, Min),
            Op::CumMax(d) => self.cumulative(d, Max),
            other => self.order(other),
        }
    }

    /// `out` = f(`input`, the dimensions that are named, or all)
    fn over(
        &mut self,
        (input, out): (&TensorIr, &TensorIr),
        axes: Option<&[usize]>,
        f: impl FnOnce(&mut Self, Value, &[usize]) -> Value,
    ) -> Result<(), LowerError> {
        self.map(input, out, |l, x| {
            let all: Vec<usize> = (0..l.b.ty(x).rank()).collect();
            f(l, x, axes.unwrap_or(&all))
        })
    }

    fn reduce(
        &mut self,
        input: &TensorIr,
        out: &TensorIr,
        axes: Option<&[usize]>,
        kind: Reduction,
    ) -> Result<(), LowerError> {
        self.over((input, out), axes, |l, x, dims| {
            let x = match kind {
                Reduction::Sum | Reduction::Product => l.widen(x),
                _ => x,
            };
            l.b.reduce(kind, x, dims)
        })
    }

    fn max_abs(
        &mut self,
        input: &TensorIr,
        out: &TensorIr,
        axes: Option<&[usize]>,
    ) -> Result<(), LowerError> {
        self.over((input, out), axes, |l, x, dims| {
            let x = l.absolute(x);
            l.b.reduce(Reduction::Max, x, dims)
        })
    }

    /// Integers are divided towards zero; their sums wrap in their own type.
    fn mean(
        &mut self,
        input: &TensorIr,
        out: &TensorIr,
        axes: Option<&[usize]>,
    ) -> Result<(), LowerError> {
        self.over((input, out), axes, |l, x, dims| {
            let count: usize = dims.iter().map(|d| l.b.ty(x).shape[*d]).product();
            let x = l.widen(x);
            let sum = l.b.reduce(Reduction::Sum, x, dims);
            // The count may be larger than a narrow integer.
            let sum = match l.b.element(sum) {
                element if element.is_float() || element == ElementType::U64 => sum,
                _ => l.b.convert(sum, ElementType::S64),
            };
            l.b.binary_scalar(Binary::Divide, sum, count as f64)
        })
    }

    /// The largest or smallest elements along `dim`, and where they are.
    fn extreme(&mut self, x: Value, dim: usize, max: bool) -> (Value, Value) {
        self.b.arg_extreme(max, x, dim, ElementType::S32)
    }

    fn extreme_with_indices(
        &mut self,
        d: &ReduceDimWithIndicesOpIr,
        max: bool,
    ) -> Result<(), LowerError> {
        let x = self.get(&d.tensor)?;
        let (value, at) = self.extreme(x, d.dim, max);
        self.finish(&d.out, value)?;
        self.finish(&d.out_indices, at)
    }

    fn cumulative(&mut self, d: &DimOpIr, kind: Reduction) -> Result<(), LowerError> {
        self.map_wide(&d.input, &d.out, |l, x| l.b.cumulative(kind, x, d.axis))
    }

    /// The mean of x over `dims`, which keep extent 1.
    pub(super) fn mean_keep(&mut self, x: Value, dims: &[usize]) -> Value {
        let count: usize = dims.iter().map(|d| self.b.ty(x).shape[*d]).product();
        let sum = self.b.reduce_keep(Reduction::Sum, x, dims);
        self.b.binary_scalar(Binary::Divide, sum, count as f64)
    }

    /// x as f32 if the output is narrower, and as the output's type otherwise.
    pub(super) fn get_wide(&mut self, tensor: &TensorIr) -> Result<Value, LowerError> {
        tensor_type(tensor)?;
        let x = self.get(tensor)?;
        Ok(self.widen(x))
    }
}
