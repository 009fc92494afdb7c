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
    }
}

impl Activation {
    /// The oracle, in f64.
    pub fn reference(self, x: f64) -> f64 {
        match self {
            Self::Relu if x < 0.0 => 0.0,
            Self::Relu => x,
            Self::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Mish => x * x.exp().ln_1p().tanh(),
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
