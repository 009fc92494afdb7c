//! SHA-256, by which certificates say what is alike: browsers have it, too.

use ring::digest::{Context, SHA256};

/// A hash that grows with what is added.
pub(crate) struct Hash(Context);

impl Hash {
    /// The hash of nothing.
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Adds bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds the bits of values, four bytes each, the low one first.
    pub(crate) fn add_values(&mut self, values: impl Iterator<Item = f32>) {
        let mut bytes = Vec::with_capacity(4 * values.size_hint().0);
        values.for_each(|value| bytes.extend(value.to_le_bytes()));
        self.add(&bytes);
    }

    /// The hash in 64 lower-case hexadecimal digits.
    pub(crate) fn digits(self) -> String {
        let hash = self.0.finish();
        let digits = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
        digits.collect()
    }
}
