//! Sources of a checkpoint's bytes (a file, memory, or any other), and one safetensors file: its checked header, and reads from its data.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use safetensors::Dtype;

use crate::error::{HeaderError, InFile, WeightsError, read_error};
use crate::foreign::of_start;
use crate::header::{Header, LENGTH_FIELD, header_length};
use crate::threads::{on_threads, threads};

/// File name of a checkpoint in one file.
pub(crate) const MODEL_FILE: &str = "model.safetensors";
/// File name of the index of a checkpoint in several files.
pub(crate) const INDEX_FILE: &str = "model.safetensors.index.json";
/// File name of a model's configuration.
pub const CONFIG_FILE: &str = "config.json";
/// Metadata key of the block size `[rows, columns]`, for files without a configuration.
pub(crate) const BLOCK_SIZE: &str = "weight_block_size";

/// Bytes read at a time when values are widened, a multiple of every element size.
pub(crate) const CHUNK: usize = 1024 * 1024;

/// A source of bytes that are read in pieces, so that a checkpoint need not be in memory: for example a file that a browser has.
///
/// A reader reads the header first, and then tensors, each on request. Several threads may read at once, where there are such: also parts of one
/// tensor.
pub trait ReadAt: fmt::Debug + Send + Sync {
    /// Number of bytes, which must not change.
    fn size(&self) -> u64;

    /// Fills `out` with the bytes from byte `at` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the source ends before `out` is full, or another error of reading.
    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()>;

    /// Hears that these bytes will be read soon, and returns without waiting for them; a source that can't read ahead does nothing.
    fn expect(&self, _bytes: Range<u64>) {}
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

/// Bytes that the system is asked to read ahead at a time: of each request Linux reads no more than its window, which is 128 KiB by default.
#[cfg(target_os = "linux")]
const WINDOW: u64 = 128 * 1024;

/// An open file, and its length and the time of its last change when it was opened.
#[derive(Debug)]
struct Opened {
    file: File,
    size: u64,
    /// `None` where the system doesn't tell.
    changed: Option<SystemTime>,
}

impl Opened {
    /// Checks that no program has written to the file since it was opened, because a model would then have bytes of two versions.
    fn check_unchanged(&self) -> io::Result<()> {
        let now = self.file.metadata()?;
        if (now.len(), now.modified().ok()) == (self.size, self.changed) {
            Ok(())
        } else {
            let said = "the file has changed since it was opened: open the model again";
            Err(io::Error::other(said))
        }
    }
}

impl ReadAt for Opened {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        read_file(&self.file, at, out)?;
        self.check_unchanged()
    }

    #[cfg(target_os = "linux")]
    fn expect(&self, bytes: Range<u64>) {
        use rustix::fs::{Advice, fadvise};
        use std::num::NonZeroU64;

        for at in bytes.clone().step_by(WINDOW as usize) {
            let length = NonZeroU64::new(WINDOW.min(bytes.end - at));
            // Where a file system can't read ahead, the read itself brings the bytes.
            if fadvise(&self.file, at, length, Advice::WillNeed).is_err() {
                return;
            }
        }
    }
}

/// Fills `out` with the bytes of a file from byte `at` on. The file's cursor stays where it is, so that threads needn't take turns.
#[cfg(unix)]
fn read_file(file: &File, at: u64, out: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, at)
}

