//! Functions of floats, matrix products, activation functions, and random numbers. Activations of f16 and bf16 are
//! computed in f32 and rounded once.

use super::{LowerError, Lowering, Result, tensor_type};
use crate::stablehlo::{Binary, Builder, DotDims, Reduction, Repeated, Unary, Value};
use burn_backend::Distribution;
use burn_ir::{
    ActivationOperationIr, BinaryOpIr, CrossOpIr, FloatOperationIr, MatmulOpIr, RandomOpIr,
    ScalarIr, TensorIr, UnaryOpIr,
};
use moebius_pjrt::ElementType::{self, F32, U32};
use moebius_pjrt::TensorType;
use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

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

    /// The matrix product \[…, m, k\] × \[…, k, n\]; leading dimensions of extent 1 repeat.
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
    /// `x` rounded towards zero.
    pub(super) fn trunc(&self, x: Value) -> Value {
        self.select(self.lt(x, 0.0), self.ceil(x), self.floor(x))
    }

    fn is_infinite(&self, x: Value) -> Value {
        self.eq(self.abs(x), f64::INFINITY)
    }

    /// √(x² + y²) without intermediate overflow; ∞ if either is infinite.
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

    /// The matrix product of the last two dimensions, of shape `shape`; f16 and bf16 are summed in f32.
    pub(super) fn product(&self, x: Value, y: Value, shape: &[usize]) -> Value {
        let batch = shape.len() - 2;
        let element = self.sum_element(x);
        let right = self.shape(y);
        if right[..batch].iter().all(|n| *n == 1) {
            // With one matrix for all batches, the batch dimensions are rows of a single product.
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

    /// The type in which products of elements like those of `x` are summed.
    pub(crate) fn sum_element(&self, x: Value) -> ElementType {
        match self.element(x) {
            ElementType::F16 | ElementType::BF16 => F32,
            element => element,
        }
    }
}

impl Lowering<'_> {
    pub(super) fn activation(&self, op: &ActivationOperationIr) -> Result<Value> {
        use ActivationOperationIr as Op;
        match op {
            Op::Relu(d) => self.map_wide(&d.input, |b, x| b.max(x, 0.0)),
            Op::ReluBackward(d) => self.map_two_wide(d, Builder::relu_backward),
            Op::LeakyRelu(d) => self.map_wide(&d.lhs, |b, x| {
                b.where_negative(x, b.mul(x, self.scalar(d.rhs, b.ty(x))))
            }),
            Op::PRelu(d) => {
                self.map_two_wide(d, |b, x, slope| b.where_negative(x, b.mul(x, slope)))
            }
            Op::Gelu(d) => self.map_wide(&d.input, |b, x| b.mul(x, b.normal_distribution(x))),
            Op::GeluBackward(d) => self.map_two_wide(d, Builder::gelu_backward),
            Op::Sigmoid(d) => self.map_wide(&d.input, |b, x| b.unary(Unary::Logistic, x)),
            Op::SigmoidBackward(d) => self.map_two_wide(d, |b, y, grad| {
                b.mul(grad, b.mul(y, b.sub(b.splat_like(1.0, y), y)))
            }),
            Op::HardSigmoid(d) => self.map_wide(&d.tensor, |b, x| {
                let [alpha, beta] = [d.alpha, d.beta].map(|n| self.scalar(n, b.ty(x)));
                b.clamp(0.0, b.add(b.mul(x, alpha), beta), 1.0)
            }),
            Op::LogSigmoid(d) => self.map_wide(&d.input, Builder::log_sigmoid),
            Op::LogSigmoidBackward(d) => self.map_two_wide(d, |b, x, grad| {
                b.mul(grad, b.unary(Unary::Logistic, b.neg(x)))
            }),
            Op::Softmax(d) => self.map_wide(&d.input, |b, x| b.softmax(x, d.axis)),
            Op::LogSoftmax(d) => self.map_wide(&d.input, |b, x| b.log_softmax(x, d.axis)),
            Op::Softmin(d) => self.map_wide(&d.input, |b, x| b.softmax(b.neg(x), d.axis)),
        }
    }

    pub(super) fn map_wide(
        &self,
        input: &TensorIr,
        f: impl FnOnce(&Builder, Value) -> Value,
    ) -> Result<Value> {
        Ok(f(self.b, self.get_wide(input)?))
    }

    fn map_two_wide(
        &self,
        d: &BinaryOpIr,
        f: impl FnOnce(&Builder, Value, Value) -> Value,
    ) -> Result<Value> {
        self.map_two(d, |b, x, y| f(b, b.widen(x), b.widen(y)))
    }
}

impl Builder {
    /// The gradient of relu: `grad` where the output `y` isn't 0, NaN included, and 0 elsewhere.
    fn relu_backward(&self, y: Value, grad: Value) -> Value {
        self.select_number(self.le(y, 0.0), 0.0, grad)
    }

    /// `y` where x is negative, and x elsewhere.
    fn where_negative(&self, x: Value, y: Value) -> Value {
        self.select(self.lt(x, 0.0), y, x)
    }

    /// The standard normal distribution function, ½ erfc(−x / √2), which stays precise where its value is near 0.
    fn normal_distribution(&self, x: Value) -> Value {
        self.mul(self.chlo("erfc", self.mul(x, -FRAC_1_SQRT_2)), 0.5)
    }

