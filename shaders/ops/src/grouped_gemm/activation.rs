//! Activations and their derivatives.

use serde::{Deserialize, Serialize};

named! {
    /// The non-linearity between the two products of an expert.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Activation {
        /// max(x, 0); NaN stays NaN.
        Relu = "relu",
        /// x · Φ(x) = x/2 · (1 + erf(x/√2)), the exact form.
        Gelu = "gelu",
        /// x / (1 + exp(−x)).
        Silu = "silu",
        /// x · tanh(ln(1 + exp(x))).
        Mish = "mish",
        /// m · σ(1.702 · m) with m = min(x, 7); a gate of it multiplies clamp(up, −7, 7) + 1 in place of up (gpt-oss, 2025).
        Clamped = "clamped",
    }
}

/// How steep [`Activation::Clamped`]'s σ is.
pub const CLAMPED_SLOPE: f32 = 1.702;

/// Where [`Activation::Clamped`] cuts.
pub const CLAMPED_LIMIT: f32 = 7.0;

impl Activation {
    /// The oracle, in f64.
    pub fn reference(self, x: f64) -> f64 {
        match self {
            Self::Relu if x < 0.0 => 0.0,
            Self::Relu => x,
            Self::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Mish => x * x.exp().ln_1p().tanh(),
            Self::Clamped => {
                let m = x.min(f64::from(CLAMPED_LIMIT));
                // `min` of a NaN is the other number.
                let m = if x.is_nan() { x } else { m };
                m / (1.0 + (-f64::from(CLAMPED_SLOPE) * m).exp())
            }
        }
    }

    /// What a gate of it multiplies, in f64: up, but for [`Activation::Clamped`].
    pub fn reference_gated(self, up: f64) -> f64 {
        let limit = f64::from(CLAMPED_LIMIT);
        match self {
            Self::Clamped => up.clamp(-limit, limit) + 1.0,
            _ => up,
        }
    }

    /// The derivative of [`Self::reference_gated`], in f64; 0 where it is cut.
    pub fn reference_gated_gradient(self, up: f64) -> f64 {
        match self {
            Self::Clamped if up.abs() > f64::from(CLAMPED_LIMIT) => 0.0,
            _ => 1.0,
        }
    }

    /// The oracle of the derivative, in f64; 0 where relu has none.
    pub fn reference_gradient(self, x: f64) -> f64 {
        let logistic = 1.0 / (1.0 + (-x).exp());
        match self {
            Self::Relu if x <= 0.0 => 0.0,
            Self::Relu => 1.0,
            Self::Gelu => {
                let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
                0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2)) + x * density
            }
            Self::Silu => logistic + x * logistic * (1.0 - logistic),
            Self::Mish => {
                let tanh = x.exp().ln_1p().tanh();
                tanh + x * logistic * (1.0 - tanh * tanh)
            }
            Self::Clamped if x > f64::from(CLAMPED_LIMIT) => 0.0,
            Self::Clamped => {
                let slope = f64::from(CLAMPED_SLOPE);
                let logistic = 1.0 / (1.0 + (-slope * x).exp());
                logistic + slope * x * logistic * (1.0 - logistic)
            }
        }
    }
}

/// erf by its Maclaurin series below 3 and its continued fraction above; error below 1e-15.
fn erf(x: f64) -> f64 {
    let z = x.abs();
    let value = if z < 3.0 {
        let (mut term, mut sum) = (z, z);
        for n in 1..100 {
            term *= -z * z / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let tail = (1..=60).rev().fold(z, |f, n| z + f64::from(n) / 2.0 / f);
        1.0 - (-z * z).exp() / (tail * std::f64::consts::PI.sqrt())
    };
    value.copysign(x)
}

#[cfg(test)]
#[path = "activation_tests.rs"]
mod tests;
