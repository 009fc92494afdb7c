//! Folders of checkpoints: files and folders that have a temporary name (`NAME.part`) until they are complete, and the small files next to
//! the weights.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{WeightsError, read_error, write_error};
use crate::source::CONFIG_FILE;

/// Endings of weight files, of this and other formats, which are not copied.
const WEIGHTS: &[&str] = &[
    ".safetensors",
    ".index.json",
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".gguf",
    ".onnx",
    ".msgpack",
    ".h5",
    ".part",
];

/// A folder under a temporary name, which is removed unless it is finished.
#[derive(Debug)]
pub struct PartFolder {
    part: PathBuf,
    target: PathBuf,
    finished: bool,
}

impl Drop for PartFolder {
    fn drop(&mut self) {
        if !self.finished {
            // A leftover folder does no harm, and the next run reports it.
            let _ = fs::remove_dir_all(&self.part);
        }
    }
}

impl PartFolder {
    /// Creates a temporary folder for the target `path`, which must be new or empty.
    ///
    /// # Errors
    /// [`WeightsError::TargetExists`] when the target isn't empty, [`WeightsError::Busy`] when the temporary folder exists already,
    /// [`WeightsError::Write`] when it can't be created.
    pub fn begin(path: &Path) -> Result<Self, WeightsError> {
        let above = parent(path);
        fs::create_dir_all(&above).map_err(write_error(&above))?;
        check_free(path)?;
        // Taking only the file name drops a trailing slash or dot of the path.
        let target = above.join(path.file_name().unwrap_or_default());
        let part = part_of(&target);
        begun(&part, fs::create_dir(&part))?;
        Ok(Self {
            part,
            target,
            finished: false,
        })
    }

    /// Temporary path of the folder until it is finished.
    pub fn path(&self) -> &Path {
        &self.part
    }

    /// Moves the folder to its target, and returns the target's path.
    ///
    /// # Errors
    /// [`WeightsError::Write`] when the folder can't be moved.
    pub fn finish(mut self) -> Result<PathBuf, WeightsError> {
        sync_folder(&self.part).map_err(write_error(&self.part))?;
        if self.target.is_dir() {
            // The target was empty; if it no longer is, removing it fails and nothing is lost.
            fs::remove_dir(&self.target).map_err(write_error(&self.target))?;
        }
        let renamed = fs::rename(&self.part, &self.target);
        renamed.map_err(write_error(&self.target))?;
        self.finished = true;
        let above = parent(&self.target);
        sync_folder(&above).map_err(write_error(&above))?;
        Ok(self.target.clone())
    }
}

/// Checks that `path` is free for a new folder: it doesn't exist, or is an empty folder.
///
/// # Errors
/// [`WeightsError::TargetExists`] when something is there, [`WeightsError::Write`] when that can't be determined.
pub fn check_free(path: &Path) -> Result<(), WeightsError> {
    let in_use = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(source) if path.is_dir() => return Err(write_error(path)(source)),
        Err(_) => true,
    };
    if in_use {
        Err(WeightsError::TargetExists(path.to_owned()))
    } else {
        Ok(())
    }
}

/// The sorted names of the files in a folder, without subfolders and hidden files.
///
/// # Errors
/// [`WeightsError::Read`] when the folder can't be read.
pub fn small_files(folder: &Path) -> Result<Vec<OsString>, WeightsError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(read_error(folder))? {
        let path = entry.map_err(read_error(folder))?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            names.push(name.to_owned());
        }
    }
    names.retain(|name| !name.to_string_lossy().starts_with('.'));
    names.sort();
    Ok(names)
}

/// Finds the model that a user names by a folder or by any file in it: returns its folder, or its GGUF file.
///
/// A folder of Hugging Face's cache stands for the snapshot that its `refs/main` names, or else for the newest one; a folder without a
/// `config.json` and safetensors stands for the one GGUF model in it. A GGUF file is recognised by its first bytes, whatever its name.
///
/// # Errors
/// [`WeightsError::Read`] when there is nothing at `path`.
pub fn model_at(path: &Path) -> Result<PathBuf, WeightsError> {
    let about = path.metadata().map_err(read_error(path))?;
    if about.is_dir() {
        let inside = || snapshot_in(path).or_else(|| gguf_in(path));
        let plain = path.join(CONFIG_FILE).is_file() && has_safetensors(path);
        return Ok(if plain { None } else { inside() }.unwrap_or_else(|| path.to_owned()));
    }
    let folder = parent(path);
    let of_folder = about.is_file() && !is_gguf(path) && folder.join(CONFIG_FILE).is_file();
    Ok(if of_folder { folder } else { path.to_owned() })
}

