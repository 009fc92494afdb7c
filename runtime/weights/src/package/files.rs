//! The files of a model that go into a package.

use std::path::{Path, PathBuf};

use super::error::PackageError;
use super::names::{MANIFEST_FILE, SUMS_FILE};
use crate::folder::{is_weights, parent, small_files};
use crate::gguf::GgufFile;
use crate::reader::Reader;
use crate::source::INDEX_FILE;

/// Beginnings of the names of licences and notices, in capitals.
const LICENCES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "USE_POLICY",
];
/// Folder of further chat templates, and the ending of their names.
const TEMPLATES: &str = "additional_chat_templates";
const TEMPLATE: &str = ".jinja";
/// Ending of an index of weights in several files.
const INDEX: &str = ".safetensors.index.json";

/// A file to pack, and its path in the package.
type Packed = (PathBuf, String);

/// Whether a file of this name is a licence or a notice.
pub fn is_licence(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    LICENCES.iter().any(|beginning| name.starts_with(beginning))
}

/// The files of a model in safetensors in `folder`, each with its path in a package: the weights that `reader` reads, their index, and what
/// lies beside them but weights of other formats and hidden files.
///
/// # Errors
/// [`PackageError::Written`] when the folder can't be read.
pub fn of_safetensors(folder: &Path, reader: &Reader) -> Result<Vec<Packed>, PackageError> {
    let mut found: Vec<Packed> = reader.files().filter_map(named).collect();
    let names = small_files(folder)?;
    let mut names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
    names.retain(|name| ![MANIFEST_FILE, SUMS_FILE].contains(name));
    // One file needs no index, and an index of other files would be one of files that aren't there.
    if found.len() > 1 {
        let standard = names.contains(&INDEX_FILE);
        let index = |name: &&&str| {
            if standard {
                **name == INDEX_FILE
            } else {
                name.ends_with(INDEX)
            }
        };
        let indices = names.iter().filter(index);
        found.extend(indices.map(|name| in_folder(folder, name)));
    }
    let beside = names.iter().filter(|name| !is_weights(name));
    found.extend(beside.map(|name| in_folder(folder, name)));
    let templates = folder.join(TEMPLATES);
    if templates.is_dir() {
        let names = small_files(&templates)?;
        let names = names.iter().filter_map(|name| name.to_str());
        let names = names.filter(|name| name.ends_with(TEMPLATE));
        found.extend(names.map(|name| in_folder(folder, &format!("{TEMPLATES}/{name}"))));
    }
    Ok(found)
}

/// The files of a model in GGUF, each with its path in a package: the parts of the model, and the licences beside them.
///
/// # Errors
/// [`PackageError::Written`] when the folder can't be read.
pub fn of_gguf(file: &GgufFile) -> Result<Vec<Packed>, PackageError> {
    let parts = file.paths().iter();
    let mut found: Vec<Packed> = parts.filter_map(|path| named(path)).collect();
    let folder = parent(file.path());
    let names = small_files(&folder)?;
    let licences = names.iter().filter_map(|name| name.to_str());
    let licences = licences.filter(|name| is_licence(name) && !is_weights(name));
    found.extend(licences.map(|name| in_folder(&folder, name)));
    Ok(found)
}

/// A file of a model's folder under the same path in the package.
fn in_folder(folder: &Path, name: &str) -> Packed {
    (folder.join(name), name.to_owned())
}

/// A file with its name; `None` for a path without a name in UTF-8, which no loader has opened.
fn named(path: &Path) -> Option<Packed> {
    let name = path.file_name()?.to_str()?;
    Some((path.to_owned(), name.to_owned()))
}
