//! GGUF files from outside: attacks, files of another program, models.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]
#![allow(clippy::panic, reason = "a test fails by panicking")]

mod any_bytes;
mod builder;
mod hostile;
mod misfits;
#[cfg(feature = "flex")]
mod models;
mod vocabulary;

use std::path::PathBuf;

/// A folder of `tests/cases`.
fn cases(folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/cases")
        .join(folder)
}
