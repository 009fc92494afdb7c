//! Arithmetic of floats and integers, reductions, cumulative sums, sorting, and the largest elements. Floats are sorted in
//! their total order: −NaN, −∞, …, −0, 0, …, ∞, NaN.

use super::{Lowering, Result, tensor_type};
use crate::stablehlo::{Binary, Builder, Compare, Reduction, Unary, Value};
use burn_ir::{ClampOpIr, DimOpIr, NumericOperationIr, PadModeIr, PadOpIr, ScalarOpIr, TensorIr};
use moebius_pjrt::{ElementType, TensorType};

impl Lowering<'_> {
    /// Lowers the operations that floats and integers share.
    pub(super) fn numeric(&self, op: &NumericOperationIr) -> Result<Vec<Value>> {
        use NumericOperationIr as Op;
        Ok(match op {
            Op::SortWithIndices(d) => {
                let x = self.get(&d.input)?;
                self.b.sorted_with_indices(x, d.dim, d.descending)
            }
            Op::TopKWithIndices(d) => {
                let both = self
                    .b
                    .sorted_with_indices(self.get(&d.tensor)?, d.dim, true);
                let first = |all| self.b.slice_dim(all, d.dim, 0..d.k);
                both.into_iter().map(first).collect()
            }
            Op::MaxDimWithIndices(d) => self.b.arg_extreme(true, self.get(&d.tensor)?, d.dim),
            Op::MinDimWithIndices(d) => self.b.arg_extreme(false, self.get(&d.tensor)?, d.dim),
            other => vec![self.arithmetic(other)?],
        })
    }

    fn arithmetic(&self, op: &NumericOperationIr) -> Result<Value> {
        use NumericOperationIr as Op;
        match op {
            Op::Add(d) => self.binary(d, Binary::Add),
            Op::Sub(d) => self.binary(d, Binary::Subtract),
            Op::Mul(d) => self.binary(d, Binary::Multiply),
            Op::Div(d) => self.binary(d, Binary::Divide),
            Op::Rem(d) => self.map_two(d, Builder::modulo),
            Op::AddScalar(d) => self.binary_scalar(d, Binary::Add),
            Op::SubScalar(d) => self.binary_scalar(d, Binary::Subtract),
            Op::MulScalar(d) => self.binary_scalar(d, Binary::Multiply),
            Op::DivScalar(d) => self.binary_scalar(d, Binary::Divide),
            Op::RemScalar(d) => self.map_scalar(d, Builder::modulo),
            Op::ClampMin(d) => self.binary_scalar(d, Binary::Maximum),
            Op::ClampMax(d) => self.binary_scalar(d, Binary::Minimum),
            Op::Clamp(d) => self.clamp(d),
            Op::Powi(d) => self.binary(d, Binary::Power),
            Op::PowiScalar(d) => self.power_scalar(d),
            Op::Greater(d) => self.compare(d, Compare::Gt),
            Op::GreaterEqual(d) => self.compare(d, Compare::Ge),
            Op::Lower(d) => self.compare(d, Compare::Lt),
            Op::LowerEqual(d) => self.compare(d, Compare::Le),
            Op::GreaterElem(d) => self.compare_scalar(d, Compare::Gt),
            Op::GreaterEqualElem(d) => self.compare_scalar(d, Compare::Ge),
            Op::LowerElem(d) => self.compare_scalar(d, Compare::Lt),
            Op::LowerEqualElem(d) => self.compare_scalar(d, Compare::Le),
            Op::Abs(d) => self.map(&d.input, Builder::absolute),
            Op::Neg(d) => self.map(&d.input, |b, x| b.neg(x)),
            Op::Sign(d) => self.map(&d.input, Builder::sign),
            Op::Full(d) => Ok(self.scalar(d.value, tensor_type(&d.out)?)),
            Op::IntRandom(d) => self.random_numbers(d),
            Op::Pad(d) => self.pad(d),
            other => self.reductions(other),
        }
    }

    fn clamp(&self, d: &ClampOpIr) -> Result<Value> {
        let x = self.get(&d.tensor)?;
        let ty = self.b.ty(x);
        let (low, high) = (self.scalar(d.min, ty.clone()), self.scalar(d.max, ty));
        Ok(self.b.min(self.b.max(x, low), high))
    }

    /// `x` to the power of a scalar; small integer powers are products, as in Burn's backends.
    pub(super) fn power_scalar(&self, d: &ScalarOpIr) -> Result<Value> {
        let x = self.get(&d.lhs)?;
        let ty = self.b.ty(x);
        let float = ty.element.is_float();
        Ok(match d.rhs.elem::<f64>() {
            0.0 => self.b.splat(1.0, ty),
            1.0 => x,
            2.0 => self.b.mul(x, x),
            -1.0 if float => self.b.reciprocal(x),
            -2.0 if float => self.b.reciprocal(self.b.mul(x, x)),
            _ => self.b.binary(Binary::Power, x, self.scalar(d.rhs, ty)),
        })
    }

    fn pad(&self, d: &PadOpIr) -> Result<Value> {
        let x = self.get(&d.input)?;
        Ok(match d.mode {
            PadModeIr::Constant(value) => {
                let value = self.scalar(value, TensorType::scalar(self.b.element(x)));
                let low: Vec<i64> = d.padding.iter().map(|(low, _)| *low as i64).collect();
                let high: Vec<i64> = d.padding.iter().map(|(_, high)| *high as i64).collect();
                self.b.pad(x, value, &low, &high, &vec![0; low.len()])
            }
            PadModeIr::Reflect => self.b.pad_copies(x, &d.padding, true),
            PadModeIr::Edge => self.b.pad_copies(x, &d.padding, false),
        })
    }
}