/// Fills `out` with the bytes of a file from byte `at` on, wherever its cursor is.
#[cfg(windows)]
fn read_file(file: &File, at: u64, out: &mut [u8]) -> io::Result<()> {
    let (mut at, mut out) = (at, out);
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                at += read as u64;
                out = &mut out[read..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The error of a system without files, such as a browser's.
#[cfg(not(any(unix, windows)))]
fn read_file(_file: &File, _at: u64, _out: &mut [u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Opens a regular file as a source of bytes.
pub(crate) fn open_bytes(path: &Path) -> Result<Box<dyn ReadAt>, WeightsError> {
    let (file, size) = open_regular(path)?;
    let changed = file.metadata().map_err(read_error(path))?.modified().ok();
    Ok(Box::new(Opened {
        file,
        size,
        changed,
    }))
}

/// Beginning of the small file that Git LFS leaves in place of a large one.
pub const LFS_POINTER: &[u8] = b"version https://git-lfs";

/// Checks whether `bytes` are such a file.
pub(crate) fn is_pointer(bytes: &dyn ReadAt) -> bool {
    let mut start = [0; LFS_POINTER.len()];
    let fits = bytes.size() >= start.len() as u64;
    fits && bytes.read_at(0, &mut start).is_ok() && start == LFS_POINTER
}

/// The concatenation of several sources of bytes.
#[derive(Debug)]
pub(crate) struct Joined(pub(crate) Vec<Box<dyn ReadAt>>);

impl ReadAt for Joined {
    fn size(&self) -> u64 {
        self.0.iter().map(|part| part.size()).sum()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let (mut at, mut out) = (at, out);
        for part in &self.0 {
            if out.is_empty() {
                break;
            }
            let size = part.size();
            if at < size {
                let here = out
                    .len()
                    .min(usize::try_from(size - at).unwrap_or(usize::MAX));
                let (now, later) = out.split_at_mut(here);
                part.read_at(at, now)?;
                (at, out) = (size, later);
            }
            at -= size;
        }
        if out.is_empty() {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn expect(&self, bytes: Range<u64>) {
        let mut begin = 0;
        for part in &self.0 {
            let end = begin + part.size();
            let (from, to) = (bytes.start.max(begin), bytes.end.min(end));
            if from < to {
                part.expect(from - begin..to - begin);
            }
            begin = end;
        }
    }
}

/// Opens a regular file, and returns the file and its length.
pub(crate) fn open_regular(path: &Path) -> Result<(File, u64), WeightsError> {
    let read = read_error(path);
    // The type is checked before opening, because opening a pipe would wait for its writer.
    if !path.metadata().map_err(read)?.is_file() {
        return Err(WeightsError::NotAFile(path.to_owned()));
    }
    let file = File::open(path).map_err(read)?;
    let len = file.metadata().map_err(read)?.len();
    Ok((file, len))
}

/// Header information of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Element type.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Index of the file that holds the tensor.
    pub(crate) file: usize,
    /// Range of the tensor's bytes in the data of the file.
    pub(crate) at: Range<u64>,
}

impl TensorInfo {
    /// Bytes of the tensor.
    pub fn bytes(&self) -> u64 {
        self.at.end - self.at.start
    }
}

/// Largest header in bytes that the `safetensors` crate accepts. The largest published ones have some MB.
const MAX_HEADER: u32 = 100_000_000;

/// A safetensors file with a valid header.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    bytes: Box<dyn ReadAt>,
    /// Offset of the data section in the file.
    data: u64,
}

impl Source {
    /// Opens a file and reads its header.
    pub(crate) fn open(path: &Path) -> Result<(Self, Header), WeightsError> {
        Self::of(path.to_owned(), open_bytes(path)?)
    }

    /// Reads the header from a source of bytes, which errors call `path`.
    pub(crate) fn of(
        path: PathBuf,
        bytes: Box<dyn ReadAt>,
    ) -> Result<(Self, Header), WeightsError> {
        let len = bytes.size();
        let refuse = |source| WeightsError::Header(InFile::at(&path)(source));
        let read = read_error(&path);
        if len < LENGTH_FIELD as u64 {
            return Err(refuse(HeaderError::TooShort(len)));
        }
        let mut field = [0; LENGTH_FIELD];
        bytes.read_at(0, &mut field).map_err(read)?;
        if LFS_POINTER.starts_with(&field) && is_pointer(&*bytes) {
            return Err(WeightsError::LfsPointer(path));
        }
        if let Some(error) = of_start(&path, field) {
            return Err(error);
        }
        let header_len = header_length(field, len, MAX_HEADER).map_err(refuse)?;
        let mut header = vec![0; header_len];
        bytes
            .read_at(LENGTH_FIELD as u64, &mut header)
            .map_err(read)?;
        // `header_length` has checked that the header lies inside the file.
        let data = (LENGTH_FIELD + header_len) as u64;
        let header = Header::parse(&header, len - data).map_err(refuse)?;
        Ok((Self { path, bytes, data }, header))
    }

    /// Path or name of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.size()
    }

    /// Fills `out` with bytes from byte `at` of the data section on, which must exist by the header. Threads share what is long.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) -> Result<(), WeightsError> {
        let begin = self.data + at;
        let read = if out.len() < 2 * CHUNK || threads() == 1 {
            self.bytes.read_at(begin, out)
        } else {
            let pieces = (begin..).step_by(CHUNK).zip(out.chunks_mut(CHUNK));
            on_threads(pieces.collect(), |(at, out)| self.bytes.read_at(at, out))
        };
        read.map_err(read_error(&self.path))
    }

    /// As [`ReadAt::expect`], for bytes of the data section.
    pub(crate) fn expect(&self, bytes: Range<u64>) {
        self.bytes
            .expect(self.data + bytes.start..self.data + bytes.end);
    }
}
