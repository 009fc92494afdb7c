//! Comparison of a package with its manifest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::digest::{Hashing, hash, is_sha256, sha256};
use super::error::{PackageError, fault, unread};
use super::manifest::{FORMAT, MOST_BYTES, Manifest, PackedFile};
use super::names::{MANIFEST_FILE, SUMS_FILE};
use crate::error::quoted;
use crate::folder::parent;

/// Largest depth of folders in a package.
const DEEPEST: usize = 16;

/// A package whose files are as its manifest says, when they were read.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// Folder of the package.
    pub folder: PathBuf,
    /// What the package says of itself.
    pub manifest: Manifest,
    /// SHA-256 of the manifest in 64 lower-case hexadecimal digits, which stands for the whole package.
    pub fingerprint: String,
}

/// Whether `folder` has a manifest, or sums that name one, and so must be verified before it is loaded. Other programs have files of the
/// manifest's name, too, which make no package. A link counts as what it leads to, and a file that can't be read as a package's, so that
/// [`verify`] refuses it.
pub fn is_package(folder: &Path) -> bool {
    let has = |name: &str, text: &str| {
        let path = folder.join(name);
        if !path.is_file() {
            return false;
        }
        let mut bytes = Vec::new();
        let opened = File::open(&path);
        match opened.and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes)) {
            Ok(_) => String::from_utf8_lossy(&bytes).contains(text),
            Err(_) => true,
        }
    };
    has(MANIFEST_FILE, &format!("\"{FORMAT}\"")) || has(SUMS_FILE, &format!("  {MANIFEST_FILE}\n"))
}

