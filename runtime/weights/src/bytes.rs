//! Where the bytes of a checkpoint are: in a file, in memory, or wherever a program has them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::error::{WeightsError, read_error};

/// Bytes read at a time where values are widened while they are read; a multiple of every element.
pub(crate) const CHUNK: usize = 1024 * 1024;

/// Bytes that are read a piece at a time, so that a checkpoint need not be in memory: of a file that a browser has, for example.
///
/// A reader asks for the header first, and then for one tensor after the other, each when it is asked for.
pub trait ReadAt: fmt::Debug + Send + Sync {
    /// How many bytes there are, which doesn't change.
    fn size(&self) -> u64;

    /// Fills `out` with the bytes from byte `at` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] where there are fewer, and what else keeps them from being read.
    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let begin = usize::try_from(at).ok();
        let from = begin.and_then(|begin| self.get(begin..begin.checked_add(out.len())?));
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A file, and how long it was when it was opened.
#[derive(Debug)]
struct Opened {
    /// The lock holds the cursor: reads of several threads take turns.
    file: Mutex<File>,
    size: u64,
}

impl ReadAt for Opened {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(out)
    }
}

/// The bytes of a regular file, open.
pub(crate) fn open_bytes(path: &Path) -> Result<Box<dyn ReadAt>, WeightsError> {
    let (file, size) = open_regular(path)?;
    let file = Mutex::new(file);
    Ok(Box::new(Opened { file, size }))
}

/// A regular file, open, and its length.
pub(crate) fn open_regular(path: &Path) -> Result<(File, u64), WeightsError> {
    let read = read_error(path);
    // Looked at before it is opened: to open a pipe is to wait for its writer.
    if !path.metadata().map_err(read)?.is_file() {
        return Err(WeightsError::NotAFile(path.to_owned()));
    }
    let file = File::open(path).map_err(read)?;
    let len = file.metadata().map_err(read)?.len();
    Ok((file, len))
}
