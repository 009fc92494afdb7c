//! An open GGUF file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::blocks;
use super::element::{DECODED, GgmlType};
use super::head::{GgufTensor, Head};
use super::value::GgufValue;
use crate::bytes::{CHUNK, ReadAt, open_bytes};
use crate::error::{GgufError, WeightsError, data_length, read_error};
use crate::fault::{InFile, Unfit, quoted, tensor};

/// An open GGUF file, of which nothing but metadata and tensor table has been read.
///
/// A tensor is read with plain reads when it is asked for. The file stays open: one that is replaced meanwhile is still read as it was.
#[derive(Debug)]
pub struct GgufFile {
    path: PathBuf,
    bytes: Box<dyn ReadAt>,
    head: Head,
    read: AtomicU64,
}

impl GgufFile {
    /// Opens a file.
    ///
    /// # Errors
    /// [`WeightsError::Gguf`] for whatever is malformed, [`WeightsError::Read`], [`WeightsError::NotAFile`].
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        Self::of(path.to_owned(), open_bytes(path)?)
    }

    /// A file that is already in memory; `name` stands for it in errors.
    ///
    /// # Errors
    /// [`WeightsError::Gguf`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, WeightsError> {
        Self::from_source(name, Box::new(bytes))
    }

    /// A file that is wherever `bytes` reads it; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`GgufFile::open`].
    pub fn from_source(name: &str, bytes: Box<dyn ReadAt>) -> Result<Self, WeightsError> {
        Self::of(PathBuf::from(name), bytes)
    }

    fn of(path: PathBuf, bytes: Box<dyn ReadAt>) -> Result<Self, WeightsError> {
        let head = Head::read(&*bytes).map_err(|error| match error {
            GgufError::Read(error) => read_error(&path)(error),
            other => WeightsError::Gguf(InFile::at(&path)(other)),
        })?;
        Ok(Self {
            path,
            bytes,
            head,
            read: AtomicU64::new(0),
        })
    }

    /// Where it is, or what it is called.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.bytes.size()
    }

    /// Version of the layout: 2 or 3.
    pub fn version(&self) -> u32 {
        self.head.version
    }

    /// The metadata by key.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &GgufValue)> {
        let all = self.head.metadata.iter();
        all.map(|(key, value)| (key.as_str(), value))
    }

    /// A value of the metadata.
    pub fn value(&self, key: &str) -> Option<&GgufValue> {
        self.head.metadata.get(key)
    }

    /// The tensors by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &GgufTensor)> {
        let all = self.head.tensors.iter();
        all.map(|(name, info)| (name.as_str(), info))
    }

    /// What the file says about a tensor.
    pub fn get(&self, name: &str) -> Option<&GgufTensor> {
        self.head.tensors.get(name)
    }

    /// Bytes of tensors read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The values of a tensor, row-major.
    ///
    /// # Errors
    /// [`WeightsError::UnknownTensor`], [`WeightsError::WrongTensor`] for a type that isn't decoded, [`WeightsError::Read`],
    /// [`WeightsError::OutOfMemory`].
    pub fn read_f32(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let values = self.info(name)?.values();
        self.read_f32_part(name, 0, values)
    }

    /// `count` of [`Self::read_f32`]'s values from value `from` on, both whole blocks: a matrix of a stack, or some rows.
    ///
    /// # Errors
    /// As [`Self::read_f32`], and [`WeightsError::WrongTensor`] for parts of blocks, [`WeightsError::DataLength`] where the tensor ends
    /// before.
    pub fn read_f32_part(
        &self,
        name: &str,
        from: u64,
        count: u64,
    ) -> Result<Vec<f32>, WeightsError> {
        let (kind, at) = self.part(name, from, count)?;
        let mut values: Vec<f32> = Vec::new();
        let room = values.try_reserve_exact(usize::try_from(count).unwrap_or(usize::MAX));
        room.map_err(|refused| {
            let expected = format!("memory for {} bytes", count.saturating_mul(4));
            WeightsError::OutOfMemory(Unfit::new(self.place_of(name), expected, refused))
        })?;
        values.resize(count as usize, 0.0);
        let blocks = CHUNK / kind.bytes;
        let most = blocks * kind.values;
        let mut bytes = vec![0; (blocks * kind.bytes).min((at.end - at.start) as usize)];
        let mut begin = at.start;
        for values in values.chunks_mut(most) {
            let bytes = &mut bytes[..values.len() / kind.values * kind.bytes];
            let read = self.bytes.read_at(begin, bytes);
            read.map_err(read_error(&self.path))?;
            begin += bytes.len() as u64;
            self.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            blocks::decode(kind, bytes, values);
        }
        Ok(values)
    }

    /// The bytes of the file that hold some values.
    fn part(
        &self,
        name: &str,
        from: u64,
        count: u64,
    ) -> Result<(GgmlType, std::ops::Range<u64>), WeightsError> {
        let GgufTensor { kind, at, .. } = self.info(name)?.clone();
        let wrong = |expected: String, got: String| {
            WeightsError::WrongTensor(Unfit::new(self.place_of(name), expected, got))
        };
        if !kind.is_decoded() {
            return Err(wrong(expected_types(), kind.to_string()));
        }
        let (Some(begin), Some(size)) = (kind.size(from), kind.size(count)) else {
            let expected = format!("whole blocks of {} values", kind.values);
            return Err(wrong(expected, format!("{count} from {from} on")));
        };
        let end = begin.saturating_add(size);
        if end > at.end - at.start {
            return Err(data_length(name, at.end - at.start, end));
        }
        Ok((kind, at.start + begin..at.start + end))
    }

    fn info(&self, name: &str) -> Result<&GgufTensor, WeightsError> {
        let info = self.head.tensors.get(name);
        info.ok_or_else(|| WeightsError::UnknownTensor(quoted(name)))
    }

    fn place_of(&self, name: &str) -> String {
        format!("{}: {}", self.path.display(), tensor(name))
    }
}

/// The types that are decoded, for an error.
pub fn expected_types() -> String {
    let names: Vec<_> = DECODED.iter().map(|kind| kind.name()).collect();
    let (last, first) = names.split_last().unwrap_or((&"", &[]));
    format!("{} or {last}", first.join(", "))
}
