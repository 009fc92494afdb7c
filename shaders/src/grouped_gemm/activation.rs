//! Activations applied to the f32 sums before they are stored.

use cubecl::prelude::*;
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
    /// x · tanh(ln(1 + eˣ)).
    Mish,
}

impl Activation {
    /// The oracle, in f64.
    pub fn reference(self, x: f64) -> f64 {
        match self {
            Self::Relu if x < 0.0 => 0.0,
            Self::Relu => x,
            Self::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Mish => x * (x.max(0.0) + (-x.abs()).exp().ln_1p()).tanh(),
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

/// `activation` of every lane, or the value itself for `None`.
#[cube]
pub(crate) fn activate<N: Size>(
    x: Vector<f32, N>,
    #[comptime] activation: Option<Activation>,
) -> Vector<f32, N> {
    let zero = Vector::<f32, N>::new(0.0f32);
    let one = Vector::<f32, N>::new(1.0f32);
    match comptime!(activation) {
        Some(Activation::Relu) => select_many(x.less_than(&zero), zero, x),
        Some(Activation::Gelu) => {
            let root = Vector::<f32, N>::new(std::f32::consts::FRAC_1_SQRT_2);
            Vector::<f32, N>::new(0.5f32) * x * (one + (x * root).erf())
        }
        Some(Activation::Silu) => x / (one + (-x).exp()),
        Some(Activation::Mish) => x,
        None => x,
    }
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
    }
}
