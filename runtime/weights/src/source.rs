//! Where the bytes of a checkpoint are: in a file, in memory, or wherever a program has them; and one safetensors file: its header,
//! checked, and reads at an offset of its data.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use safetensors::Dtype;

use crate::error::{HeaderError, InFile, WeightsError, read_error};
use crate::header::{Header, LENGTH_FIELD, header_length};

/// Name of the file of a checkpoint that is one file.
pub(crate) const MODEL_FILE: &str = "model.safetensors";
/// Name of the index of a checkpoint of several files.
pub(crate) const INDEX_FILE: &str = "model.safetensors.index.json";
/// Name of a model's configuration.
pub const CONFIG_FILE: &str = "config.json";
/// Metadata of a file whose blocks no configuration describes: `[rows, columns]`.
pub(crate) const BLOCK_SIZE: &str = "weight_block_size";

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

/// How the small file begins that Git LFS leaves in place of a large one.
pub const LFS_POINTER: &[u8] = b"version https://git-lfs";

/// Refuses such a file.
pub(crate) fn refuse_pointer(path: &Path, bytes: &dyn ReadAt) -> Result<(), WeightsError> {
    let mut start = [0; LFS_POINTER.len()];
    if bytes.size() < start.len() as u64 {
        return Ok(());
    }
    bytes.read_at(0, &mut start).map_err(read_error(path))?;
    if start == LFS_POINTER {
        return Err(WeightsError::LfsPointer(path.to_owned()));
    }
    Ok(())
}

/// Bytes of several sources, one after the other.
#[derive(Debug)]
pub(crate) struct Joined(pub(crate) Vec<Box<dyn ReadAt>>);

impl ReadAt for Joined {
    fn size(&self) -> u64 {
        self.0.iter().map(|part| part.size()).sum()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let (mut at, mut out) = (at, out);
        for part in &self.0 {
            let size = part.size();
            if at < size && !out.is_empty() {
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

/// What a checkpoint says about one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Element type.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// The number of the file.
    pub(crate) file: usize,
    /// Its bytes in the data of the file.
    pub(crate) at: Range<u64>,
}

impl TensorInfo {
    /// Bytes of the tensor.
    pub fn bytes(&self) -> u64 {
        self.at.end - self.at.start
    }
}

/// Largest header: what the `safetensors` crate accepts. The largest published ones are some MB.
const MAX_HEADER: u32 = 100_000_000;

/// A file whose header holds.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    bytes: Box<dyn ReadAt>,
    /// Offset of the data section.
    data: u64,
}

impl Source {
    /// Opens a file and reads its header.
    pub(crate) fn open(path: &Path) -> Result<(Self, Header), WeightsError> {
        Self::of(path.to_owned(), open_bytes(path)?)
    }

    /// Reads the header of bytes that errors call `path`.
    pub(crate) fn of(
        path: PathBuf,
        bytes: Box<dyn ReadAt>,
    ) -> Result<(Self, Header), WeightsError> {
        refuse_pointer(&path, &*bytes)?;
        let len = bytes.size();
        let refuse = |source| WeightsError::Header(InFile::at(&path)(source));
        let read = read_error(&path);
        if len < LENGTH_FIELD as u64 {
            return Err(refuse(HeaderError::TooShort(len)));
        }
        let mut field = [0; LENGTH_FIELD];
        bytes.read_at(0, &mut field).map_err(read)?;
        let header_len = header_length(field, len, MAX_HEADER).map_err(refuse)?;
        let mut header = vec![0; header_len];
        bytes
            .read_at(LENGTH_FIELD as u64, &mut header)
            .map_err(read)?;
        // header_length has seen that the header is inside the file.
        let data = (LENGTH_FIELD + header_len) as u64;
        let header = Header::parse(&header, len - data).map_err(refuse)?;
        Ok((Self { path, bytes, data }, header))
    }

    /// Where the file is, or what it is called.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.size()
    }

    /// Fills `out` from byte `at` of the data section, which the header has said is there.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) -> Result<(), WeightsError> {
        let read = self.bytes.read_at(self.data + at, out);
        read.map_err(read_error(&self.path))
    }
}
