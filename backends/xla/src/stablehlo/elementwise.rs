//! Operations on elements at the same place.

use super::{Builder, TensorType, Value};
use crate::ElementType;

/// Operations of one operand that keep its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the StableHLO operation of its name")]
pub enum Unary {
    Abs,
    Cbrt,
    Ceil,
    Cosine,
    CountLeadingZeros,
    Exponential,
    ExponentialMinusOne,
    Floor,
    Log,
    LogPlusOne,
    Logistic,
    Negate,
    Not,
    PopulationCount,
    RoundNearestAfz,
    RoundNearestEven,
    Rsqrt,
    Sign,
    Sine,
    Sqrt,
    Tan,
    Tanh,
}

impl Unary {
    const fn name(self) -> &'static str {
        match self {
            Self::Abs => "stablehlo.abs",
            Self::Cbrt => "stablehlo.cbrt",
            Self::Ceil => "stablehlo.ceil",
            Self::Cosine => "stablehlo.cosine",
            Self::CountLeadingZeros => "stablehlo.count_leading_zeros",
            Self::Exponential => "stablehlo.exponential",
            Self::ExponentialMinusOne => "stablehlo.exponential_minus_one",
            Self::Floor => "stablehlo.floor",
            Self::Log => "stablehlo.log",
            Self::LogPlusOne => "stablehlo.log_plus_one",
            Self::Logistic => "stablehlo.logistic",
            Self::Negate => "stablehlo.negate",
            Self::Not => "stablehlo.not",
            Self::PopulationCount => "stablehlo.popcnt",
            Self::RoundNearestAfz => "stablehlo.round_nearest_afz",
            Self::RoundNearestEven => "stablehlo.round_nearest_even",
            Self::Rsqrt => "stablehlo.rsqrt",
            Self::Sign => "stablehlo.sign",
            Self::Sine => "stablehlo.sine",
            Self::Sqrt => "stablehlo.sqrt",
            Self::Tan => "stablehlo.tan",
            Self::Tanh => "stablehlo.tanh",
        }
    }
}

/// Operations of two operands of one type that keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the StableHLO operation of its name")]
pub enum Binary {
    Add,
    And,
    Atan2,
    Divide,
    Maximum,
    Minimum,
    Multiply,
    Or,
    Power,
    Remainder,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Subtract,
    Xor,
}

impl Binary {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Add => "stablehlo.add",
            Self::And => "stablehlo.and",
            Self::Atan2 => "stablehlo.atan2",
            Self::Divide => "stablehlo.divide",
            Self::Maximum => "stablehlo.maximum",
            Self::Minimum => "stablehlo.minimum",
            Self::Multiply => "stablehlo.multiply",
            Self::Or => "stablehlo.or",
            Self::Power => "stablehlo.power",
            Self::Remainder => "stablehlo.remainder",
            Self::ShiftLeft => "stablehlo.shift_left",
            Self::ShiftRightArithmetic => "stablehlo.shift_right_arithmetic",
            Self::ShiftRightLogical => "stablehlo.shift_right_logical",
            Self::Subtract => "stablehlo.subtract",
            Self::Xor => "stablehlo.xor",
        }
    }
}

/// Comparisons; those of floats are false where an operand is NaN, but for `Ne`, which is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the comparison of its name")]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Compare {
    const fn name(self) -> &'static str {
        match self {
            Self::Eq => "EQ",
            Self::Ne => "NE",
            Self::Lt => "LT",
            Self::Le => "LE",
            Self::Gt => "GT",
            Self::Ge => "GE",
        }
    }
}

impl Builder {
    /// An operation of one operand.
    pub fn unary(&mut self, op: Unary, x: Value) -> Value {
        let ty = self.ty(x).clone();
        self.push(format_args!("{} {x} : {ty}", op.name()), ty.clone())
    }

    /// One of CHLO's operations, such as `chlo.erf`, which XLA expands.
    pub fn chlo(&mut self, name: &str, x: Value) -> Value {
        let ty = self.ty(x).clone();
        self.push(format_args!("chlo.{name} {x} : {ty} -> {ty}"), ty.clone())
    }

    /// An operation of two operands of one type.
    pub fn binary(&mut self, op: Binary, x: Value, y: Value) -> Value {
        let ty = self.ty(x).clone();
        self.push(format_args!("{} {x}, {y} : {ty}", op.name()), ty.clone())
    }

