//! Hashes of operations, under which programs are kept, and of names of tensors.

use burn_ir::TensorId;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map by names of tensors.
pub(super) type ById<T> = HashMap<TensorId, T, BuildHasherDefault<Multiply>>;
/// A set of names of tensors.
pub(super) type Ids = HashSet<TensorId, BuildHasherDefault<Multiply>>;

/// Hashes numbers of our own making with a rotation and a product each: a step of a training hashes some
/// ten thousand of them, and no input from outside chooses them.
#[derive(Default)]
pub(super) struct Multiply(u64);

/// 2⁶⁴ over the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Multiply {
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(GOLDEN);
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        // Tables look at the low bits, a product mixes into the high ones.
        self.0 ^ (self.0 >> 32)
    }
}
