//! The text, and batches of it.

use std::path::Path;

use moebius_weights::{InFile, Unfit};

use crate::error::Error;
use crate::random::Random;

/// Bytes to learn from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Vec<u8>);

/// Windows of a text and, for every byte, the one that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// \[batch, sequence\], row by row.
    pub inputs: Vec<i32>,
    /// The same windows one byte later.
    pub targets: Vec<i32>,
}

impl Text {
    /// Chapters 1 to 50 of Moby-Dick, which are in the public domain (`runtime/model/text/`).
    pub fn bundled() -> Self {
        Self(include_bytes!("../text/moby-dick.txt").to_vec())
    }

    /// These bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// [`Error::Text`] when it can't be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = std::fs::read(path).map_err(InFile::at(path));
        bytes.map(Self).map_err(Error::Text)
    }

    /// The bytes as tokens.
    pub fn ids(&self) -> Vec<u32> {
        self.0.iter().copied().map(u32::from).collect()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// `batch` windows of `sequence` bytes at places that depend on `seed` and `step` alone.
    ///
    /// # Errors
    /// [`Error::Config`] for a text of no more than `sequence` bytes.
    pub fn batch(
        &self,
        seed: u64,
        step: usize,
        batch: usize,
        sequence: usize,
    ) -> Result<Batch, Error> {
        let expected = format!("more than {sequence} bytes");
        let of = |byte: &u8| i32::from(*byte);
        batch_of(&self.0, of, (seed, step), [batch, sequence])
            .ok_or_else(|| Error::Config(Unfit::new("text", expected, self.0.len())))
    }
}

/// `batch` windows of `sequence` of `units` at places that depend on `seed` and `step` alone; `None` where there are no more than
/// `sequence`.
pub(crate) fn batch_of<T>(
    units: &[T],
    number: impl Fn(&T) -> i32,
    (seed, step): (u64, usize),
    [batch, sequence]: [usize; 2],
) -> Option<Batch> {
    let places = units.len().checked_sub(sequence)?;
    if places == 0 {
        return None;
    }
    let mut random = Random::new(&[seed, step as u64]);
    let mut inputs = Vec::with_capacity(batch * sequence);
    let mut targets = Vec::with_capacity(batch * sequence);
    for _ in 0..batch {
        let start = random.below(places);
        let window = &units[start..=start + sequence];
        inputs.extend(window[..sequence].iter().map(&number));
        targets.extend(window[1..].iter().map(&number));
    }
    Some(Batch { inputs, targets })
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
