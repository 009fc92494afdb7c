//! What the tests of the tree share: where it is.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::path::{Path, PathBuf};

/// The root of the repository.
///
/// # Panics
/// Where this crate was moved out of it.
pub fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    folder.unwrap().to_path_buf()
}