/// Checks that the package in `folder` has exactly the files of its manifest, with the bytes that it says, and returns it.
///
/// With a `fingerprint` the manifest must have it, which a package that somebody else made can't have. Symbolic links inside of the folder
/// are refused. The manifest, the sums, the names and the sizes of the files are checked before anything large is read; `progress` is
/// told of each piece that is hashed. What changes after it was read isn't noticed: the folder should be writable by nobody who runs a
/// model.
///
/// # Errors
/// [`PackageError::Missing`], [`PackageError::Additional`], [`PackageError::Changed`] and [`PackageError::NotAFile`] with the file, what
/// was expected and what was found; [`PackageError::NotJson`] and [`PackageError::Manifest`] for a manifest that can't be believed;
/// [`PackageError::Fingerprint`] for another package, [`PackageError::Read`] when something can't be read.
pub fn verify(
    folder: &Path,
    fingerprint: Option<&str>,
    progress: &mut dyn FnMut(Hashing<'_>),
) -> Result<Package, PackageError> {
    let bytes = small(folder, MANIFEST_FILE)?;
    let own = sha256(&bytes);
    if let Some(expected) = fingerprint.filter(|expected| *expected != own) {
        let expected = format!("SHA-256 {}", shown(expected));
        let fault = fault(folder, MANIFEST_FILE, expected, format!("SHA-256 {own}"));
        return Err(PackageError::Fingerprint(fault));
    }
    let manifest = Manifest::parse(folder, &bytes)?;
    check_sums(folder, &manifest.sums(&own), &own)?;
    check_names(folder, &manifest)?;
    let (mut done, of) = (0, manifest.bytes());
    for file in &manifest.files {
        let path = folder.join(&file.path);
        let opened = File::open(&path).map_err(unread(&path))?;
        let told = |piece: &[u8]| -> io::Result<()> {
            done += piece.len() as u64;
            let file = file.path.as_str();
            progress(Hashing { file, done, of });
            Ok(())
        };
        let found = hash(opened, file.bytes, told).map_err(unread(&path))?;
        if found.bytes != file.bytes || found.sha256 != file.sha256 {
            let got = format!("{} bytes with SHA-256 {}", found.bytes, found.sha256);
            return Err(changed(folder, file, got));
        }
    }
    Ok(Package {
        folder: folder.to_owned(),
        manifest,
        fingerprint: own,
    })
}

/// Verifies the model at `place`, a folder or a GGUF file, if it is a package: what a server calls before it loads a model.
///
/// A folder that is no package ([`is_package`]) gives `None`, unless a `fingerprint` says that it must be one.
///
/// # Errors
/// As [`verify`].
pub fn verify_at(
    place: &Path,
    fingerprint: Option<&str>,
    progress: &mut dyn FnMut(Hashing<'_>),
) -> Result<Option<Package>, PackageError> {
    let folder = if place.is_dir() {
        place.to_owned()
    } else {
        parent(place)
    };
    if fingerprint.is_none() && !is_package(&folder) {
        return Ok(None);
    }
    verify(&folder, fingerprint, progress).map(Some)
}

/// What a manifest says of a file.
fn said(file: &PackedFile) -> String {
    format!("{} bytes with SHA-256 {}", file.bytes, file.sha256)
}

fn changed(folder: &Path, file: &PackedFile, got: String) -> PackageError {
    PackageError::Changed(fault(folder, quoted(&file.path), said(file), got))
}

/// Reads the manifest or the sums, which are small.
fn small(folder: &Path, name: &str) -> Result<Vec<u8>, PackageError> {
    let path = folder.join(name);
    let about = match path.symlink_metadata() {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound && folder.is_dir() => {
            let fault = fault(folder, name, "a file that every package has", "none");
            return Err(PackageError::Missing(fault));
        }
        Err(error) => return Err(unread(&path)(error)),
    };
    if !about.is_file() {
        return Err(no_file(folder, name, &about));
    }
    let mut bytes = Vec::new();
    let opened = File::open(&path).map_err(unread(&path))?;
    // The file may have grown since.
    let read = opened.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(unread(&path))?;
    if bytes.len() as u64 > MOST_BYTES {
        let (expected, got) = (format!("at most {MOST_BYTES} bytes"), "more");
        return Err(PackageError::Manifest(fault(folder, name, expected, got)));
    }
    Ok(bytes)
}

fn no_file(folder: &Path, name: &str, about: &fs::Metadata) -> PackageError {
    let got = if about.is_symlink() {
        "a symbolic link"
    } else if about.is_dir() {
        "a folder"
    } else {
        "neither a file nor a folder"
    };
    PackageError::NotAFile(fault(folder, quoted(name), "a regular file", got))
}

/// Checks that the sums are those of a manifest with the SHA-256 `own`: byte for byte the text `expected`.
fn check_sums(folder: &Path, expected: &str, own: &str) -> Result<(), PackageError> {
    let bytes = small(folder, SUMS_FILE)?;
    if bytes == expected.as_bytes() {
        return Ok(());
    }
    let got = String::from_utf8_lossy(&bytes);
    let mut lines = (1..).zip(expected.split('\n').zip(got.split('\n')));
    let differs = lines.find(|(_, (expected, got))| expected != got);
    let fault = match differs {
        // The line of the manifest has another sum than the manifest.
        Some((1, (line, got))) if got.ends_with(&line[own.len()..]) => {
            let sum = got.get(..own.len()).unwrap_or_default();
            let expected = format!("SHA-256 {}, as {SUMS_FILE} says", shown(sum));
            fault(folder, MANIFEST_FILE, expected, format!("SHA-256 {own}"))
        }
        Some((number, (line, got))) => {
            let what = format!("{SUMS_FILE}, line {number}");
            fault(folder, what, quoted_line(line), quoted_line(got))
        }
        None => {
            let [expected, got] = [expected.len(), bytes.len()].map(|n| format!("{n} bytes"));
            fault(folder, SUMS_FILE, expected, got)
        }
    };
    Err(PackageError::Changed(fault))
}

/// A line of the sums for an error message.
fn quoted_line(line: &str) -> String {
    match line.split_once("  ") {
        Some((sum, path)) => format!("{} for {}", shown(sum), quoted(path)),
        None => quoted(line),
    }
}

/// A SHA-256 in full, which is longer than a quoted name may be; any other text is quoted.
fn shown(sum: &str) -> String {
    if is_sha256(sum) {
        sum.to_owned()
    } else {
        quoted(sum)
    }
}

/// Checks that the folder has the files of the manifest with their sizes, and nothing else.
fn check_names(folder: &Path, manifest: &Manifest) -> Result<(), PackageError> {
    let mut found = BTreeMap::new();
    walk(folder, "", 0, &mut found)?;
    for name in [MANIFEST_FILE, SUMS_FILE] {
        found.remove(name);
    }
    for file in &manifest.files {
        match found.remove(&file.path) {
            Some(bytes) if bytes == file.bytes => {}
            Some(bytes) => return Err(changed(folder, file, format!("{bytes} bytes"))),
            None => {
                let fault = fault(folder, quoted(&file.path), said(file), "none");
                return Err(PackageError::Missing(fault));
            }
        }
    }
    match found.pop_first() {
        Some((name, bytes)) => {
            let expected = format!("no file that {MANIFEST_FILE} doesn't list");
            let got = format!("{bytes} bytes");
            let fault = fault(folder, quoted(&name), expected, got);
            Err(PackageError::Additional(fault))
        }
        None => Ok(()),
    }
}

/// Collects paths and sizes of all files in the folder `inner` of a package and below.
fn walk(
    folder: &Path,
    inner: &str,
    depth: usize,
    found: &mut BTreeMap<String, u64>,
) -> Result<(), PackageError> {
    let place = folder.join(inner);
    if depth > DEEPEST {
        let expected = format!("folders at most {DEEPEST} deep");
        let fault = fault(folder, quoted(inner), expected, "deeper ones");
        return Err(PackageError::Additional(fault));
    }
    for entry in fs::read_dir(&place).map_err(unread(&place))? {
        let entry = entry.map_err(unread(&place))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            let (name, expected) = (quoted(&name.to_string_lossy()), "a name in UTF-8");
            let fault = fault(&place, name, expected, "another");
            return Err(PackageError::Additional(fault));
        };
        let path = match inner {
            "" => name.to_owned(),
            inner => format!("{inner}/{name}"),
        };
        // The entry itself, not what a link leads to.
        let about = entry.metadata().map_err(unread(&entry.path()))?;
        if about.is_dir() {
            walk(folder, &path, depth + 1, found)?;
        } else if about.is_file() {
            found.insert(path, about.len());
        } else {
            return Err(no_file(folder, &path, &about));
        }
    }
    Ok(())
}
