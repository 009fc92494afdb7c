//! The folders of all layouts of published models that have a test case.

use std::path::{Path, PathBuf};

/// The folders of `tests/cases` that hold a decoder.
pub(crate) fn folders() -> Vec<PathBuf> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let entries = std::fs::read_dir(cases).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = paths
        .filter(|path| path.join("logits.case.safetensors").is_file())
        .collect();
    folders.sort();
    assert!(folders.len() >= 11, "{folders:?}");
    folders
}
