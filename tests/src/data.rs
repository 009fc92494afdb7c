//! Reproducible random data: an own generator, because another crate's might change under committed expectations.

use half::{bf16, f16};
use moebius_ops::Element;

/// The value of `element` nearest to `value`.
pub fn rounded(value: f32, element: Element) -> f32 {
    match element {
        Element::F32 => value,
        Element::F16 => f16::from_f32(value).to_f32(),
        Element::Bf16 => bf16::from_f32(value).to_f32(),
    }
}

/// A pseudo-random generator: SplitMix64 (Steele, Lea, Flood 2014).
pub struct Rng(u64);

impl Rng {
    /// Makes a generator whose sequence depends on `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Draws 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Draws an integer uniform in \[0, n).
    pub fn below(&mut self, n: usize) -> usize {
        (self.next_u64() % n as u64) as usize
    }

    /// Draws a number uniform in \[−1, 1).
    pub fn unit(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Draws `n` values uniform in ±`bound`.
    pub fn vec(&mut self, n: usize, bound: f32) -> Vec<f32> {
        (0..n).map(|_| self.unit() * bound).collect()
    }
}