    fn gelu_backward(&self, x: Value, grad: Value) -> Value {
        let below = self.normal_distribution(x);
        let density = self.exp(self.mul(self.mul(x, x), -0.5));
        let scale = 1.0 / (2.0 * PI).sqrt();
        self.mul(grad, self.add(below, self.mul(x, self.mul(density, scale))))
    }

    /// log(sigmoid(x)) = min(x, 0) − log(1 + exp(−|x|)).
    fn log_sigmoid(&self, x: Value) -> Value {
        let below = self.min(x, 0.0);
        let exp = self.exp(self.neg(self.abs(x)));
        self.sub(below, self.unary(Unary::LogPlusOne, exp))
    }

    /// `x` minus its largest element along `dim`.
    fn shifted_down(&self, x: Value, dim: usize) -> Value {
        self.sub(x, Repeated(self.reduce_keep(Reduction::Max, x, &[dim])))
    }

    pub(super) fn softmax(&self, x: Value, dim: usize) -> Value {
        let exp = self.exp(self.shifted_down(x, dim));
        self.div(exp, Repeated(self.reduce_keep(Reduction::Sum, exp, &[dim])))
    }

    fn log_softmax(&self, x: Value, dim: usize) -> Value {
        let x = self.shifted_down(x, dim);
        let log = self.log(self.reduce_keep(Reduction::Sum, self.exp(x), &[dim]));
        self.sub(x, Repeated(log))
    }
}

impl Lowering<'_> {
    /// Draws random numbers; the generator's state passes from operation to operation.
    pub(super) fn random_numbers(&self, d: &RandomOpIr) -> Result<Value> {
        let ty = tensor_type(&d.out)?;
        Ok(match d.distribution {
            Distribution::Bernoulli(p) => self.b.lt(self.unit(&ty.with_element(F32))?, p),
            Distribution::Normal(mean, deviation) => {
                let element = match ty.element {
                    ElementType::F64 => ElementType::F64,
                    _ => F32,
                };
                let x = self.normal(&ty.with_element(element))?;
                self.b.add(self.b.mul(x, deviation), mean)
            }
            Distribution::Default if ty.element.is_float() => self.uniform(&ty, 0.0, 1.0)?,
            Distribution::Uniform(low, high) if ty.element.is_float() => {
                self.uniform(&ty, low, high)?
            }
            // The default range of integers is all of them, as in Burn's other backends.
            Distribution::Default => self
                .b
                .convert(self.bits(ty.with_element(ElementType::U64))?, ty.element),
            Distribution::Uniform(low, high) => self.uniform_integers(&ty, low, high)?,
        })
    }

    fn bits(&self, ty: TensorType) -> Result<Value> {
        let state = self.random.get().ok_or_else(|| {
            LowerError::Unsupported(
                "Random in a program without a state of the random number generator".to_owned(),
            )
        })?;
        let (state, bits) = self.b.random_bits(state, ty);
        self.random.set(Some(state));
        Ok(bits)
    }

    /// Uniform multiples of 2^-n in [0, 1), where n is the type's precision, so that each is exact.
    fn unit(&self, ty: &TensorType) -> Result<Value> {
        let precision = match ty.element {
            ElementType::F64 => 53,
            F32 => 24,
            ElementType::F16 => 11,
            _ => 8,
        };
        let (words, wide) = match ty.element {
            ElementType::F64 => (ElementType::U64, ElementType::F64),
            _ => (U32, F32),
        };
        let bits = self.bits(ty.with_element(words))?;
        let drop = (8 * words.bytes() - precision) as f64;
        let x = self.b.convert(self.b.shift_right(bits, drop), wide);
        let scale = (-(precision as f64)).exp2();
        Ok(self.b.mul(x, scale))
    }

    fn uniform(&self, ty: &TensorType, low: f64, high: f64) -> Result<Value> {
        let b = self.b;
        let x = b.convert(b.add(b.mul(self.unit(ty)?, high - low), low), ty.element);
        // The sum may have been rounded up to `high`, which isn't part of the range.
        Ok(b.select_number(b.ge(x, high), low, x))
    }

    /// Uniform integers in [low, high), as remainders of 64 random bits; the bias is under 2^-32 for 32-bit ranges.
    fn uniform_integers(&self, ty: &TensorType, low: f64, high: f64) -> Result<Value> {
        let wide = ty.with_element(ElementType::U64);
        let bits = self.bits(wide.clone())?;
        let (low, high) = (low as i128, high as i128);
        let range = self.b.splat_int((high - low).max(1), wide);
        let x = self.b.convert(self.b.rem(bits, range), ty.element);
        let low = self.scalar(ScalarIr::Int(low as i64), ty.clone());
        Ok(self.b.add(x, low))
    }

    /// Normal numbers with mean 0 and deviation 1: the inverse of the distribution function at odd multiples of 2^-23
    /// (2^-52 in f64) between −1 and 1, so that ±∞ can't come out.
    fn normal(&self, ty: &TensorType) -> Result<Value> {
        let b = self.b;
        let (words, precision) = match ty.element {
            ElementType::F64 => (ElementType::U64, 52),
            _ => (U32, 23),
        };
        let bits = self.bits(ty.with_element(words))?;
        let drop = (8 * words.bytes() - precision) as f64;
        let x = b.add(b.convert(b.shift_right(bits, drop), ty.element), 0.5);
        let scale = (1.0 - precision as f64).exp2();
        let x = b.chlo("erf_inv", b.sub(b.mul(x, scale), 1.0));
        Ok(b.mul(x, SQRT_2))
    }
}
