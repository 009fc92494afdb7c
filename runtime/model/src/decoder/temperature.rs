//! Temperature of attention that falls with the position: a factor on queries, so that long contexts don't flatten the softmax (Nakanishi
//! 2025, "Scalable-Softmax").

use burn::tensor::{Tensor, TensorData};
use serde::Serialize;

use super::rope::Places;

/// Factor 1 + s · ln(1 + ⌊(p + o) / n⌋) on the query at position p.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Temperature {
    /// Strength s of the growth.
    pub scale: f64,
    /// Tokens n of a step of the growth.
    pub span: f64,
    /// Number o of the first position: 0 or 1.
    pub offset: f64,
}

impl Temperature {
    /// The factor at a position, computed in f32 as in the programs that the models were trained with.
    pub fn factor(&self, position: usize) -> f32 {
        let steps = ((position as f32 + self.offset as f32) / self.span as f32).floor();
        steps.ln_1p() * self.scale as f32 + 1.0
    }

    /// Multiplies queries \[B, S, heads, D\] by the factors of their positions.
    pub(super) fn applied(&self, q: Tensor<4>, places: &Places) -> Tensor<4> {
        let (sequences, positions) = places.positions();
        let positions = positions.into_iter();
        let factors: Vec<f32> = positions.map(|position| self.factor(position)).collect();
        let none = factors.iter().all(|&factor| factor == 1.0);
        if none && places.counts.is_none() {
            return q;
        }
        let data = TensorData::new(factors, [sequences, places.tokens, 1, 1]);
        let options = (&q.device(), q.dtype());
        q * Tensor::from_data(data, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_grows_by_steps() {
        let temperature = Temperature {
            scale: 0.1,
            span: 8.0,
            offset: 1.0,
        };
        let factors = [0, 6, 7, 14, 15].map(|position| temperature.factor(position));
        let step = |steps: f64| (1.0 + 0.1 * (1.0 + steps).ln()) as f32;
        let expected = [1.0, 1.0, step(1.0), step(1.0), step(2.0)];
        for (got, want) in factors.into_iter().zip(expected) {
            assert!((got - want).abs() < 1e-6, "{got} for {want}");
        }
    }
}
