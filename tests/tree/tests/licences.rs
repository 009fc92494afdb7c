//! What the packages of `Cargo.lock` are licensed under and where they come from: a user of Moebius takes them all on.

#![allow(clippy::unwrap_used, reason = "a test may panic on a broken workspace")]

use moebius_tree::metadata;
use serde_json::Value;

/// Licences that ask for no more than a notice, and MPL-2.0, which asks for changes of its own files.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages with a licence file in place of an expression, and what the file is.
const BY_FILE: &[(&str, &str)] = &[("cfg_block", "Apache-2.0")];

/// Whether an expression of SPDX allows one of the allowed licences. `/` is the old way to write OR; packages nest no further than
/// (A OR B) AND C.
fn allowed(expression: &str) -> bool {
    let one = |licence: &str| ALLOWED.contains(&licence.trim_matches(['(', ')', ' ']));
    let either = |part: &str| part.replace('/', " OR ").split(" OR ").any(one);
    expression.split(" AND ").all(either)
}

#[test]
fn expressions_are_read() {
    for good in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0 OR ISC",
        "(MIT OR X) AND NCSA",
    ] {
        assert!(allowed(good), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "", "LGPL-2.1-or-later"] {
        assert!(!allowed(bad), "{bad}");
    }
}

#[test]
fn every_package_may_be_used() {
    let metadata = metadata(&[]);
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{} packages", packages.len());
    let refused = |package: &&Value| {
        let name = package["name"].as_str().unwrap();
        let by_file = BY_FILE.iter().find(|(of, _)| *of == name);
        let licence = package["license"].as_str().or(by_file.map(|(_, l)| *l));
        let source = package["source"].as_str();
        let known =
            source.is_none_or(|source| source.contains("github.com/rust-lang/crates.io-index"));
        !known || !licence.is_some_and(allowed)
    };
    let refused: Vec<String> = packages
        .iter()
        .filter(refused)
        .map(|p| format!("{} {} from {}", p["name"], p["license"], p["source"]))
        .collect();
    assert!(
        refused.is_empty(),
        "packages with other licences or from elsewhere:\n{}",
        refused.join("\n")
    );
}
