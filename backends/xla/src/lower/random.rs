//! Random numbers from the graph's generator, whose state goes from operation to operation.

use super::{LowerError, Lowering, tensor_type};
use crate::ElementType;
use crate::stablehlo::{Binary, Compare, TensorType, Value};
use burn_backend::Distribution;
use burn_ir::{RandomOpIr, ScalarIr};

impl Lowering<'_> {
    pub(super) fn random_numbers(&mut self, d: &RandomOpIr) -> Result<(), LowerError> {
        let ty = tensor_type(&d.out)?;
        let value = match d.distribution {
            Distribution::Bernoulli(p) => {
                let unit = self.unit(&ty.with_element(ElementType::F32))?;
                self.b.compare_scalar(Compare::Lt, unit, p)
            }
            Distribution::Normal(mean, deviation) => {
                let element = match ty.element {
                    ElementType::F64 => ElementType::F64,
                    _ => ElementType::F32,
                };
                let x = self.normal(&ty.with_element(element))?;
                let x = self.b.binary_scalar(Binary::Multiply, x, deviation);
                self.b.binary_scalar(Binary::Add, x, mean)
            }
            Distribution::Default if ty.element.is_float() => self.uniform(&ty, 0.0, 1.0)?,
            Distribution::Uniform(low, high) if ty.element.is_float() => {
                self.uniform(&ty, low, high)?
            }
            // Of integers, as Burn's other backends have it: all of them.
            Distribution::Default => {
                let bits = self.bits(ty.with_element(ElementType::U64))?;
                self.b.convert(bits, ty.element)
            }
            Distribution::Uniform(low, high) => self.uniform_integers(&ty, low, high)?,
        };
        self.finish(&d.out, value)
    }

    fn bits(&mut self, ty: TensorType) -> Result<Value, LowerError> {
        let state = self.random.ok_or_else(|| LowerError::Unsupported {
            operation: "Random in a program without a state of the random number generator"
                .to_owned(),
        })?;
        let (state, bits) = self.b.random_bits(state, ty);
        self.random = Some(state);
        Ok(bits)
    }

    /// Multiples of 2^-n in [0, 1), where n is the type's precision: all of them are exact.
    fn unit(&mut self, ty: &TensorType) -> Result<Value, LowerError> {
        let precision = match ty.element {
            ElementType::F64 => 53,
            ElementType::F32 => 24,
            ElementType::F16 => 11,
            _ => 8,
        };
        let (words, wide) = match ty.element {
            ElementType::F64 => (ElementType::U64, ElementType::F64),
            _ => (ElementType::U32, ElementType::F32),
        };
        let bits = self.bits(ty.with_element(words))?;
        let drop = (8 * words.bytes() - precision) as f64;
        let bits = self.b.binary_scalar(Binary::ShiftRightLogical, bits, drop);
        let x = self.b.convert(bits, wide);
        let scale = (-(precision as f64)).exp2();
        Ok(self.b.binary_scalar(Binary::Multiply, x, scale))
    }

    fn uniform(&mut self, ty: &TensorType, low: f64, high: f64) -> Result<Value, LowerError> {
        let x = self.unit(ty)?;
        let x = self.b.binary_scalar(Binary::Multiply, x, high - low);
        let x = self.b.binary_scalar(Binary::Add, x, low);
        let x = self.b.convert(x, ty.element);
        // The sum may have been rounded up to `high`, which isn't part of the range.
        let over = self.b.compare_scalar(Compare::Ge, x, high);
        let first = self.b.splat_like(low, x);
        Ok(self.b.select(over, first, x))
    }

    /// Integers in [low, high): the remainder of 64 bits, whose bias is under 2^-32 for 32-bit ranges.
    fn uniform_integers(
        &mut self,
        ty: &TensorType,
        low: f64,
        high: f64,
    ) -> Result<Value, LowerError> {
        let wide = ty.with_element(ElementType::U64);
        let bits = self.bits(wide.clone())?;
        let (low, high) = (low as i128, high as i128);
        let range = self.b.splat_int((high - low).max(1), wide);
        let bits = self.b.binary(Binary::Remainder, bits, range);
        let x = self.b.convert(bits, ty.element);
        let low = self.scalar(ScalarIr::Int(low as i64), ty.clone());
        Ok(self.b.add(x, low))
    }

    /// Numbers with mean 0 and deviation 1: the inverse of their distribution function at the odd
    /// multiples of 2^-23 (of 2^-52 in f64) between −1 and 1, so that ±∞ can't come out.
    fn normal(&mut self, ty: &TensorType) -> Result<Value, LowerError> {
        let (words, precision) = match ty.element {
            ElementType::F64 => (ElementType::U64, 52),
            _ => (ElementType::U32, 23),
        };
        let bits = self.bits(ty.with_element(words))?;
        let drop = (8 * words.bytes() - precision) as f64;
        let bits = self.b.binary_scalar(Binary::ShiftRightLogical, bits, drop);
        let x = self.b.convert(bits, ty.element);
        let x = self.b.binary_scalar(Binary::Add, x, 0.5);
        let scale = (1.0 - precision as f64).exp2();
        let x = self.b.binary_scalar(Binary::Multiply, x, scale);
        let x = self.b.binary_scalar(Binary::Subtract, x, 1.0);
        let x = self.b.chlo("erf_inv", x);
        let root = std::f64::consts::SQRT_2;
        Ok(self.b.binary_scalar(Binary::Multiply, x, root))
    }
}
