//! Functions of floats, matrix products.

use super::{LowerError, Lowering};
use crate::ElementType;
use crate::stablehlo::{Binary, Compare, DotDims, Unary, Value};
use burn_ir::{CrossOpIr, FloatOperationIr, MatmulOpIr, UnaryOpIr};

impl Lowering<'_> {
    pub(super) fn float(&mut self, op: &FloatOperationIr) -> Result<(), LowerError> {
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
            Op::Trunc(d) => self.map(&d.input, &d.out, Self::trunc),
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
            Op::Hypot(d) => self.map_two(d, Self::hypot),
            Op::Recip(d) => self.map(&d.input, &d.out, Self::reciprocal),
            Op::IntoInt(d) => self.convert(&d.input, &d.out),
            Op::IsNan(d) => self.map(&d.input, &d.out, |l, x| l.b.compare(Compare::Ne, x, x)),
            Op::IsInf(d) => self.map(&d.input, &d.out, Self::is_infinite),
            Op::Matmul(d) => self.matmul(d),
            Op::Cross(d) => self.cross(d),
            Op::Random(d) => self.random_numbers(d),
            Op::GridSample2d(d) => self.grid_sample(d),
            Op::Quantize(_) | Op::Dequantize(_) => unreachable!("not listed as lowered"),
        }
    }

    pub(super) fn unary(&mut self, d: &UnaryOpIr, op: Unary) -> Result<(), LowerError> {
        self.map(&d.input, &d.out, |l, x| l.b.unary(op, x))
    }

    fn chlo(&mut self, d: &UnaryOpIr, name: &str) -> Result<(), LowerError> {
        self.map(&d.input, &d.out, |l, x| l.b.chlo(name, x))
    }

    /// x rounded towards zero.
    pub(super) fn trunc(&mut self, x: Value) -> Value {
        let below = self.b.compare_scalar(Compare::Lt, x, 0.0);
        let up = self.b.unary(Unary::Ceil, x);
        let down = self.b.unary(Unary::Floor, x);
        self.b.select(below, up, down)
    }

    fn is_infinite(&mut self, x: Value) -> Value {
        let size = self.b.unary(Unary::Abs, x);
        self.b.compare_scalar(Compare::Eq, size, f64::INFINITY)
    }

    /// √(x² + y²) without overflow on the way; ∞ if either is infinite.
    fn hypot(&mut self, x: Value, y: Value) -> Value {
        let (x, y) = (self.widen(x), self.widen(y));
        let (x, y) = (self.b.unary(Unary::Abs, x), self.b.unary(Unary::Abs, y));
        let (large, small) = (self.b.max(x, y), self.b.min(x, y));
        let ratio = self.b.div(small, large);
        let square = self.b.mul(ratio, ratio);
        let sum = self.b.binary_scalar(Binary::Add, square, 1.0);
        let root = self.b.unary(Unary::Sqrt, sum);
        let length = self.b.mul(large, root);
        let zero = self.b.compare_scalar(Compare::Eq, large, 0.0);
        let length = self.b.select(zero, large, length);
        let (left, right) = (self.is_infinite(x), self.is_infinite(y));
        let infinite = self.b.or(left, right);
        let infinity = self.b.splat_like(f64::INFINITY, length);
        self.b.select(infinite, infinity, length)
    }

    /// \[…, m, k\] × \[…, k, n\]; leading dimensions of extent 1 repeat.
    pub(super) fn matmul(&mut self, d: &MatmulOpIr) -> Result<(), LowerError> {
        let (x, y) = (self.get(&d.lhs)?, self.get(&d.rhs)?);
        let y = self.cast(y, self.b.element(x));
        let z = self.product(x, y, &d.out.shape);
        self.finish(&d.out, z)
    }

    /// The matrix product of the last two dimensions, of `shape`; halves are summed in f32.
    pub(super) fn product(&mut self, x: Value, y: Value, shape: &[usize]) -> Value {
        let batch = shape.len() - 2;
        let element = self.sum_element(x);
        let right = self.b.shape(y);
        if right[..batch].iter().all(|n| *n == 1) {
            // One matrix for all: no batch, as many rows as there are.
            let y = self.b.reshape(y, &right[batch..]);
            let full = [&shape[..batch], &self.b.shape(x)[batch..]].concat();
            let x = self.b.broadcast_to(x, &full);
            let dims = DotDims {
                lhs_contract: vec![batch + 1],
                rhs_contract: vec![0],
                ..DotDims::default()
            };
            return self.b.dot(x, y, &dims, element);
        }
        let full = [&shape[..batch], &self.b.shape(x)[batch..]].concat();
        let x = self.b.broadcast_to(x, &full);
        let full = [&shape[..batch], &right[batch..]].concat();
        let y = self.b.broadcast_to(y, &full);
        self.b.dot(x, y, &DotDims::matmul(batch), element)
    }

    /// The type that products of elements like those of x are summed in.
    pub(super) fn sum_element(&self, x: Value) -> ElementType {
        match self.b.element(x) {
            ElementType::F16 | ElementType::BF16 => ElementType::F32,
            element => element,
        }
    }

    fn cross(&mut self, d: &CrossOpIr) -> Result<(), LowerError> {
        let (x, y) = self.pair(&d.lhs, &d.rhs, &d.out.shape)?;
        let part = |l: &mut Self, x: Value, i: usize| l.b.slice_dim(x, d.dim, i % 3..i % 3 + 1);
        let parts = (0..3).map(|i| {
            let (a, b) = (part(self, x, i + 1), part(self, y, i + 2));
            let (e, f) = (part(self, x, i + 2), part(self, y, i + 1));
            let (plus, minus) = (self.b.mul(a, b), self.b.mul(e, f));
            self.b.sub(plus, minus)
        });
        let parts: Vec<Value> = parts.collect();
        let z = self.b.concatenate(&parts, d.dim);
        self.finish(&d.out, z)
    }
}
