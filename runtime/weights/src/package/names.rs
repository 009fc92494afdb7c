//! Names of the two files that a package adds to a model's own.

/// File name of the manifest.
pub const MANIFEST_FILE: &str = "package.json";
/// File name of the sums, in the format of coreutils' `sha256sum`.
pub const SUMS_FILE: &str = "SHA256SUMS";
