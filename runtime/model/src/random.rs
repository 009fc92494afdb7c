//! The pseudo-random generator of all random numbers, the same on every device.

use burn::module::Param;
use burn::tensor::{Device, Shape, Tensor, TensorData};
use moebius::moe::{MoeConfig, MoeWeights};

/// A SplitMix64 generator (Steele, Lea, Flood 2014).
pub(crate) struct Random(u64);

impl Random {
    /// A generator with a sequence of its own for each list of seeds.
    pub(crate) fn new(seeds: &[u64]) -> Self {
        let mut random = Self(0);
        for seed in seeds {
            random = Self(random.next() ^ seed);
        }
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number uniform in 0..n, with `n` at least 1; the bias of at most n / 2⁶⁴ doesn't matter here.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// `count` values uniform in ±`bound`.
    pub(crate) fn uniform(&mut self, count: usize, bound: f32) -> Vec<f32> {
        let values = (0..count).map(|_| {
            let unit = (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
            unit * bound
        });
        values.collect()
    }

    /// A parameter uniform in ±`bound`.
    pub(crate) fn parameter<const D: usize>(
        &mut self,
        shape: [usize; D],
        bound: f32,
        device: &Device,
    ) -> Param<Tensor<D>> {
        let values = self.uniform(shape.iter().product(), bound);
        let data = TensorData::new(values, Shape::from(shape));
        Param::from_tensor(Tensor::from_data(data, device))
    }

    /// Draws the weights of a layer of experts.
    pub(crate) fn moe_weights(&mut self, config: &MoeConfig, device: &Device) -> MoeWeights {
        let (h, f, e) = (config.hidden, config.inter, config.experts);
        let columns = if config.gated { 2 * f } else { f };
        let (narrow, wide) = (bound(h), bound(f));
        let mut weights = MoeWeights {
            router: self.parameter([e, h], narrow, device).val(),
            w_in: self.parameter([e, columns, h], narrow, device).val(),
            b_in: None,
            w_out: self.parameter([e, h, f], wide, device).val(),
            b_out: None,
        };
        if config.bias {
            weights.b_in = Some(self.parameter([e, columns], narrow, device).val());
            weights.b_out = Some(self.parameter([e, h], wide, device).val());
        }
        weights
    }
}

/// Weights uniform in ±1/√`fan_in` for a layer of `config`, from `seed`.
///
/// A router without a learned matrix ignores the one that is drawn.
pub fn moe_weights(config: &MoeConfig, seed: u64, device: &Device) -> MoeWeights {
    Random::new(&[seed]).moe_weights(config, device)
}

/// PyTorch's bound ±1/√`inputs` for the initial weights of a layer with this many inputs.
pub(crate) fn bound(inputs: usize) -> f32 {
    1.0 / (inputs as f32).sqrt()
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn every_seed_counts_and_so_does_their_order() {
        let first = |seeds: &[u64]| Random::new(seeds).next();
        assert_ne!(first(&[1, 2]), first(&[2, 1]));
        assert_ne!(first(&[1]), first(&[1, 0]));
        assert_eq!(first(&[7, 3]), first(&[7, 3]));
        assert!((0..100).all(|seed| Random::new(&[seed]).below(3) < 3));
    }
}
