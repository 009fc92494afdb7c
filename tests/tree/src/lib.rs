//! Shared parts of the tree's tests: the root, its files, and cargo's metadata.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
///
/// # Panics
/// When this crate isn't in the repository.
pub fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    folder.unwrap().to_path_buf()
}

/// Cargo's metadata of the packages in the lock file; `options` restrict it.
///
/// # Panics
/// When cargo fails.
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

/// The files that git tracks or would track, relative to the root, with `/`; without git (an archive of the sources) all files
/// except build output.
///
/// # Panics
/// When a folder can't be read.
pub fn paths() -> Vec<String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    match git.current_dir(root()).output() {
        Ok(listing) if listing.status.success() => {
            let names = String::from_utf8_lossy(&listing.stdout).into_owned();
            names.lines().map(str::to_owned).collect()
        }
        _ => walk(&root(), Path::new("")),
    }
}

fn walk(root: &Path, folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if !entry.file_type().unwrap().is_dir() {
            found.push(path.to_string_lossy().replace('\\', "/"));
        } else if !["target", ".git", "node_modules"]
            .contains(&&*entry.file_name().to_string_lossy())
        {
            found.extend(walk(root, &path));
        }
    }
    found
}

/// Asserts that there are no offences; lists them below the rule otherwise.
///
/// # Panics
/// When there is an offence.
pub fn assert_none(rule: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{rule}\n  {}", offences.join("\n  "));
}
