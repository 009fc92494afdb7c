//! Functions of floats, matrix products.

use super::{Lowering, Result};
use crate::stablehlo::{Binary, Builder, DotDims, Unary, Value};
use burn_ir::{CrossOpIr, FloatOperationIr, MatmulOpIr, UnaryOpIr};
use moebius_pjrt::ElementType;

impl Lowering<'_> {
    pub(super) fn float(&self, op: &FloatOperationIr) -> Result<Value> {
        use FloatOperationIr as Op;
        match op {
            Op::Exp(d) => self.unary(d, Unary::Exponential),
            Op::Log(d) => self.unary(d, Unary::Log),
            Op::Log1p(d) => self.unary(d, Unary::LogPlusOne),
            Op::Sqrt(d) => self.unary(d, Unary::Sqrt),
            Op::Cos(d) => self.unary(d, Unary::Cosine),
            Op::Sin(d) => self.unary(d, Unary::Sine),
            Op::Tan(d) => self.unary(d, Unary::Tan),
            Op::Tanh(d) => self.unary(d, Unary::Tanh),
            Op::Round(d) => self.unary(d, Unary::RoundNearestEven),
            Op::Floor(d) => self.unary(d, Unary::Floor),
            Op::Ceil(d) => self.unary(d, Unary::Ceil),
            Op::Trunc(d) => self.map(&d.input, Builder::trunc),
            Op::Erf(d) => self.chlo(d, "erf"),
            Op::Cosh(d) => self.chlo(d, "cosh"),
            Op::Sinh(d) => self.chlo(d, "sinh"),
            Op::ArcCos(d) => self.chlo(d, "acos"),
            Op::ArcCosh(d) => self.chlo(d, "acosh"),
            Op::ArcSin(d) => self.chlo(d, "asin"),
            Op::ArcSinh(d) => self.chlo(d, "asinh"),
            Op::ArcTan(d) => self.chlo(d, "atan"),
            Op::ArcTanh(d) => self.chlo(d, "atanh"),
            Op::ArcTan2(d) => self.binary(d, Binary::Atan2),
            Op::Powf(d) => self.binary(d, Binary::Power),
            Op::PowfScalar(d) => self.power_scalar(d),
            Op::Hypot(d) => self.map_two(d, Builder::hypot),
            Op::Recip(d) => self.map(&d.input, Builder::reciprocal),
            Op::IntoInt(d) => self.get(&d.input),
            Op::IsNan(d) => self.map(&d.input, |b, x| b.ne(x, x)),
            Op::IsInf(d) => self.map(&d.input, Builder::is_infinite),
            Op::Matmul(d) => self.matmul(d),
            Op::Cross(d) => self.cross(d),
            Op::Random(d) => self.random_numbers(d),
            Op::GridSample2d(d) => self.grid_sample(d),
            Op::Quantize(_) | Op::Dequantize(_) => unreachable!("not listed as lowered"),
        }
    }

    pub(super) fn unary(&self, d: &UnaryOpIr, op: Unary) -> Result<Value> {
        self.map(&d.input, |b, x| b.unary(op, x))
    }

    fn chlo(&self, d: &UnaryOpIr, name: &str) -> Result<Value> {
        self.map(&d.input, |b, x| b.chlo(name, x))
    }

    /// \[…, m, k\] × \[…, k, n\]; leading dimensions of extent 1 repeat.
    pub(super) fn matmul(&self, d: &MatmulOpIr) -> Result<Value> {
        let b = self.b;
        let (x, y) = (self.get(&d.lhs)?, self.get(&d.rhs)?);
        Ok(b.product(x, b.cast(y, b.element(x)), &d.out.shape))
    }

    fn cross(&self, d: &CrossOpIr) -> Result<Value> {
        let (x, y) = self.pair(&d.lhs, &d.rhs, &d.out.shape)?;
        let part = |x: Value, i: usize| self.b.slice_dim(x, d.dim, i % 3..i % 3 + 1);
        let parts = (0..3).map(|i| {
            let plus = (part(x, i + 1), part(y, i + 2));
            let minus = (part(x, i + 2), part(y, i + 1));
            let plus = self.b.mul(plus.0, plus.1);
            self.b.sub(plus, self.b.mul(minus.0, minus.1))
        });
        let parts: Vec<Value> = parts.collect();
        Ok(self.b.concatenate(&parts, d.dim))
    }
}

impl Builder {
    /// x rounded towards zero.
    pub(super) fn trunc(&self, x: Value) -> Value {
        self.select(self.lt(x, 0.0), self.ceil(x), self.floor(x))
    }

    fn is_infinite(&self, x: Value) -> Value {
        self.eq(self.abs(x), f64::INFINITY)
    }

    /// √(x² + y²) without overflow on the way; ∞ if either is infinite.
    fn hypot(&self, x: Value, y: Value) -> Value {
        let (x, y) = (self.widen(x), self.widen(y));
        let (x, y) = (self.abs(x), self.abs(y));
        let (large, small) = (self.max(x, y), self.min(x, y));
        let ratio = self.div(small, large);
        let sum = self.add(self.mul(ratio, ratio), 1.0);
        let length = self.mul(large, self.unary(Unary::Sqrt, sum));
        let length = self.select(self.eq(large, 0.0), large, length);
        let (left, right) = (self.is_infinite(x), self.is_infinite(y));
        self.select_number(self.or(left, right), f64::INFINITY, length)
    }

    /// The matrix product of the last two dimensions, of `shape`; halves are summed in f32.
    pub(super) fn product(&self, x: Value, y: Value, shape: &[usize]) -> Value {
        let batch = shape.len() - 2;
        let element = self.sum_element(x);
        let right = self.shape(y);
        if right[..batch].iter().all(|n| *n == 1) {
            // One matrix for all: no batch, as many rows as there are.
            let y = self.reshape(y, &right[batch..]);
            let full = [&shape[..batch], &self.shape(x)[batch..]].concat();
            let x = self.broadcast_to(x, &full);
            return self.dot(x, y, &DotDims::batched(0, batch + 1, 0), element);
        }
        let full = [&shape[..batch], &self.shape(x)[batch..]].concat();
        let x = self.broadcast_to(x, &full);
        let full = [&shape[..batch], &right[batch..]].concat();
        let y = self.broadcast_to(y, &full);
        self.dot(x, y, &DotDims::matmul(batch), element)
    }

    /// The type that products of elements like those of x are summed in.
    pub(crate) fn sum_element(&self, x: Value) -> ElementType {
        match self.element(x) {
            ElementType::F16 | ElementType::BF16 => ElementType::F32,
            element => element,
        }
    }
}