    /// x + y
    pub fn add(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::Add, x, y)
    }

    /// x − y
    pub fn sub(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::Subtract, x, y)
    }

    /// x · y
    pub fn mul(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::Multiply, x, y)
    }

    /// x / y
    pub fn div(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::Divide, x, y)
    }

    /// The larger of x and y; NaN where either is.
    pub fn max(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::Maximum, x, y)
    }

    /// The smaller of x and y; NaN where either is.
    pub fn min(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::Minimum, x, y)
    }

    /// x and y; bits of integers.
    pub fn and(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::And, x, y)
    }

    /// x or y; bits of integers.
    pub fn or(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::Or, x, y)
    }

    /// An operation with a constant as second operand.
    pub fn binary_scalar(&mut self, op: Binary, x: Value, number: f64) -> Value {
        let y = self.splat_like(number, x);
        self.binary(op, x, y)
    }

    /// Booleans of a comparison.
    pub fn compare(&mut self, direction: Compare, x: Value, y: Value) -> Value {
        let kind = match self.element(x) {
            element if element.is_float() => "FLOAT",
            element => integers(element),
        };
        self.compare_as(direction, x, y, kind)
    }

    /// Booleans of a comparison in which floats are in their total order, by sign and bits: −NaN, −∞, …,
    /// −0, 0, …, ∞, NaN.
    pub fn compare_total(&mut self, direction: Compare, x: Value, y: Value) -> Value {
        let kind = match self.element(x) {
            element if element.is_float() => "TOTALORDER",
            element => integers(element),
        };
        self.compare_as(direction, x, y, kind)
    }

    fn compare_as(&mut self, direction: Compare, x: Value, y: Value, kind: &str) -> Value {
        let ty = self.ty(x).clone();
        let result = ty.with_element(ElementType::Pred);
        let name = direction.name();
        self.push(
            format_args!("stablehlo.compare {name}, {x}, {y}, {kind} : ({ty}, {ty}) -> {result}"),
            result.clone(),
        )
    }

    /// Booleans of a comparison with a constant.
    pub fn compare_scalar(&mut self, direction: Compare, x: Value, number: f64) -> Value {
        let y = self.splat_like(number, x);
        self.compare(direction, x, y)
    }

    /// `yes` where `condition` holds, and `no` elsewhere; `condition` has their shape.
    pub fn select(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        let (of, ty) = (self.ty(condition).clone(), self.ty(yes).clone());
        self.push(
            format_args!("stablehlo.select {condition}, {yes}, {no} : {of}, {ty}"),
            ty.clone(),
        )
    }

    /// x between two constants; NaN stays.
    pub fn clamp(&mut self, low: f64, x: Value, high: f64) -> Value {
        let low = self.splat_like(low, x);
        let high = self.splat_like(high, x);
        let ty = self.ty(x).clone();
        self.push(
            format_args!("stablehlo.clamp {low}, {x}, {high} : {ty}"),
            ty.clone(),
        )
    }

    /// The elements as another type: floats are rounded to the nearest, ties to even, and overflow
    /// as IEEE says (E4M3: to NaN); nothing is added if they have the type.
    pub fn convert(&mut self, x: Value, element: ElementType) -> Value {
        let from = self.ty(x).clone();
        if from.element == element {
            return x;
        }
        let to = from.with_element(element);
        self.push(
            format_args!("stablehlo.convert {x} : ({from}) -> {to}"),
            to.clone(),
        )
    }

    /// The same bits as another type. Of a narrower type there is a further, last dimension; a wider
    /// one takes the last dimension away. The lowest bits come first.
    pub fn bitcast(&mut self, x: Value, element: ElementType) -> Value {
        let from = self.ty(x).clone();
        let mut shape = from.shape.clone();
        let (old, new) = (from.element.bytes(), element.bytes());
        if new < old {
            shape.push(old / new);
        } else if new > old {
            shape.pop();
        }
        let to = TensorType::new(shape, element);
        self.push(
            format_args!("stablehlo.bitcast_convert {x} : ({from}) -> {to}"),
            to.clone(),
        )
    }

    /// Whether an element is neither infinite nor NaN.
    pub fn is_finite(&mut self, x: Value) -> Value {
        let ty = self.ty(x).clone();
        let result = ty.with_element(ElementType::Pred);
        self.push(
            format_args!("stablehlo.is_finite {x} : ({ty}) -> {result}"),
            result.clone(),
        )
    }
}

/// How integers and booleans are compared.
fn integers(element: ElementType) -> &'static str {
    match element.is_unsigned() || element == ElementType::Pred {
        true => "UNSIGNED",
        false => "SIGNED",
    }
}
