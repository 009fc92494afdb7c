//! One safetensors file: its header, checked, and reads at an offset of its data.

use std::path::{Path, PathBuf};

use super::bytes::{ReadAt, open_bytes};
use super::error::{WeightsError, read_error};
use super::header::{Header, HeaderError, LENGTH_FIELD, header_length};
use crate::fault::InFile;

/// Largest header: what the `safetensors` crate accepts. The largest published ones are some MB.
const MAX_HEADER: u32 = 100_000_000;

/// A file whose header holds.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    bytes: Box<dyn ReadAt>,
    /// Offset of the data section.
    data: u64,
}

impl Source {
    /// Opens a file and reads its header.
    pub(super) fn open(path: &Path) -> Result<(Self, Header), WeightsError> {
        Self::of(path.to_owned(), open_bytes(path)?)
    }

    /// Reads the header of bytes that errors call `path`.
    pub(super) fn of(
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
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.size()
    }

    /// Fills `out` from byte `at` of the data section, which the header has said is there.
    pub(super) fn read(&self, at: u64, out: &mut [u8]) -> Result<(), WeightsError> {
        let read = self.bytes.read_at(self.data + at, out);
        read.map_err(read_error(&self.path))
    }
}

/// The folder of `path`.
pub(super) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
