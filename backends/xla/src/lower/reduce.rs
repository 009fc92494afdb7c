//! Reductions and cumulative sums.

use super::{Lowering, Result, tensor_type};
use crate::stablehlo::{Builder, Reduction, Value};
use burn_ir::{DimOpIr, NumericOperationIr, TensorIr};
use moebius_pjrt::ElementType;

impl Lowering<'_> {
    pub(super) fn reductions(&self, op: &NumericOperationIr) -> Result<Value> {
        use NumericOperationIr as Op;
        use Reduction::{Max, Min, Product, Sum};
        match op {
            Op::Sum(d) => self.over(&d.input, None, Builder::total),
            Op::SumDim(d) => self.over(&d.input, Some(&[d.axis]), Builder::total),
            Op::SumDims(d) => self.over(&d.input, Some(&d.axes), Builder::total),
            Op::Prod(d) => self.over(&d.input, None, Builder::product_of),
            Op::ProdDim(d) => self.over(&d.input, Some(&[d.axis]), Builder::product_of),
            Op::Max(d) => self.over(&d.input, None, |b, x, dims| b.reduce(Max, x, dims)),
            Op::MaxDim(d) => self.over(&d.input, Some(&[d.axis]), |b, x, dims| {
                b.reduce(Max, x, dims)
            }),
            Op::Min(d) => self.over(&d.input, None, |b, x, dims| b.reduce(Min, x, dims)),
            Op::MinDim(d) => self.over(&d.input, Some(&[d.axis]), |b, x, dims| {
                b.reduce(Min, x, dims)
            }),
            Op::MaxAbs(d) => self.over(&d.input, None, Builder::largest_absolute),
            Op::MaxAbsDim(d) => self.over(&d.input, Some(&[d.axis]), Builder::largest_absolute),
            Op::Mean(d) => self.over(&d.input, None, Builder::mean),
            Op::MeanDim(d) => self.over(&d.input, Some(&[d.axis]), Builder::mean),
            Op::ArgMax(d) => self.map(&d.input, |b, x| b.arg_extreme(true, x, d.axis)[1]),
            Op::ArgMin(d) => self.map(&d.input, |b, x| b.arg_extreme(false, x, d.axis)[1]),
            Op::CumSum(d) => self.cumulative(d, Sum),
            Op::CumProd(d) => self.cumulative(d, Product),
            Op::CumMin(d) => self.cumulative(d, Min),
            Op::CumMax(d) => self.cumulative(d, Max),
            other => self.order(other),
        }
    }

    /// `out` = f(`input`, the dimensions that are named, or all)
    pub(super) fn over(
        &self,
        input: &TensorIr,
        axes: Option<&[usize]>,
        f: impl FnOnce(&Builder, Value, &[usize]) -> Value,
    ) -> Result<Value> {
        self.map(input, |b, x| {
            let all: Vec<usize> = (0..b.ty(x).rank()).collect();
            f(b, x, axes.unwrap_or(&all))
        })
    }

    fn cumulative(&self, d: &DimOpIr, kind: Reduction) -> Result<Value> {
        self.map_wide(&d.input, |b, x| b.cumulative(kind, x, d.axis))
    }

    /// x as f32 if the output is narrower, and as the output's type otherwise.
    pub(super) fn get_wide(&self, tensor: &TensorIr) -> Result<Value> {
        tensor_type(tensor)?;
        Ok(self.b.widen(self.get(tensor)?))
    }
}

impl Builder {
    fn total(&self, x: Value, dims: &[usize]) -> Value {
        self.sum(self.widen(x), dims)
    }

    fn product_of(&self, x: Value, dims: &[usize]) -> Value {
        self.reduce(Reduction::Product, self.widen(x), dims)
    }

    fn largest_absolute(&self, x: Value, dims: &[usize]) -> Value {
        self.reduce(Reduction::Max, self.absolute(x), dims)
    }

    /// Integers are divided towards zero; their sums wrap in their own type.
    fn mean(&self, x: Value, dims: &[usize]) -> Value {
        let sum = self.total(x, dims);
        // The count may be larger than a narrow integer.
        let sum = match self.element(sum) {
            element if element.is_float() || element == ElementType::U64 => sum,
            _ => self.convert(sum, ElementType::S64),
        };
        self.div(sum, self.count(x, dims))
    }

    /// How many elements of x are reduced to one.
    fn count(&self, x: Value, dims: &[usize]) -> f64 {
        let shape = self.shape(x);
        dims.iter().map(|d| shape[*d]).product::<usize>() as f64
    }

    /// The mean of x over `dims`, which keep extent 1.
    pub(super) fn mean_keep(&self, x: Value, dims: &[usize]) -> Value {
        self.div(
            self.reduce_keep(Reduction::Sum, x, dims),
            self.count(x, dims),
        )
    }
}
