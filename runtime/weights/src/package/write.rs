//! Writer of packages.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use super::digest::{Hashing, hash, sha256};
use super::error::{PackageError, fault, unread};
use super::manifest::{EXPECTED_PATH, Manifest, PackageFacts, PackedFile, check_path};
use super::names::{MANIFEST_FILE, SUMS_FILE};
use super::verify::Package;
use crate::error::{InFile, quoted, write_error};
use crate::folder::{PartFolder, sync_folder, write_whole};
use crate::source::open_regular;

/// A package in the making: a folder under a temporary name, which is removed unless the package is finished.
#[derive(Debug)]
pub struct PackageWriter {
    part: PartFolder,
    files: Vec<PackedFile>,
    /// Bytes of the files so far.
    bytes: u64,
}

impl PackageWriter {
    /// Begins a package in the folder `target`, which must be new or empty.
    ///
    /// # Errors
    /// [`PackageError::Written`] when the folder is in use or can't be created.
    pub fn begin(target: &Path) -> Result<Self, PackageError> {
        Ok(Self {
            part: PartFolder::begin(target)?,
            files: Vec::new(),
            bytes: 0,
        })
    }

    /// The temporary folder, which has the files that were added.
    pub fn folder(&self) -> &Path {
        self.part.path()
    }

    /// Bytes of the files that were added.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies the file `from` to `path` in the package, and waits for the disk. A symbolic link is followed: what it leads to is copied.
    /// `progress` is told of each piece, without the bytes of all files.
    ///
    /// # Errors
    /// [`PackageError::Manifest`] for a path that a package can't have, [`PackageError::Read`] and [`PackageError::Written`] when the file
    /// can't be copied, or was added before.
    pub fn add(
        &mut self,
        from: &Path,
        path: &str,
        progress: &mut dyn FnMut(Hashing<'_>),
    ) -> Result<(), PackageError> {
        let (source, _) = open_regular(from)?;
        self.copy((source, from), path, progress)
    }

    /// Writes a file of these bytes to `path` in the package, and waits for the disk.
    ///
    /// # Errors
    /// As [`PackageWriter::add`].
    pub fn add_bytes(&mut self, bytes: &[u8], path: &str) -> Result<(), PackageError> {
        self.copy((bytes, Path::new(path)), path, &mut |_| ())
    }

    /// Writes all that `source` gives, which is read from the file `from`, to `path` in the package.
    fn copy(
        &mut self,
        (source, from): (impl Read, &Path),
        path: &str,
        progress: &mut dyn FnMut(Hashing<'_>),
    ) -> Result<(), PackageError> {
        if let Err(got) = check_path(path) {
            let fault = fault(self.folder(), quoted(path), EXPECTED_PATH, got);
            return Err(PackageError::Manifest(fault));
        }
        let to = self.folder().join(path);
        let above = to.parent().unwrap_or(self.folder()).to_owned();
        fs::create_dir_all(&above).map_err(write_error(&above))?;
        let mut target = File::create_new(&to).map_err(write_error(&to))?;
        let (mut unwritten, mut done) = (false, self.bytes);
        let hashed = hash(source, u64::MAX, |piece| {
            let wrote = target.write_all(piece);
            done += piece.len() as u64;
            progress(Hashing {
                file: path,
                done,
                of: 0,
            });
            // Remembered, so that the error names the file that can't be written.
            wrote.inspect_err(|_| unwritten = true)
        });
        let hashed = match hashed {
            Ok(hashed) => hashed,
            Err(error) if unwritten => return Err(write_error(&to)(error).into()),
            Err(error) => return Err(unread(from)(error)),
        };
        target.sync_all().map_err(write_error(&to))?;
        sync_folder(&above).map_err(write_error(&above))?;
        self.bytes = done;
        self.files.push(PackedFile {
            path: path.to_owned(),
            bytes: hashed.bytes,
            sha256: hashed.sha256,
        });
        Ok(())
    }

    /// Writes the manifest and the sums, and moves the package to its place.
    ///
    /// # Errors
    /// [`PackageError::Manifest`] for a package without files, [`PackageError::Written`] when the package can't be written.
    pub fn finish(self, facts: PackageFacts) -> Result<Package, PackageError> {
        let folder = self.part.path();
        let manifest = Manifest::new(facts, self.files);
        let place = folder.join(MANIFEST_FILE);
        let written = manifest.written();
        let (bytes, sums) =
            written.map_err(|error| PackageError::NotJson(InFile::at(&place)(error)))?;
        // What can't be read again, as a figure that is no number, isn't written.
        let manifest = Manifest::parse(folder, &bytes)?;
        write_whole(&place, &bytes)?;
        write_whole(&folder.join(SUMS_FILE), sums.as_bytes())?;
        Ok(Package {
            folder: self.part.finish()?,
            manifest,
            fingerprint: sha256(&bytes),
        })
    }
}