impl Builder {
    /// The absolute value; unsigned numbers stay as they are.
    pub(super) fn absolute(&self, x: Value) -> Value {
        if self.element(x).is_unsigned() {
            x
        } else {
            self.abs(x)
        }
    }

    /// The sign, −1, 0 or 1; 0 for NaN.
    fn sign(&self, x: Value) -> Value {
        let element = self.element(x);
        if element.is_unsigned() {
            return self.min(x, 1.0);
        }
        let sign = self.unary(Unary::Sign, x);
        if !element.is_float() {
            return sign;
        }
        let (nan, zero) = (self.ne(x, x), self.splat_like(0.0, x));
        self.select(nan, zero, sign)
    }

    /// The remainder with the sign of the divisor, as in Python.
    pub(super) fn modulo(&self, x: Value, y: Value) -> Value {
        let rest = self.rem(x, y);
        if self.element(x).is_unsigned() {
            return rest;
        }
        let some = self.ne(rest, 0.0);
        let moves = self.and(some, self.xor(self.lt(rest, 0.0), self.lt(y, 0.0)));
        self.select(moves, self.add(rest, y), rest)
    }

    /// 1 / x.
    pub(super) fn reciprocal(&self, x: Value) -> Value {
        self.div(self.splat_like(1.0, x), x)
    }

    /// Pads `x` with its mirror image, or with copies of its first and last elements.
    fn pad_copies(&self, x: Value, padding: &[(usize, usize)], mirror: bool) -> Value {
        let mut x = x;
        for (dim, (before, after)) in padding.iter().copied().enumerate() {
            let last = self.ty(x).shape[dim] - 1;
            let copies = |inner: std::ops::Range<usize>, edge: usize, count: usize| {
                if count == 0 {
                    return None;
                }
                if mirror {
                    return Some(self.reverse(self.slice_dim(x, dim, inner), &[dim]));
                }
                let mut shape = self.shape(x);
                shape[dim] = count;
                Some(self.broadcast_to(self.slice_dim(x, dim, edge..edge + 1), &shape))
            };
            let low = copies(1..before + 1, 0, before);
            let high = copies(last.saturating_sub(after)..last, last, after);
            let parts: Vec<Value> = low.into_iter().chain([x]).chain(high).collect();
            x = self.concatenate(&parts, dim);
        }
        x
    }

