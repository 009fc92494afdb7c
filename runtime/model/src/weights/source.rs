//! One safetensors file: its header, checked, and plain reads at an offset of its data.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::error::{WeightsError, read_error};
use super::header::{Header, HeaderError, LENGTH_FIELD, header_length};
use crate::fault::InFile;

/// Largest header: what the `safetensors` crate accepts. The largest published ones are some MB.
const MAX_HEADER: u32 = 100_000_000;

/// A file whose header holds.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    bytes: Bytes,
    len: u64,
    /// Offset of the data section.
    data: u64,
}

/// The bytes of a file, or of one in memory.
#[derive(Debug)]
pub(super) enum Bytes {
    /// The lock holds the cursor: reads of several threads take turns.
    File(Mutex<File>),
    Memory(Vec<u8>),
}

impl Bytes {
    pub(super) fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(at))?;
                file.read_exact(out)
            }
            Self::Memory(bytes) => {
                let begin = usize::try_from(at).ok();
                let from = begin.and_then(|begin| bytes.get(begin..begin.checked_add(out.len())?));
                out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

impl Source {
    /// Opens a file and reads its header.
    pub(super) fn open(path: &Path) -> Result<(Self, Header), WeightsError> {
        let (file, len) = open_regular(path)?;
        Self::check(path.to_owned(), Bytes::File(Mutex::new(file)), len)
    }

    pub(super) fn memory(name: &str, bytes: Vec<u8>) -> Result<(Self, Header), WeightsError> {
        let len = bytes.len() as u64;
        Self::check(PathBuf::from(name), Bytes::Memory(bytes), len)
    }

    fn check(path: PathBuf, bytes: Bytes, len: u64) -> Result<(Self, Header), WeightsError> {
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
        let source = Self {
            path,
            bytes,
            len,
            data,
        };
        Ok((source, header))
    }

    /// Where the file is, or what it is called.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `out` from byte `at` of the data section, which the header has said is there.
    pub(super) fn read(&self, at: u64, out: &mut [u8]) -> Result<(), WeightsError> {
        let read = self.bytes.read_at(self.data + at, out);
        read.map_err(read_error(&self.path))
    }
}

/// A regular file, open, and its length.
pub(super) fn open_regular(path: &Path) -> Result<(File, u64), WeightsError> {
    let read = read_error(path);
    // Looked at before it is opened: to open a pipe is to wait for its writer.
    if !path.metadata().map_err(read)?.is_file() {
        return Err(WeightsError::NotAFile(path.to_owned()));
    }
    let file = File::open(path).map_err(read)?;
    let len = file.metadata().map_err(read)?.len();
    Ok((file, len))
}

/// The folder of `path`.
pub(super) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
