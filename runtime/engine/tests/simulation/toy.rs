//! A toy model whose keys and values are hashes: a position holds a hash of all tokens up to it, so any wrong page is detected.

use moebius_engine::{History, Sampling, SamplingOptions};

/// Number of token ids; id 0 ends a text.
pub(crate) const VOCABULARY: u32 = 12;

/// The final mix of SplitMix64: every bit of the result depends on every bit of `word`.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// A SplitMix64 generator of random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A random number in `0..end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (mix(self.0) % end as u64) as usize
    }

    /// Returns true with a probability of 1 / `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// The hash before a request's first token. Requests with different salts may share no page, so their hashes differ
/// from the start.
pub(crate) fn start(salt: u8) -> u64 {
    mix(u64::from(salt) + 1)
}

/// The hash at a position, from its `token` and the hash `before` at the previous position.
pub(crate) fn held(before: u64, token: u32) -> u64 {
    mix(before.wrapping_add(u64::from(token)).wrapping_mul(3))
}

pub(crate) fn logits(held: u64) -> Vec<f32> {
    let ids = 0..u64::from(VOCABULARY);
    // Id 0 has a lower logit than others, so that texts have some length.
    let logit =
        |id: u64| (mix(held ^ (id + 1)) % 64) as f32 / 16.0 - if id == 0 { 2.0 } else { 0.0 };
    ids.map(logit).collect()
}

/// A request computed by itself, without pages, steps and other requests.
pub(crate) struct Alone {
    /// Tokens of the prompt, and generated tokens.
    pub(crate) tokens: Vec<u32>,
    /// The hash at each token's position.
    pub(crate) held: Vec<u64>,
    pub(crate) sampling: Sampling,
    pub(crate) salt: u8,
    pub(crate) prompt: usize,
}

impl Alone {
    pub(crate) fn new(prompt: &[u32], most_new: usize, salt: u8, seed: u64) -> Self {
        let options = SamplingOptions {
            temperature: 1.5,
            top_p: 0.9,
            frequency_penalty: 0.1,
            seed,
            ..SamplingOptions::default()
        };
        let sampling = Sampling::new(options).unwrap();
        let (mut tokens, mut places, mut last) = (prompt.to_vec(), Vec::new(), start(salt));
        let mut history = History::new(prompt);
        for index in 0.. {
            for token in &tokens[places.len()..] {
                last = held(last, *token);
                places.push(last);
            }
            if index as usize == most_new || index > 0 && tokens.last() == Some(&0) {
                break;
            }
            let draw = sampling.sample(&logits(last), &history, index).unwrap();
            history.push(draw.id);
            tokens.push(draw.id);
        }
        Self {
            tokens,
            held: places,
            sampling,
            salt,
            prompt: prompt.len(),
        }
    }
}