    /// Converts the elements to another type. Floats become integers as by Rust's `as`: rounded towards zero, clamped
    /// to the range, and 0 for NaN. Booleans are true where an element isn't 0.
    pub(super) fn cast(&self, x: Value, element: ElementType) -> Value {
        let from = self.element(x);
        if from == element {
            return x;
        }
        if element == ElementType::Pred {
            return self.ne(x, 0.0);
        }
        if !from.is_float() || element.is_float() {
            return self.convert(x, element);
        }
        let x = self.widen(x);
        let ty = self.ty(x).with_element(element);
        // 2^bits is representable in every float type that is left; the largest integer itself may not be.
        let (low, high) = (element.smallest() as f64, (element.largest() + 1) as f64);
        let over = self.ge(x, high);
        let under = self.le(x, low);
        let nan = self.ne(x, x);
        let inside = self.convert(x, element);
        let (largest, smallest) = (self.highest(ty.clone()), self.lowest(ty.clone()));
        let y = self.select(under, smallest, self.select(over, largest, inside));
        self.select(nan, self.splat(0.0, ty), y)
    }
}

impl Lowering<'_> {
    fn reductions(&self, op: &NumericOperationIr) -> Result<Value> {
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
            Op::Sort(d) => self.map(&d.input, |b, x| b.sorted(&[x], d.dim, d.descending)[0]),
            Op::ArgSort(d) => self.map(&d.input, |b, x| {
                b.sorted_with_indices(x, d.dim, d.descending)[1]
            }),
            Op::TopK(d) => self.map(&d.input, |b, x| {
                let sorted = b.sorted(&[x], d.axis, true)[0];
                b.slice_dim(sorted, d.axis, 0..d.out.shape[d.axis])
            }),
            Op::ArgTopK(d) => self.map(&d.input, |b, x| {
                let at = b.sorted_with_indices(x, d.axis, true)[1];
                b.slice_dim(at, d.axis, 0..d.out.shape[d.axis])
            }),
            other => unreachable!("{other:?} has two results"),
        }
    }

    /// Computes f(`input`, dimensions), where the dimensions are `axes`, or all of them.
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

    /// The value of a tensor, in f32 if its type is narrower.
    pub(super) fn get_wide(&self, tensor: &TensorIr) -> Result<Value> {
        tensor_type(tensor)?;
        Ok(self.b.widen(self.get(tensor)?))
    }
}

impl Builder {
    /// The sorted elements, and the original index of each; equal elements keep their order.
    fn sorted_with_indices(&self, x: Value, dim: usize, descending: bool) -> Vec<Value> {
        let ty = self.ty(x).with_element(ElementType::S32);
        self.sorted(&[x, self.iota(ty, dim)], dim, descending)
    }

    fn sorted(&self, values: &[Value], dim: usize, descending: bool) -> Vec<Value> {
        let direction = if descending { Compare::Gt } else { Compare::Lt };
        self.sort(values, dim, |b, pair| {
            b.compare_total(direction, pair[0], pair[1])
        })
    }

    fn total(&self, x: Value, dims: &[usize]) -> Value {
        self.sum(self.widen(x), dims)
    }

    fn product_of(&self, x: Value, dims: &[usize]) -> Value {
        self.reduce(Reduction::Product, self.widen(x), dims)
    }

    fn largest_absolute(&self, x: Value, dims: &[usize]) -> Value {
        self.reduce(Reduction::Max, self.absolute(x), dims)
    }

    /// The mean over `dims`. Integers are summed in their own type, which wraps, and divided towards zero.
    fn mean(&self, x: Value, dims: &[usize]) -> Value {
        let sum = self.total(x, dims);
        // Divide in 64 bits: the count may exceed a narrow integer.
        let sum = match self.element(sum) {
            element if element.is_float() || element == ElementType::U64 => sum,
            _ => self.convert(sum, ElementType::S64),
        };
        self.div(sum, self.count(x, dims))
    }

    /// The number of elements that are reduced to one.
    fn count(&self, x: Value, dims: &[usize]) -> f64 {
        let shape = self.shape(x);
        dims.iter().map(|d| shape[*d]).product::<usize>() as f64
    }

    /// The mean of `x` over `dims`, which are kept with extent 1.
    pub(super) fn mean_keep(&self, x: Value, dims: &[usize]) -> Value {
        self.div(
            self.reduce_keep(Reduction::Sum, x, dims),
            self.count(x, dims),
        )
    }
}
