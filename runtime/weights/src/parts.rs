//! Files that have another name (`NAME.part`) until they are complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{WeightsError, write_error};

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
