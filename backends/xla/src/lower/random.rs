//! Random numbers from the graph's generator, whose state goes from operation to operation.

use super::{LowerError, Lowering, Result, tensor_type};
use crate::stablehlo::Value;
use burn_backend::Distribution;
use burn_ir::{RandomOpIr, ScalarIr};
use moebius_pjrt::ElementType::{self, F32, U32};
use moebius_pjrt::TensorType;

impl Lowering<'_> {
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
            // Of integers, as Burn's other backends have it: all of them.
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

    /// Multiples of 2^-n in [0, 1), where n is the type's precision: all of them are exact.
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

    /// Integers in [low, high): the remainder of 64 bits, whose bias is under 2^-32 for 32-bit ranges.
    fn uniform_integers(&self, ty: &TensorType, low: f64, high: f64) -> Result<Value> {
        let wide = ty.with_element(ElementType::U64);
        let bits = self.bits(wide.clone())?;
        let (low, high) = (low as i128, high as i128);
        let range = self.b.splat_int((high - low).max(1), wide);
        let x = self.b.convert(self.b.rem(bits, range), ty.element);
        let low = self.scalar(ScalarIr::Int(low as i64), ty.clone());
        Ok(self.b.add(x, low))
    }

    /// Numbers with mean 0 and deviation 1: the inverse of their distribution function at the odd
    /// multiples of 2^-23 (of 2^-52 in f64) between −1 and 1, so that ±∞ can't come out.
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
        let root = std::f64::consts::SQRT_2;
        Ok(b.mul(x, root))
    }
}
