//! What a conversion does.

use moebius_ops::scaling::Fp8Scheme;

use crate::fp8::Unscaled;
use crate::selection::DEFAULT_SKIPS;
use crate::writer::SHARD_BYTES;

/// What a conversion does.
#[derive(Clone, Debug)]
pub struct ConvertOptions {
    /// What weights become.
    pub scheme: Fp8Scheme,
    /// Patterns of names that stay as they are: `*` any characters, `?` one.
    pub skip: Vec<String>,
    /// What to do with FP8 codes that have no scale.
    pub unscaled: Unscaled,
    /// Bytes of data from which on a folder gets another file.
    pub shard_bytes: Option<u64>,
}

impl ConvertOptions {
    /// [`DEFAULT_SKIPS`], no FP8 without scales, and files of 5 GB as Hugging Face writes them.
    pub fn new(scheme: Fp8Scheme) -> Self {
        Self {
            scheme,
            skip: DEFAULT_SKIPS.iter().map(|&s| s.to_owned()).collect(),
            unscaled: Unscaled::Refuse,
            shard_bytes: Some(SHARD_BYTES),
        }
    }
}
