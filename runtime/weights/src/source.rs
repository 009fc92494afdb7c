//! One safetensors file: its header, checked, and reads at an offset of its data.

use std::path::{Path, PathBuf};

use crate::bytes::{ReadAt, open_bytes};
use crate::error::{HeaderError, WeightsError, read_error};
use crate::fault::InFile;
use crate::header::{Header, LENGTH_FIELD, header_length};

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
