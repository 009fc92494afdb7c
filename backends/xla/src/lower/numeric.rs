//! Arithmetic of floats and integers.

use super::{LowerError, Lowering, tensor_type};
use crate::ElementType;
use crate::stablehlo::{Binary, Compare, Unary, Value};
use burn_ir::{ClampOpIr, FullOpIr, NumericOperationIr, PadModeIr, PadOpIr, ScalarIr, ScalarOpIr};

impl Lowering<'_> {
    /// What floats and integers have in common.
    pub(super) fn numeric(&mut self, op: &NumericOperationIr) -> Result<(), LowerError> {
        use NumericOperationIr as Op;
        match op {
            Op::Add(d) => self.binary(d, Binary::Add),
            Op::Sub(d) => self.binary(d, Binary::Subtract),
            Op::Mul(d) => self.binary(d, Binary::Multiply),
            Op::Div(d) => self.binary(d, Binary::Divide),
            Op::Rem(d) => self.map_two(d, Self::modulo),
            Op::AddScalar(d) => self.binary_scalar(d, Binary::Add),
            Op::SubScalar(d) => self.binary_scalar(d, Binary::Subtract),
            Op::MulScalar(d) => self.binary_scalar(d, Binary::Multiply),
            Op::DivScalar(d) => self.binary_scalar(d, Binary::Divide),
            Op::RemScalar(d) => self.map_scalar(d, Self::modulo),
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
            Op::Abs(d) => self.map(&d.input, &d.out, Self::absolute),
            Op::Neg(d) => self.map(&d.input, &d.out, |l, x| l.b.unary(Unary::Negate, x)),
            Op::Sign(d) => self.map(&d.input, &d.out, Self::sign),
            Op::Full(d) => self.full(d),
            Op::IntRandom(d) => self.random_numbers(d),
            Op::Pad(d) => self.pad(d),
            other => self.reductions(other),
        }
    }

    /// |x|
    pub(super) fn absolute(&mut self, x: Value) -> Value {
        match self.b.element(x).is_unsigned() {
            true => x,
            false => self.b.unary(Unary::Abs, x),
        }
    }

    /// −1, 0 or 1; 0 of NaN.
    fn sign(&mut self, x: Value) -> Value {
        let element = self.b.element(x);
        if element.is_unsigned() {
            return self.b.binary_scalar(Binary::Minimum, x, 1.0);
        }
        let sign = self.b.unary(Unary::Sign, x);
        if !element.is_float() {
            return sign;
        }
        let (nan, zero) = (self.b.compare(Compare::Ne, x, x), self.b.splat_like(0.0, x));
        self.b.select(nan, zero, sign)
    }

    /// The remainder with the sign of the divisor, as Python has it.
    pub(super) fn modulo(&mut self, x: Value, y: Value) -> Value {
        let rest = self.b.binary(Binary::Remainder, x, y);
        if self.b.element(x).is_unsigned() {
            return rest;
        }
        let some = self.b.compare_scalar(Compare::Ne, rest, 0.0);
        let below = self.b.compare_scalar(Compare::Lt, rest, 0.0);
        let divisor_below = self.b.compare_scalar(Compare::Lt, y, 0.0);
        let differ = self.b.binary(Binary::Xor, below, divisor_below);
        let moves = self.b.and(some, differ);
        let moved = self.b.add(rest, y);
        self.b.select(moves, moved, rest)
    }

    fn clamp(&mut self, d: &ClampOpIr) -> Result<(), LowerError> {
        let x = self.get(&d.tensor)?;
        let ty = self.b.ty(x).clone();
        let (low, high) = (self.scalar(d.min, ty.clone()), self.scalar(d.max, ty));
        let x = self.b.max(x, low);
        let x = self.b.min(x, high);
        self.finish(&d.out, x)
    }

    /// x to the power of a number: products for the small integers, as Burn's backends have them.
    pub(super) fn power_scalar(&mut self, d: &ScalarOpIr) -> Result<(), LowerError> {
        let x = self.get(&d.lhs)?;
        let ty = self.b.ty(x).clone();
        let exponent: f64 = d.rhs.elem();
        let float = ty.element.is_float();
        let y = if exponent == 0.0 {
            self.b.splat(1.0, ty)
        } else if exponent == 1.0 {
            x
        } else if exponent == 2.0 {
            self.b.mul(x, x)
        } else if exponent == -1.0 && float {
            self.reciprocal(x)
        } else if exponent == -2.0 && float {
            let square = self.b.mul(x, x);
            self.reciprocal(square)
        } else {
            let y = self.scalar(d.rhs, ty);
            self.b.binary(Binary::Power, x, y)
        };
        self.finish(&d.out, y)
    }

    /// 1 / x
    pub(super) fn reciprocal(&mut self, x: Value) -> Value {
        let one = self.b.splat_like(1.0, x);
        self.b.div(one, x)
    }

    fn full(&mut self, d: &FullOpIr) -> Result<(), LowerError> {
        let value = self.scalar(d.value, tensor_type(&d.out)?);
        self.finish(&d.out, value)
    }

    fn pad(&mut self, d: &PadOpIr) -> Result<(), LowerError> {
        let x = self.get(&d.input)?;
        let y = match d.mode {
            PadModeIr::Constant(value) => self.pad_constant(x, &d.padding, value),
            PadModeIr::Reflect => self.pad_copies(x, &d.padding, true),
            PadModeIr::Edge => self.pad_copies(x, &d.padding, false),
        };
        self.finish(&d.out, y)
    }

    fn pad_constant(&mut self, x: Value, padding: &[(usize, usize)], value: ScalarIr) -> Value {
        let ty = crate::stablehlo::TensorType::scalar(self.b.element(x));
        let value = self.scalar(value, ty);
        let low: Vec<i64> = padding.iter().map(|(low, _)| *low as i64).collect();
        let high: Vec<i64> = padding.iter().map(|(_, high)| *high as i64).collect();
        self.b.pad(x, value, &low, &high, &vec![0; padding.len()])
    }

    /// x with its mirror image, or with its first and last elements, around it.
    fn pad_copies(&mut self, x: Value, padding: &[(usize, usize)], mirror: bool) -> Value {
        let mut x = x;
        for (dim, (before, after)) in padding.iter().copied().enumerate() {
            let extent = self.b.ty(x).shape[dim];
            let mut parts = Vec::new();
            if before > 0 {
                parts.push(match mirror {
                    true => self.mirrored(x, dim, 1..before + 1),
                    false => self.repeated(x, dim, 0, before),
                });
            }
            parts.push(x);
            if after > 0 {
                parts.push(match mirror {
                    true => self.mirrored(x, dim, extent - after - 1..extent - 1),
                    false => self.repeated(x, dim, extent - 1, after),
                });
            }
            x = self.b.concatenate(&parts, dim);
        }
        x
    }

    fn mirrored(&mut self, x: Value, dim: usize, range: std::ops::Range<usize>) -> Value {
        let part = self.b.slice_dim(x, dim, range);
        self.b.reverse(part, &[dim])
    }

    fn repeated(&mut self, x: Value, dim: usize, at: usize, times: usize) -> Value {
        let part = self.b.slice_dim(x, dim, at..at + 1);
        let mut shape = self.b.shape(part);
        shape[dim] = times;
        self.b.broadcast_to(part, &shape)
    }

    /// The elements as another type. Floats become integers as Rust's `as` says: towards zero, the
    /// nearest representable number if they are too large, and 0 if they are NaN. Booleans say
    /// whether an element isn't 0.
    pub(super) fn cast(&mut self, x: Value, element: ElementType) -> Value {
        let from = self.b.element(x);
        if from == element {
            return x;
        }
        if element == ElementType::Pred {
            return self.b.compare_scalar(Compare::Ne, x, 0.0);
        }
        if !from.is_float() || element.is_float() {
            return self.b.convert(x, element);
        }
        let x = self.widen(x);
        let ty = self.b.ty(x).with_element(element);
        // 2^bits is a float of every type that is left; the largest integer itself may not be one.
        let (low, high) = (element.smallest() as f64, (element.largest() + 1) as f64);
        let over = self.b.compare_scalar(Compare::Ge, x, high);
        let under = self.b.compare_scalar(Compare::Le, x, low);
        let nan = self.b.compare(Compare::Ne, x, x);
        let inside = self.b.convert(x, element);
        let (largest, smallest) = (self.b.highest(ty.clone()), self.b.lowest(ty.clone()));
        let y = self.b.select(over, largest, inside);
        let y = self.b.select(under, smallest, y);
        let zero = self.b.splat(0.0, ty);
        self.b.select(nan, zero, y)
    }
}
