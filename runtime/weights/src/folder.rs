//! The folder of a checkpoint: files and folders that have another name (`NAME.part`) until they are complete, and what lies beside
//! the weights.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{WeightsError, read_error, write_error};
use crate::source::CONFIG_FILE;

/// Endings of files with weights, ours and others': they are not copied.
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

/// A folder under another name, removed unless it is renamed.
#[derive(Debug)]
pub struct PartFolder {
    part: PathBuf,
    target: PathBuf,
    finished: bool,
}

impl Drop for PartFolder {
    fn drop(&mut self) {
        if !self.finished {
            // One that stays does no harm, and is named by the next run.
            let _ = fs::remove_dir_all(&self.part);
        }
    }
}

impl PartFolder {
    /// Begins the folder `path`, which is new or empty.
    ///
    /// # Errors
    /// [`WeightsError::TargetExists`], [`WeightsError::Busy`], [`WeightsError::Write`].
    pub fn begin(path: &Path) -> Result<Self, WeightsError> {
        let above = parent(path);
        fs::create_dir_all(&above).map_err(write_error(&above))?;
        check_free(path)?;
        // Whatever the path ends in, its name is that of the folder.
        let target = above.join(path.file_name().unwrap_or_default());
        let part = part_of(&target);
        begun(&part, fs::create_dir(&part))?;
        Ok(Self {
            part,
            target,
            finished: false,
        })
    }

    /// Where it is until it is finished.
    pub fn path(&self) -> &Path {
        &self.part
    }

    /// Puts it in its place, and says where that is.
    ///
    /// # Errors
    /// [`WeightsError::Write`].
    pub fn finish(mut self) -> Result<PathBuf, WeightsError> {
        sync_folder(&self.part).map_err(write_error(&self.part))?;
        if self.target.is_dir() {
            // It was empty; if it no longer is, this fails and nothing is lost.
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

/// That nothing is in the way of a folder `path`: it isn't there, or it is empty.
///
/// # Errors
/// [`WeightsError::TargetExists`] where something is, [`WeightsError::Write`] where that can't be told.
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

/// The names of the files of a folder, sorted. Folders in it, and hidden files, stay out.
///
/// # Errors
/// [`WeightsError::Read`].
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

/// Where a model is that a user names by a folder or by any file in it: its folder, or its GGUF file.
///
/// A folder of Hugging Face's cache stands for the snapshot that its `refs/main` names, or else for the newest one; a folder without a
/// `config.json` for the one GGUF model in it. A GGUF file is known by its first bytes, whatever it is called.
///
/// # Errors
/// [`WeightsError::Read`] where there is nothing at `path`.
pub fn model_at(path: &Path) -> Result<PathBuf, WeightsError> {
    let about = path.metadata().map_err(read_error(path))?;
    if about.is_dir() {
        let inside = || snapshot_in(path).or_else(|| gguf_in(path));
        let plain = path.join(CONFIG_FILE).is_file();
        return Ok(if plain { None } else { inside() }.unwrap_or_else(|| path.to_owned()));
    }
    let folder = parent(path);
    let of_folder = about.is_file() && !is_gguf(path) && folder.join(CONFIG_FILE).is_file();
    Ok(if of_folder { folder } else { path.to_owned() })
}

/// Whether a file begins as GGUF files do, or is called like one.
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

/// The snapshot that a folder of Hugging Face's cache is for.
fn snapshot_in(folder: &Path) -> Option<PathBuf> {
    let snapshots = folder.join("snapshots");
    let named = fs::read_to_string(folder.join("refs/main")).ok();
    let named = named.map(|name| snapshots.join(name.trim()));
    named.filter(|folder| folder.is_dir()).or_else(|| {
        let all = fs::read_dir(&snapshots).ok()?.filter_map(Result::ok);
        let folders = all.filter(|entry| entry.path().is_dir());
        let newest = folders.max_by_key(|entry| entry.metadata().and_then(|of| of.modified()).ok());
        newest.map(|entry| entry.path())
    })
}

/// The GGUF file of a folder, where all that it has are of one model.
fn gguf_in(folder: &Path) -> Option<PathBuf> {
    let mut names = small_files(folder).ok()?;
    names.retain(|name| is_gguf(&folder.join(name)));
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

/// Whether a file of this name holds weights, or says where they are.
pub fn is_weights(name: &str) -> bool {
    WEIGHTS.iter().any(|ending| name.ends_with(ending))
}

/// Copies a file into a folder and waits for the disk.
///
/// # Errors
/// [`WeightsError::Write`].
pub fn copy_into(file: &Path, folder: &Path) -> Result<(), WeightsError> {
    let to = folder.join(file.file_name().unwrap_or_default());
    fs::copy(file, &to).map_err(write_error(&to))?;
    let synced = File::open(&to).and_then(|file| file.sync_all());
    synced.map_err(write_error(&to))
}

/// An unfinished file, removed unless it is finished.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    finished: bool,
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.finished {
            // A file that stays does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Part {
    /// Begins the file that will be called `target`.
    pub(crate) fn create(target: &Path) -> Result<Self, WeightsError> {
        let path = part_of(target);
        Ok(Self {
            file: begun(&path, File::create_new(&path))?,
            path,
            finished: false,
        })
    }

    /// Waits for the disk, and puts it in its place.
    pub(crate) fn finish(mut self, target: &Path) -> Result<(), WeightsError> {
        let synced = self.file.sync_all();
        let renamed = synced.and_then(|()| fs::rename(&self.path, target));
        self.finished = renamed.is_ok();
        renamed.map_err(write_error(target))
    }
}

/// The name of `target` while it is written.
pub(crate) fn part_of(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    target.with_file_name(name)
}

/// What was made anew at `path`, unless another run was there first.
pub(crate) fn begun<T>(path: &Path, made: io::Result<T>) -> Result<T, WeightsError> {
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => WeightsError::Busy(path.to_owned()),
        _ => write_error(path)(error),
    })
}

/// Writes a small file under another name, waits for the disk, and renames.
///
/// # Errors
/// [`WeightsError::Write`], [`WeightsError::Busy`].
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WeightsError> {
    let mut part = Part::create(path)?;
    let wrote = part.file.write_all(bytes);
    wrote.map_err(write_error(&part.path))?;
    part.finish(path)
}

/// Waits until the names in `folder` are on disk.
///
/// # Errors
/// What the system says.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // Elsewhere a folder can't be opened, and renames are written through.
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The folder of `path`.
pub(crate) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
