//! The files of a checkpoint in a folder: which of them are meant, and the JSON beside them.

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::error::{InFile, Unfit, WeightsError, quoted, read_error};
use crate::foreign::of_names;
use crate::header::UniqueMap;
use crate::json::python_json;
use crate::source::{INDEX_FILE, LFS_POINTER, MODEL_FILE, open_regular};

/// Largest index or configuration in bytes: an index has some 100 bytes per tensor.
const MAX_JSON: u64 = 64 * 1024 * 1024;

/// Contents of `model.safetensors.index.json`, whose sizes aren't trusted.
#[derive(Deserialize)]
pub(crate) struct Index {
    pub(crate) weight_map: UniqueMap<String>,
}

/// Whether `name` is a plain file name that can't leave its folder, on any system.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let one = matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none();
    one && !name.contains(['/', '\\', ':', '\0'])
}

/// The safetensors file or the index that a folder stands for.
pub(crate) fn file_of_folder(folder: &Path) -> Result<PathBuf, WeightsError> {
    for name in [MODEL_FILE, INDEX_FILE] {
        let file = folder.join(name);
        if file.is_file() {
            return Ok(file);
        }
    }
    let read = read_error(folder);
    let (mut found, mut names) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy());
        let name = name.unwrap_or_default();
        let ours = name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
        let ours = ours && !name.starts_with("adapter_model");
        names.push(name.into_owned());
        if ours && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    names.sort();
    // If a folder has indices, only those count, not the shards.
    let index = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let found: Vec<_> = if found.iter().any(|path| index(&path)) {
        found.iter().filter(index).collect()
    } else {
        found.iter().collect()
    };
    match found[..] {
        [] => {
            let none = || WeightsError::NoWeights(folder.to_owned());
            Err(of_names(folder, &names).unwrap_or_else(none))
        }
        [file] => Ok(file.clone()),
        [first, second, ..] => {
            let [first, second] = [first, second].map(|file| quoted(&file.to_string_lossy()));
            let expected = "one .safetensors file or index";
            let fault = Unfit::new(folder.display(), expected, format!("{first} and {second}"));
            Err(WeightsError::ManyFiles(fault))
        }
    }
}

/// The fault of an index that names files which aren't beside it; `None` if all are there.
pub(crate) fn missing<'a>(
    folder: &Path,
    files: impl IntoIterator<Item = &'a String>,
) -> Option<String> {
    const SHOWN: usize = 3;
    let files = files.into_iter();
    let missing: Vec<_> = files
        .filter(|name| is_plain_name(name) && !folder.join(name).exists())
        .map(|name| quoted(name))
        .collect();
    let shown = missing.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    let shown = shown.join(", ");
    match missing.len() {
        0 => None,
        1 => Some(format!("the file {shown} is missing: download it again")),
        count if count > SHOWN => {
            let left = count - SHOWN;
            Some(format!(
                "the files {shown} and {left} more are missing: download them again"
            ))
        }
        _ => Some(format!(
            "the files {shown} are missing: download them again"
        )),
    }
}

/// Reads a JSON file of at most [`MAX_JSON`] bytes, which Python may have written.
pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, WeightsError> {
    let read = read_error(path);
    let (file, len) = open_regular(path)?;
    if len > MAX_JSON {
        let fault = Unfit::new(path.display(), format!("at most {MAX_JSON} bytes"), len);
        return Err(WeightsError::TooLarge(fault));
    }
    let mut bytes = Vec::new();
    // Bytes that are added to the file meanwhile are not read.
    file.take(MAX_JSON).read_to_end(&mut bytes).map_err(read)?;
    if bytes.starts_with(LFS_POINTER) {
        return Err(WeightsError::LfsPointer(path.to_owned()));
    }
    if bytes.trim_ascii_start().starts_with(b"<") {
        return Err(WeightsError::Page(path.to_owned()));
    }
    let json = python_json(&bytes).map_err(InFile::at(path));
    json.map_err(WeightsError::Json)
}
