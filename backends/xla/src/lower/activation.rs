//! Activation functions. Halves are computed in f32 and rounded once.

use super::{Lowering, Result};
use crate::stablehlo::{Builder, Reduction, Repeated, Unary, Value};
use burn_ir::{ActivationOperationIr, BinaryOpIr, TensorIr};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

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
    /// The gradient where the output isn't 0; NaN counts as not 0.
    fn relu_backward(&self, y: Value, grad: Value) -> Value {
        self.select_number(self.le(y, 0.0), 0.0, grad)
    }

    /// `y` where x is negative, and x elsewhere.
    fn where_negative(&self, x: Value, y: Value) -> Value {
        self.select(self.lt(x, 0.0), y, x)
    }

    /// The part of a normal distribution that lies below x: ½ erfc(−x / √2), which keeps its precision
    /// where next to nothing lies below.
    fn normal_distribution(&self, x: Value) -> Value {
        self.mul(self.chlo("erfc", self.mul(x, -FRAC_1_SQRT_2)), 0.5)
    }

    fn gelu_backward(&self, x: Value, grad: Value) -> Value {
        let below = self.normal_distribution(x);
        let density = self.exp(self.mul(self.mul(x, x), -0.5));
        let scale = 1.0 / (2.0 * PI).sqrt();
        self.mul(grad, self.add(below, self.mul(x, self.mul(density, scale))))
    }

    /// min(x, 0) − log(1 + exp(−|x|))
    fn log_sigmoid(&self, x: Value) -> Value {
        let below = self.min(x, 0.0);
        let exp = self.exp(self.neg(self.abs(x)));
        self.sub(below, self.unary(Unary::LogPlusOne, exp))
    }

    /// x minus its largest element along `dim`.
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
