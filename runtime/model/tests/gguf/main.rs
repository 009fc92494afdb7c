//! Models in GGUF files from other sources, attacks and files of another program, and files that are written.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]
#![allow(clippy::panic, reason = "a test fails by panicking")]

mod any_bytes;
#[path = "../../../weights/tests/gguf/builder.rs"]
mod builder;
mod misfits;
#[cfg(feature = "flex")]
mod models;
#[cfg(feature = "flex")]
mod narrow;
#[cfg(feature = "flex")]
mod written;

#[cfg(feature = "flex")]
use std::path::PathBuf;

/// The path of a folder in `tests/cases`.
#[cfg(feature = "flex")]
fn cases(folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/cases")
        .join(folder)
}
