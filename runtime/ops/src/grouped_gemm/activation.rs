//! Activations and their derivatives.

use serde::{Deserialize, Serialize};

/// The non-linearity between the two products of an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// max(x, 0); NaN stays NaN.
    Relu,
    /// x · Φ(x) = x/2 · (1 + erf(x/√2)), the exact form.
    Gelu,
    /// x / (1 + exp(−x)).
    Silu,
    /// x · tanh(ln(1 + exp(x))).
    Mish,
}

impl Activation {
    /// Every activation.
    pub const ALL: [Self; 4] = [Self::Relu, Self::Gelu, Self::Silu, Self::Mish];

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

impl std::fmt::Display for Activation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Relu => "relu",
            Self::Gelu => "gelu",
            Self::Silu => "silu",
            Self::Mish => "mish",
        })
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
mod tests {
    use super::*;

    #[test]
    fn reference_values() {
        // Φ from tables; silu and relu from their definitions.
        assert!((Activation::Gelu.reference(1.0) - 0.841_344_746_068_542_9).abs() < 1e-15);
        assert!((Activation::Gelu.reference(-5.0) + 5.0 * 2.866_515_718_791_939e-7).abs() < 1e-15);
        assert!((Activation::Silu.reference(0.0)).abs() < 1e-300);
        assert_eq!(Activation::Relu.reference(-3.0), 0.0);
        assert!(Activation::Relu.reference(f64::NAN).is_nan());
        // ln 2 = softplus(0), so mish'(0) = tanh(ln 2) = 3/5.
        assert_eq!(Activation::Mish.reference(0.0), 0.0);
        assert!((Activation::Mish.reference_gradient(0.0) - 0.6).abs() < 1e-15);
        assert!((Activation::Mish.reference(1.0) - 0.865_098_388_267_310_3).abs() < 1e-15);
        assert_eq!(Activation::Mish.reference(1e4), 1e4);
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        const STEP: f64 = 1e-5;
        for activation in Activation::ALL {
            for i in -60..=60 {
                // Never 0, where relu has no derivative.
                let x = f64::from(i) * 0.21 + 0.005;
                let rise = activation.reference(x + STEP) - activation.reference(x - STEP);
                let (got, want) = (activation.reference_gradient(x), rise / (2.0 * STEP));
                assert!(
                    (got - want).abs() < 1e-8,
                    "{activation}'({x}): {got}, {want}"
                );
            }
        }
        assert_eq!(Activation::Relu.reference_gradient(0.0), 0.0);
    }
}
