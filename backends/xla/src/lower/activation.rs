//! Activation functions. Halves are computed in f32 and rounded once.

use super::{LowerError, Lowering};
use crate::stablehlo::{Binary, Compare, Reduction, Unary, Value};
use burn_ir::{ActivationOperationIr, BinaryOpIr, HardSigmoidOpIr, ScalarOpIr, TensorIr};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

impl Lowering<'_> {
    pub(super) fn activation(&mut self, op: &ActivationOperationIr) -> Result<(), LowerError> {
        use ActivationOperationIr as Op;
        match op {
            Op::Relu(d) => self.map_wide(&d.input, &d.out, |l, x| {
                l.b.binary_scalar(Binary::Maximum, x, 0.0)
            }),
            Op::ReluBackward(d) => self.map_two_wide(d, Self::relu_backward),
            Op::LeakyRelu(d) => self.leaky_relu(d),
            Op::PRelu(d) => self.map_two_wide(d, |l, x, slope| {
                let scaled = l.b.mul(x, slope);
                l.where_negative(x, scaled)
            }),
            Op::Gelu(d) => self.map_wide(&d.input, &d.out, |l, x| {
                let below = l.normal_distribution(x);
                l.b.mul(x, below)
            }),
            Op::GeluBackward(d) => self.map_two_wide(d, Self::gelu_backward),
            Op::Sigmoid(d) => self.map_wide(&d.input, &d.out, |l, x| l.b.unary(Unary::Logistic, x)),
            Op::SigmoidBackward(d) => self.map_two_wide(d, |l, y, grad| {
                let one = l.b.splat_like(1.0, y);
                let rest = l.b.sub(one, y);
                let slope = l.b.mul(y, rest);
                l.b.mul(grad, slope)
            }),
            Op::HardSigmoid(d) => self.hard_sigmoid(d),
            Op::LogSigmoid(d) => self.map_wide(&d.input, &d.out, Self::log_sigmoid),
            Op::LogSigmoidBackward(d) => self.map_two_wide(d, |l, x, grad| {
                let minus = l.b.unary(Unary::Negate, x);
                let slope = l.b.unary(Unary::Logistic, minus);
                l.b.mul(grad, slope)
            }),
            Op::Softmax(d) => self.map_wide(&d.input, &d.out, |l, x| l.softmax(x, d.axis)),
            Op::LogSoftmax(d) => self.map_wide(&d.input, &d.out, |l, x| l.log_softmax(x, d.axis)),
            Op::Softmin(d) => self.map_wide(&d.input, &d.out, |l, x| {
                let minus = l.b.unary(Unary::Negate, x);
                l.softmax(minus, d.axis)
            }),
        }
    }

    pub(super) fn map_wide(
        &mut self,
        input: &TensorIr,
        out: &TensorIr,
        f: impl FnOnce(&mut Self, Value) -> Value,
    ) -> Result<(), LowerError> {
        let x = self.get_wide(input)?;
        let y = f(self, x);
        self.finish(out, y)
    }

    fn map_two_wide(
        &mut self,
        d: &BinaryOpIr,
        f: impl FnOnce(&mut Self, Value, Value) -> Value,
    ) -> Result<(), LowerError> {
        self.map_two(d, |l, x, y| {
            let (x, y) = (l.widen(x), l.widen(y));
            f(l, x, y)
        })
    }

    /// The gradient where the output isn't 0; NaN counts as not 0.
    fn relu_backward(&mut self, y: Value, grad: Value) -> Value {
        let off = self.b.compare_scalar(Compare::Le, y, 0.0);
        let zero = self.b.splat_like(0.0, grad);
        self.b.select(off, zero, grad)
    }

    fn leaky_relu(&mut self, d: &ScalarOpIr) -> Result<(), LowerError> {
        self.map_wide(&d.lhs, &d.out, |l, x| {
            let slope = l.scalar(d.rhs, l.b.ty(x).clone());
            let scaled = l.b.mul(x, slope);
            l.where_negative(x, scaled)
        })
    }

    /// `y` where x is negative, and x elsewhere.
    fn where_negative(&mut self, x: Value, y: Value) -> Value {
        let negative = self.b.compare_scalar(Compare::Lt, x, 0.0);
        self.b.select(negative, y, x)
    }

    /// The part of a normal distribution that lies below x: ½ erfc(−x / √2), which keeps its precision
    /// where next to nothing lies below.
    fn normal_distribution(&mut self, x: Value) -> Value {
        let scaled = self.b.binary_scalar(Binary::Multiply, x, -FRAC_1_SQRT_2);
        let erfc = self.b.chlo("erfc", scaled);
        self.b.binary_scalar(Binary::Multiply, erfc, 0.5)
    }

    fn gelu_backward(&mut self, x: Value, grad: Value) -> Value {
        let below = self.normal_distribution(x);
        let square = self.b.mul(x, x);
        let square = self.b.binary_scalar(Binary::Multiply, square, -0.5);
        let density = self.b.unary(Unary::Exponential, square);
        let scale = 1.0 / (2.0 * PI).sqrt();
        let density = self.b.binary_scalar(Binary::Multiply, density, scale);
        let slope = self.b.mul(x, density);
        let slope = self.b.add(below, slope);
        self.b.mul(grad, slope)
    }

    fn hard_sigmoid(&mut self, d: &HardSigmoidOpIr) -> Result<(), LowerError> {
        self.map_wide(&d.tensor, &d.out, |l, x| {
            let ty = l.b.ty(x).clone();
            let (alpha, beta) = (l.scalar(d.alpha, ty.clone()), l.scalar(d.beta, ty));
            let scaled = l.b.mul(x, alpha);
            let moved = l.b.add(scaled, beta);
            l.b.clamp(0.0, moved, 1.0)
        })
    }

    /// min(x, 0) − log(1 + exp(−|x|))
    fn log_sigmoid(&mut self, x: Value) -> Value {
        let below = self.b.binary_scalar(Binary::Minimum, x, 0.0);
        let size = self.b.unary(Unary::Abs, x);
        let minus = self.b.unary(Unary::Negate, size);
        let exp = self.b.unary(Unary::Exponential, minus);
        let log = self.b.unary(Unary::LogPlusOne, exp);
        self.b.sub(below, log)
    }

    /// x minus its largest element along `dim`.
    fn shifted_down(&mut self, x: Value, dim: usize) -> Value {
        let largest = self.b.reduce_keep(Reduction::Max, x, &[dim]);
        self.b.binary_broadcast(Binary::Subtract, x, largest)
    }

    pub(super) fn softmax(&mut self, x: Value, dim: usize) -> Value {
        let x = self.shifted_down(x, dim);
        let exp = self.b.unary(Unary::Exponential, x);
        let sum = self.b.reduce_keep(Reduction::Sum, exp, &[dim]);
        self.b.binary_broadcast(Binary::Divide, exp, sum)
    }

    fn log_softmax(&mut self, x: Value, dim: usize) -> Value {
        let x = self.shifted_down(x, dim);
        let exp = self.b.unary(Unary::Exponential, x);
        let sum = self.b.reduce_keep(Reduction::Sum, exp, &[dim]);
        let log = self.b.unary(Unary::Log, sum);
        self.b.binary_broadcast(Binary::Subtract, x, log)
    }
}