/// Whether a folder has safetensors, or an index of some.
fn has_safetensors(folder: &Path) -> bool {
    let is_one = |name: &OsString| {
        let name = name.to_string_lossy();
        name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")
    };
    small_files(folder).is_ok_and(|names| names.iter().any(is_one))
}

/// Whether a file begins with the magic bytes of GGUF, or has the ending of GGUF files.
pub fn is_gguf(path: &Path) -> bool {
    let ending = path.extension();
    let named = ending.is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
    let begins = || {
        let mut magic = [0; 4];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
        read.is_ok() && &magic == b"GGUF"
    };
    path.is_file() && (named || begins())
}

/// The current snapshot in a folder of Hugging Face's cache.
fn snapshot_in(folder: &Path) -> Option<PathBuf> {
    let snapshots = folder.join("snapshots");
    let named = fs::read_to_string(folder.join("refs/main")).ok();
    // A program that is just writing the reference may have left it empty.
    let named = named.filter(|name| !name.trim().is_empty());
    let named = named.map(|name| snapshots.join(name.trim()));
    named.filter(|folder| folder.is_dir()).or_else(|| {
        let all = fs::read_dir(&snapshots).ok()?.filter_map(Result::ok);
        let folders = all.filter(|entry| entry.path().is_dir());
        let newest = folders.max_by_key(|entry| entry.metadata().and_then(|of| of.modified()).ok());
        newest.map(|entry| entry.path())
    })
}

/// The GGUF file of a folder, if all its GGUF files belong to one model.
fn gguf_in(folder: &Path) -> Option<PathBuf> {
    let mut names = small_files(folder).ok()?;
    // The part that sees of a model for images and text has a file of its own, by llama.cpp's convention with this name.
    let sees = |name: &OsString| name.to_string_lossy().starts_with("mmproj");
    names.retain(|name| !sees(name) && is_gguf(&folder.join(name)));
    let (first, others) = names.split_first()?;
    let stem = first
        .to_str()?
        .split_once("-00001-of-")
        .map(|(stem, _)| stem);
    let of_first = |name: &OsString| {
        let rest = stem.and_then(|stem| name.to_str()?.strip_prefix(stem));
        rest.is_some_and(|rest| rest.contains("-of-"))
    };
    others.iter().all(of_first).then(|| folder.join(first))
}

/// Whether a file of this name holds weights, or is an index of weights.
pub fn is_weights(name: &str) -> bool {
    WEIGHTS.iter().any(|ending| name.ends_with(ending))
}

/// Copies a file into a folder and waits for the disk.
///
/// # Errors
/// [`WeightsError::Write`] when the copy can't be written.
pub fn copy_into(file: &Path, folder: &Path) -> Result<(), WeightsError> {
    let to = folder.join(file.file_name().unwrap_or_default());
    fs::copy(file, &to).map_err(write_error(&to))?;
    let synced = File::open(&to).and_then(|file| file.sync_all());
    synced.map_err(write_error(&to))
}

/// An unfinished file under a temporary name, which is removed unless it is finished.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    finished: bool,
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.finished {
            // A leftover file does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Part {
    /// Creates the temporary file for `target`.
    pub(crate) fn create(target: &Path) -> Result<Self, WeightsError> {
        let path = part_of(target);
        Ok(Self {
            file: begun(&path, File::create_new(&path))?,
            path,
            finished: false,
        })
    }

    /// Waits for the disk, and renames the file to `target`.
    pub(crate) fn finish(mut self, target: &Path) -> Result<(), WeightsError> {
        let synced = self.file.sync_all();
        let renamed = synced.and_then(|()| fs::rename(&self.path, target));
        self.finished = renamed.is_ok();
        renamed.map_err(write_error(target))
    }
}

/// The temporary name of `target` while it is written.
pub(crate) fn part_of(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    target.with_file_name(name)
}

/// Returns what was created at `path`; [`WeightsError::Busy`] when something was there already.
pub(crate) fn begun<T>(path: &Path, made: io::Result<T>) -> Result<T, WeightsError> {
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => WeightsError::Busy(path.to_owned()),
        _ => write_error(path)(error),
    })
}

/// Writes a small file under a temporary name, waits for the disk, and renames the file.
///
/// # Errors
/// [`WeightsError::Write`] when the file can't be written, [`WeightsError::Busy`] when the temporary file exists already.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WeightsError> {
    let mut part = Part::create(path)?;
    let wrote = part.file.write_all(bytes);
    wrote.map_err(write_error(&part.path))?;
    part.finish(path)
}

/// Waits until the names in `folder` are on disk.
///
/// # Errors
/// The I/O error of the system.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // On other systems a folder can't be opened, and renames are written through.
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The folder that holds `path`.
pub(crate) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
