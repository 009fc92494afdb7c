//! Operations on elements at the same place.

use super::{Builder, TensorType, Value};
use crate::ElementType;

macro_rules! operations {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $text:literal)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is what StableHLO says of the same name")]
        pub enum $name { $($variant),* }

        impl $name {
            pub(super) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
    };
}

operations! {
    /// Operations of one operand that keep its type.
    Unary {
        Abs "stablehlo.abs"
        Ceil "stablehlo.ceil"
        Cosine "stablehlo.cosine"
        CountLeadingZeros "stablehlo.count_leading_zeros"
        Exponential "stablehlo.exponential"
        Floor "stablehlo.floor"
        Log "stablehlo.log"
        LogPlusOne "stablehlo.log_plus_one"
        Logistic "stablehlo.logistic"
        Negate "stablehlo.negate"
        Not "stablehlo.not"
        RoundNearestEven "stablehlo.round_nearest_even"
        Rsqrt "stablehlo.rsqrt"
        Sign "stablehlo.sign"
        Sine "stablehlo.sine"
        Sqrt "stablehlo.sqrt"
        Tan "stablehlo.tan"
        Tanh "stablehlo.tanh"
    }
}

operations! {
    /// Operations of two operands of one type that keep it.
    Binary {
        Add "stablehlo.add"
        And "stablehlo.and"
        Atan2 "stablehlo.atan2"
        Divide "stablehlo.divide"
        Maximum "stablehlo.maximum"
        Minimum "stablehlo.minimum"
        Multiply "stablehlo.multiply"
        Or "stablehlo.or"
        Power "stablehlo.power"
        Remainder "stablehlo.remainder"
        ShiftLeft "stablehlo.shift_left"
        ShiftRightArithmetic "stablehlo.shift_right_arithmetic"
        ShiftRightLogical "stablehlo.shift_right_logical"
        Subtract "stablehlo.subtract"
        Xor "stablehlo.xor"
    }
}

operations! {
    /// Comparisons; those of floats are false where an operand is NaN, but for `Ne`, which is true.
    Compare {
        Eq "EQ"
        Ne "NE"
        Lt "LT"
        Le "LE"
        Gt "GT"
        Ge "GE"
    }
}

impl Builder {
    /// An operation of one operand.
    pub fn unary(&mut self, op: Unary, x: Value) -> Value {
        self.alike(format_args!("{} {x}", op.name()), x)
    }

    /// One of CHLO's operations, such as `chlo.erf`, which XLA expands.
    pub fn chlo(&mut self, name: &str, x: Value) -> Value {
        let ty = self.ty(x).clone();
        self.push(format!("chlo.{name} {x} : {ty} -> {ty}"), ty)
    }

    /// An operation of two operands of one type.
    pub fn binary(&mut self, op: Binary, x: Value, y: Value) -> Value {
        self.alike(format_args!("{} {x}, {y}", op.name()), x)
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

    /// An operation of x and y, which is repeated to the shape of x as by [`Builder::broadcast_to`].
    pub fn binary_broadcast(&mut self, op: Binary, x: Value, y: Value) -> Value {
        let shape = self.shape(x);
        let y = self.broadcast_to(y, &shape);
        self.binary(op, x, y)
    }

    /// Booleans of a comparison.
    pub fn compare(&mut self, direction: Compare, x: Value, y: Value) -> Value {
        self.compare_as(direction, x, y, "FLOAT")
    }

    /// Booleans of a comparison in which floats are in their total order, by sign and bits: −NaN, −∞, …,
    /// −0, 0, …, ∞, NaN.
    pub fn compare_total(&mut self, direction: Compare, x: Value, y: Value) -> Value {
        self.compare_as(direction, x, y, "TOTALORDER")
    }

    /// A comparison; floats are compared as `floats` says.
    fn compare_as(&mut self, direction: Compare, x: Value, y: Value, floats: &str) -> Value {
        let kind = match self.element(x) {
            element if element.is_float() => floats,
            element if element.is_unsigned() || element == ElementType::Pred => "UNSIGNED",
            _ => "SIGNED",
        };
        let result = self.ty(x).with_element(ElementType::Pred);
        let name = direction.name();
        let operation = format_args!("stablehlo.compare {name}, {x}, {y}, {kind}");
        self.typed(operation, &[x, y], result)
    }

    /// Booleans of a comparison with a constant.
    pub fn compare_scalar(&mut self, direction: Compare, x: Value, number: f64) -> Value {
        let y = self.splat_like(number, x);
        self.compare(direction, x, y)
    }

    /// `yes` where `condition` holds, and `no` elsewhere; `condition` has their shape.
    pub fn select(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        let (of, ty) = (self.ty(condition).clone(), self.ty(yes).clone());
        let operation = format!("stablehlo.select {condition}, {yes}, {no} : {of}, {ty}");
        self.push(operation, ty)
    }

    /// `x` where `condition` holds, and 0 elsewhere.
    pub fn select_or_zero(&mut self, condition: Value, x: Value) -> Value {
        let zero = self.splat_like(0.0, x);
        self.select(condition, x, zero)
    }

    /// x between two constants; NaN stays.
    pub fn clamp(&mut self, low: f64, x: Value, high: f64) -> Value {
        let low = self.splat_like(low, x);
        let high = self.splat_like(high, x);
        self.alike(format_args!("stablehlo.clamp {low}, {x}, {high}"), x)
    }

    /// The elements as another type: floats are rounded to the nearest, ties to even, and overflow
    /// as IEEE says (E4M3: to NaN); nothing is added if they have the type.
    pub fn convert(&mut self, x: Value, element: ElementType) -> Value {
        let from = self.ty(x).clone();
        if from.element == element {
            return x;
        }
        let to = from.with_element(element);
        self.typed(format_args!("stablehlo.convert {x}"), &[x], to)
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
        self.typed(format_args!("stablehlo.bitcast_convert {x}"), &[x], to)
    }

    /// Whether an element is neither infinite nor NaN.
    pub fn is_finite(&mut self, x: Value) -> Value {
        let result = self.ty(x).with_element(ElementType::Pred);
        self.typed(format_args!("stablehlo.is_finite {x}"), &[x], result)
    }
}
