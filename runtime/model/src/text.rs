//! The text, and batches of it.

use std::path::Path;

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
        let bytes = std::fs::read(path).map_err(|source| Error::Text {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self(bytes))
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
        let places = self.0.len().saturating_sub(sequence);
        if places == 0 {
            let expected = format!("more than {sequence} bytes");
            return Err(Error::config("text", expected, self.0.len()));
        }
        let mut random = Random::new(&[seed, step as u64]);
        let mut inputs = Vec::with_capacity(batch * sequence);
        let mut targets = Vec::with_capacity(batch * sequence);
        for _ in 0..batch {
            let start = random.below(places);
            let window = &self.0[start..=start + sequence];
            inputs.extend(window[..sequence].iter().map(|&byte| i32::from(byte)));
            targets.extend(window[1..].iter().map(|&byte| i32::from(byte)));
        }
        Ok(Batch { inputs, targets })
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn a_batch_depends_on_seed_and_step_alone() {
        let text = Text::bundled();
        let batch = |seed, step| text.batch(seed, step, 4, 16).unwrap();
        assert_eq!(batch(1, 2), batch(1, 2));
        assert_ne!(batch(1, 2), batch(1, 3));
        assert_ne!(batch(1, 2), batch(2, 2));
        // The windows of a smaller batch are the first ones of a larger.
        let one = text.batch(1, 2, 1, 16).unwrap();
        assert_eq!(one.inputs, batch(1, 2).inputs[..16]);
    }

    #[test]
    fn targets_are_the_bytes_that_follow() {
        let text = Text::new((0..=255).collect());
        let batch = text.batch(0, 0, 8, 10).unwrap();
        for (input, target) in batch.inputs.iter().zip(&batch.targets) {
            assert_eq!(input + 1, *target);
        }
    }

    #[test]
    fn every_byte_can_be_a_target_and_a_short_text_is_refused() {
        let text = Text::new(b"abc".to_vec());
        assert_eq!(text.batch(0, 0, 1, 2).unwrap().targets, [98, 99]);
        let error = text.batch(0, 0, 1, 3).unwrap_err().to_string();
        assert_eq!(error, "text: expected more than 3 bytes, got 3");
        assert!(Text::new(Vec::new()).batch(0, 0, 1, 1).is_err());
    }

    #[test]
    fn the_bundled_text_is_plain_ascii_with_unix_lines() {
        let text = Text::bundled();
        let plain = |byte: &u8| *byte == b'\n' || (b' '..=b'~').contains(byte);
        assert!(text.bytes().iter().all(plain));
        assert!((400_000..1_000_000).contains(&text.bytes().len()));
        assert!(text.bytes().starts_with(b"CHAPTER 1. Loomings."));
    }
}
