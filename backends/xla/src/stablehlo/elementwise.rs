//! Element-wise operations.

use super::{Builder, Value};
use moebius_pjrt::{ElementType, TensorType};

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
    /// An operation of one operand that keeps its type.
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
    /// An operation of two operands of one type that keeps the type.
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
    /// A comparison. Comparisons of floats are false if an operand is NaN, except `Ne`, which is true.
    Compare {
        Eq "EQ"
        Ne "NE"
        Lt "LT"
        Le "LE"
        Gt "GT"
        Ge "GE"
    }
}

/// The second operand of an operation: a value, or a number for all elements.
pub trait Operand {
    /// The operand as a value; a number becomes a value of the type of `like`.
    fn value(self, b: &Builder, like: Value) -> Value;
}

impl Operand for Value {
    fn value(self, _: &Builder, _: Value) -> Value {
        self
    }
}

impl Operand for f64 {
    fn value(self, b: &Builder, like: Value) -> Value {
        b.splat_like(self, like)
    }
}

/// A value as second operand, repeated to the shape of the first by [`Builder::broadcast`] with these dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Along<const N: usize>(pub Value, pub [usize; N]);

impl<const N: usize> Operand for Along<N> {
    fn value(self, b: &Builder, like: Value) -> Value {
        b.broadcast(self.0, &b.shape(like), &self.1)
    }
}

/// A value as second operand, repeated to the shape of the first by [`Builder::broadcast_to`].
#[derive(Clone, Copy, Debug)]
pub struct Repeated(pub Value);

impl Operand for Repeated {
    fn value(self, b: &Builder, like: Value) -> Value {
        b.broadcast_to(self.0, &b.shape(like))
    }
}

/// Defines methods for frequently used operations.
macro_rules! methods {
    (unary: $($one:ident $unary:ident $of_one:literal)*) => {
        impl Builder {$(
            #[doc = $of_one]
            pub fn $one(&self, x: Value) -> Value {
                self.unary(Unary::$unary, x)
            }
        )*}
    };
    ($method:ident $kind:ident: $($two:ident $variant:ident $of_two:literal)*) => {
        impl Builder {$(
            #[doc = $of_two]
            pub fn $two(&self, x: Value, y: impl Operand) -> Value {
                self.$method($kind::$variant, x, y)
            }
        )*}
    };
}

methods! { unary:
    abs Abs "|x|"
    ceil Ceil "⌈x⌉"
    exp Exponential "exp(x)"
    floor Floor "⌊x⌋"
    log Log "ln(x)"
    neg Negate "−x"
    not Not "Not x; bits of integers."
}

methods! { binary Binary:
    add Add "x + y"
    sub Subtract "x − y"
    mul Multiply "x · y"
    div Divide "x / y"
    rem Remainder "What is left of x after a division by y, with the sign of x."
    max Maximum "The larger of x and y; NaN where either is."
    min Minimum "The smaller of x and y; NaN where either is."
    and And "x and y; bits of integers."
    or Or "x or y; bits of integers."
    xor Xor "x or y but not both; bits of integers."
    shift_left ShiftLeft "x · 2^y of integers."
    shift_right ShiftRightLogical "x / 2^y of integers without a sign."
}

methods! { compare Compare:
    eq Eq "x = y"
    ne Ne "x ≠ y; true where either is NaN."
    lt Lt "x < y"
    le Le "x ≤ y"
    gt Gt "x > y"
    ge Ge "x ≥ y"
}

impl Builder {
    /// Appends an operation of one operand.
    pub fn unary(&self, op: Unary, x: Value) -> Value {
        self.alike(format_args!("{} {x}", op.name()), x)
    }

    /// Appends an operation of CHLO, such as `chlo.erf`, which XLA expands.
    pub fn chlo(&self, name: &str, x: Value) -> Value {
        let ty = self.ty(x);
        self.push(format!("chlo.{name} {x} : {ty} -> {ty}"), ty)
    }

    /// Appends an operation of two operands of one type.
    pub fn binary(&self, op: Binary, x: Value, y: impl Operand) -> Value {
        let y = y.value(self, x);
        self.alike(format_args!("{} {x}, {y}", op.name()), x)
    }

    /// Compares element by element; the result is booleans.
    pub fn compare(&self, direction: Compare, x: Value, y: impl Operand) -> Value {
        self.compare_as(direction, x, y.value(self, x), "FLOAT")
    }

    /// Compares element by element, with floats in their total order by sign and bits: −NaN, −∞, …, −0, 0, …, ∞, NaN.
    pub fn compare_total(&self, direction: Compare, x: Value, y: Value) -> Value {
        self.compare_as(direction, x, y, "TOTALORDER")
    }

    /// Compares element by element; `floats` is the kind of comparison for floats.
    fn compare_as(&self, direction: Compare, x: Value, y: Value, floats: &str) -> Value {
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

    /// `yes` where `condition` holds, and `no` elsewhere; `condition` has the shape of both.
    pub fn select(&self, condition: Value, yes: Value, no: impl Operand) -> Value {
        let (of, ty, no) = (self.ty(condition), self.ty(yes), no.value(self, yes));
        let operation = format!("stablehlo.select {condition}, {yes}, {no} : {of}, {ty}");
        self.push(operation, ty)
    }

    /// `number` where `condition` holds, and `x` elsewhere.
    pub fn select_number(&self, condition: Value, number: f64, x: Value) -> Value {
        self.select(condition, self.splat_like(number, x), x)
    }

    /// `x` clamped between two constants; NaN stays.
    pub fn clamp(&self, low: f64, x: Value, high: f64) -> Value {
        let low = self.splat_like(low, x);
        let high = self.splat_like(high, x);
        self.alike(format_args!("stablehlo.clamp {low}, {x}, {high}"), x)
    }

    /// Converts the elements to another type. Floats are rounded to nearest, ties to even, and overflow as IEEE says
    /// (in E4M3, to NaN). Appends nothing if `x` already has the type.
    pub fn convert(&self, x: Value, element: ElementType) -> Value {
        let from = self.ty(x);
        if from.element == element {
            return x;
        }
        let to = from.with_element(element);
        self.typed(format_args!("stablehlo.convert {x}"), &[x], to)
    }

    /// Reinterprets the bits as another type, lowest bits first. A narrower type adds a last dimension; a wider one
    /// removes the last dimension.
    pub fn bitcast(&self, x: Value, element: ElementType) -> Value {
        let from = self.ty(x);
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

    /// Whether each element is neither infinite nor NaN.
    pub fn is_finite(&self, x: Value) -> Value {
        let result = self.ty(x).with_element(ElementType::Pred);
        self.typed(format_args!("stablehlo.is_finite {x}"), &[x], result)
    }
}
