//! Random words by number: Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).

const ROUNDS: usize = 10;
/// The multipliers, and what is added to the key after each round.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Four random words, a function of `counter` and `key` and of nothing else: so any of them can be had at any time, in any order.
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut a, mut b, mut c, mut d], [mut left, mut right]) = (counter, key);
    for _ in 0..ROUNDS {
        let first = u64::from(a) * u64::from(MULTIPLIERS[0]);
        let second = u64::from(c) * u64::from(MULTIPLIERS[1]);
        [a, b, c, d] = [
            (second >> 32) as u32 ^ b ^ left,
            second as u32,
            (first >> 32) as u32 ^ d ^ right,
            first as u32,
        ];
        left = left.wrapping_add(WEYL[0]);
        right = right.wrapping_add(WEYL[1]);
    }
    [a, b, c, d]
}

/// The random word for the token at place `index` among those that are generated with `seed`.
pub(super) fn word(seed: u64, index: u64) -> u64 {
    let halves = |word: u64| [word as u32, (word >> 32) as u32];
    let [low, high] = halves(index);
    let [first, second, ..] = philox([low, high, 0, 0], halves(seed));
    u64::from(first) | u64::from(second) << 32
}
