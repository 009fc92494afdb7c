//! The weights that an untrained model begins with.

use std::f32::consts::TAU;

use super::place::Place;
use super::slot::Kind;
use super::spec::ModelSpec;
use super::values::Values;
use crate::error::Error;
use crate::random::Random;

/// The deviation that most published decoders began with.
const DEVIATION: f32 = 0.02;

/// Draws weights: norms are 1, biases and sinks 0, everything else is normal with deviation 0.02, of products whose result is added to the
/// layer's input divided by √(2 · layers), so that the sum doesn't grow with depth (Radford et al. 2019). What a place gets
/// depends on the seed and the place alone, and is the same on every machine that rounds ln, cos and √ alike.
#[derive(Clone, Copy, Debug)]
pub struct Drawn<'a> {
    spec: &'a ModelSpec,
    seed: u64,
}

impl<'a> Drawn<'a> {
    /// First weights for `spec`.
    pub fn new(spec: &'a ModelSpec, seed: u64) -> Self {
        Self { spec, seed }
    }
}

impl Values for Drawn<'_> {
    fn values(&mut self, place: Place) -> Result<Vec<f32>, Error> {
        let count = place.shape(self.spec).iter().product();
        let deviation = match place.slot.kind() {
            Kind::Norm => return Ok(vec![1.0; count]),
            Kind::Bias => return Ok(vec![0.0; count]),
            Kind::Out => DEVIATION / (2.0 * self.spec.layers.len() as f32).sqrt(),
            Kind::Weight => DEVIATION,
        };
        let seeds = [self.seed, place.layer as u64, place.slot as u64];
        let mut random = Random::new(&seeds);
        Ok((0..count)
            .map(|_| deviation * normal(&mut random))
            .collect())
    }
}

/// A number of the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut Random) -> f32 {
    // In (0, 1], so that the logarithm is finite.
    let [first, second] =
        [(); 2].map(|()| ((random.next() >> 40) + 1) as f32 / (1u64 << 24) as f32);
    (-2.0 * first.ln()).sqrt() * (TAU * second).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_normal_and_depend_on_the_seed() {
        let draws = |seed| {
            let mut random = Random::new(&[seed]);
            (0..20_000).map(|_| normal(&mut random)).collect::<Vec<_>>()
        };
        let one = draws(1);
        let mean = one.iter().sum::<f32>() / one.len() as f32;
        let square = one.iter().map(|x| x * x).sum::<f32>() / one.len() as f32;
        assert!(
            mean.abs() < 0.03 && (square - 1.0).abs() < 0.05,
            "{mean} {square}"
        );
        let far = one.iter().filter(|x| x.abs() > 1.96).count() as f32 / one.len() as f32;
        assert!((far - 0.05).abs() < 0.01, "{far}");
        assert_ne!(one, draws(2));
    }
}
