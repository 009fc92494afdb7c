//! What the tests of the tree share: where it is, and what cargo says about it.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
///
/// # Panics
/// Where this crate was moved out of it.
pub fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    folder.unwrap().to_path_buf()
}

/// What cargo says about the packages of the lock file; `options` narrow it down.
///
/// # Panics
/// Where cargo fails.
pub fn metadata(options: &[&str]) -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--format-version", "1"])
        .args(options)
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}
