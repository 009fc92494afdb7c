//! Arithmetic of floats and integers.

use super::{Lowering, Result, tensor_type};
use crate::stablehlo::{Binary, Builder, Compare, Unary, Value};
use burn_ir::{ClampOpIr, NumericOperationIr, PadModeIr, PadOpIr, ScalarOpIr};
use moebius_pjrt::{ElementType, TensorType};

impl Lowering<'_> {
    pub(super) fn arithmetic(&self, op: &NumericOperationIr) -> Result<Value> {
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

    /// x to the power of a number: products for the small integers, as Burn's backends have them.
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
    /// |x|
    pub(super) fn absolute(&self, x: Value) -> Value {
        if self.element(x).is_unsigned() {
            x
        } else {
            self.abs(x)
        }
    }

    /// −1, 0 or 1; 0 of NaN.
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

    /// The remainder with the sign of the divisor, as Python has it.
    pub(super) fn modulo(&self, x: Value, y: Value) -> Value {
        let rest = self.rem(x, y);
        if self.element(x).is_unsigned() {
            return rest;
        }
        let some = self.ne(rest, 0.0);
        let moves = self.and(some, self.xor(self.lt(rest, 0.0), self.lt(y, 0.0)));
        self.select(moves, self.add(rest, y), rest)
    }

    /// 1 / x
    pub(super) fn reciprocal(&self, x: Value) -> Value {
        self.div(self.splat_like(1.0, x), x)
    }

    /// x with its mirror image, or with its first and last elements, around it.
    fn pad_copies(&self, x: Value, padding: &[(usize, usize)], mirror: bool) -> Value {
        let mut x = x;
        for (dim, (before, after)) in padding.iter().copied().enumerate() {
            let last = self.ty(x).shape[dim] - 1;
            let copies = |inner: std::ops::Range<usize>, edge: usize, count: usize| match mirror {
                _ if count == 0 => None,
                true => Some(self.reverse(self.slice_dim(x, dim, inner), &[dim])),
                false => {
                    let mut shape = self.shape(x);
                    shape[dim] = count;
                    Some(self.broadcast_to(self.slice_dim(x, dim, edge..edge + 1), &shape))
                }
            };
            let low = copies(1..before + 1, 0, before);
            let high = copies(last.saturating_sub(after)..last, last, after);
            let parts: Vec<Value> = low.into_iter().chain([x]).chain(high).collect();
            x = self.concatenate(&parts, dim);
        }
        x
    }

    /// The elements as another type. Floats become integers as Rust's `as` says: towards zero, the
    /// nearest representable number if they are too large, and 0 if they are NaN. Booleans say
    /// whether an element isn't 0.
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
        // 2^bits is a float of every type that is left; the largest integer itself may not be one.
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
