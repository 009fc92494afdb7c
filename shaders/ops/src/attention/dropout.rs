//! Which weights a dropout drops, and what it makes of the others.

use super::Site;
use crate::error::{Fault, Mismatch};
use crate::routing::mix;

/// A dropout of attention's weights, as kernels read it: u32 \[4\].
///
/// The weight of query i and key j in sequence b and query head h is kept where the hash of (b, h, i, j) isn't below t, and is then
/// multiplied by f; the others are multiplied by 0. Arithmetic is modulo 2³², mix is an avalanche of 32 bits (lowbias32,
/// Chris Wellons):
/// - r_n = mix(mix(mix(seed_n + b) + h) + i) for n = 0 and 1; the hash is mix(mix(j ⊕ r_0) + r_1);
/// - the words are seed_0, seed_1, t = ⌊p · 2³²⌋, and the bits of f = 1 / (1 − p) in f32.
///
/// So a weight's fate depends on its place and on the words alone, and no mask is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropout([u32; Self::WORDS]);

impl Dropout {
    /// How many words there are.
    pub const WORDS: usize = 4;

    /// Drops a weight with probability `p`; seed_0 and seed_1 are the halves of what SplitMix64 (Steele et al. 2014) makes of
    /// `seed`.
    ///
    /// # Errors
    /// [`Mismatch`] unless 0 ≤ p < 1.
    pub fn new(p: f64, seed: u64) -> Result<Self, Mismatch> {
        let expected = "at least 0 and less than 1";
        Fault::Config.unless((0.0..1.0).contains(&p), "dropout", expected, p)?;
        let seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let seed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let seed = seed ^ (seed >> 31);
        // Saturates where p is nearer to 1 than 2⁻³².
        let threshold = (p * 2.0_f64.powi(32)) as u32;
        let factor = (1.0 / (1.0 - p)) as f32;
        Ok(Self([
            seed as u32,
            (seed >> 32) as u32,
            threshold,
            factor.to_bits(),
        ]))
    }

    /// The dropout whose words these are.
    pub fn of(words: [u32; Self::WORDS]) -> Self {
        Self(words)
    }

    /// The words.
    pub fn words(&self) -> [u32; Self::WORDS] {
        self.0
    }

    /// What the weights of a query are multiplied by: 0 or f for each key.
    pub fn row(&self, [batch, head, query]: [usize; 3]) -> impl Fn(u32) -> f32 + use<> {
        let [first, second, threshold, factor] = self.0;
        let row = |seed: u32| {
            let places = [batch, head, query];
            let add = |word: u32, place: usize| mix(word.wrapping_add(place as u32));
            places.into_iter().fold(seed, add)
        };
        let (first, second) = (row(first), row(second));
        move |key| {
            let hash = mix(mix(key ^ first).wrapping_add(second));
            f32::from_bits(if hash < threshold { 0 } else { factor })
        }
    }

    /// What the weight of a query and a key is multiplied by.
    pub fn factor(&self, site: Site) -> f32 {
        self.row([site.batch, site.head, site.query])(site.key as u32)
    }
}
