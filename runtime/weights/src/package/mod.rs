//! Packages: a model's files in one folder, with what they are, what was measured with them, and a SHA-256 of each.
//!
//! A package has the model's own files, as a loader reads them, and two more:
//!
//! | file | holds |
//! |---|---|
//! | [`MANIFEST_FILE`] | a [`Manifest`] in JSON: the model, its measured figures, the machine, and path, bytes and SHA-256 of each file |
//! | [`SUMS_FILE`] | the SHA-256 of the manifest and of each file, as `sha256sum --check` reads them |
//!
//! [`PackageWriter`] makes a package, [`verify`] compares one with its manifest, and [`verify_at`] does so with any model that is one.
//! Together the two files leave no byte unprotected: a change in the model's files contradicts the manifest, one in the manifest
//! contradicts the sums, and the sums must be the manifest's. Who can write all of it can make a valid package, of course, but not one
//! with the same [`Package::fingerprint`].
//!
//! ```no_run
//! use moebius_weights::package;
//!
//! # fn main() -> Result<(), package::PackageError> {
//! let package = package::verify("model".as_ref(), None, &mut |_| ())?;
//! println!("{} is {}", package.folder.display(), package.fingerprint);
//! # Ok(())
//! # }
//! ```

mod digest;
mod error;
mod files;
mod manifest;
mod names;
mod verify;
mod write;

#[cfg(test)]
mod tests;

pub use digest::Hashing;
pub use error::PackageError;
pub use files::{is_licence, of_gguf, of_safetensors};
pub use manifest::{
    Figures, Hardware, Manifest, ModelFacts, PackageFacts, PackedFile, Software, Use,
};
pub use names::{MANIFEST_FILE, SUMS_FILE};
pub use verify::{Package, is_package, verify, verify_at};
pub use write::PackageWriter;
