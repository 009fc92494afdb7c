//! An open GGUF file.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::cast_slice_mut;

use super::element::{DECODED, GgmlType, decode};
use super::head::{GgufTensor, Head};
use super::value::GgufValue;
use crate::error::{
    GgufError, InFile, Unfit, WeightsError, data_length, quoted, read_error, tensor,
};
use crate::source::{CHUNK, Joined, ReadAt, is_pointer, open_bytes};
use crate::widen::to_memory;

/// Bytes whose values a cache of the processor holds, decoded from blocks and copied to where they stay.
const SOME: usize = CHUNK / 16;

/// Metadata keys of a model in several files: the number of files, a file's index from 0, and the number of tensors in all files.
const SPLIT_COUNT: &str = "split.count";
const SPLIT_NUMBER: &str = "split.no";
const SPLIT_TENSORS: &str = "split.tensors.count";

/// Name of file `number` of `count`.
fn part_name(stem: &str, number: u64, count: u64) -> String {
    format!("{stem}-{number:05}-of-{count:05}.gguf")
}

/// The part of the name of one of `count` files that comes before the numbers.
fn stem_of_part(name: &str, count: u64) -> Option<String> {
    let rest = name.strip_suffix(&format!("-of-{count:05}.gguf"))?;
    let (stem, number) = rest.rsplit_once('-')?;
    number.parse::<u64>().ok().map(|_| stem.to_owned())
}

/// An open GGUF file, of which only the metadata and the tensor table have been read.
///
/// A tensor is read from the file on each request. The file stays open: if it is replaced meanwhile, the old version is still read.
#[derive(Debug)]
pub struct GgufFile {
    path: PathBuf,
    /// Paths of all files of the model, in their order.
    paths: Vec<PathBuf>,
    bytes: Box<dyn ReadAt>,
    head: Head,
    read: AtomicU64,
}

impl GgufFile {
    /// Opens a GGUF file. For a model in several files (`NAME-00001-of-0000N.gguf`) `path` may name any of them, and all are opened.
    ///
    /// # Errors
    /// [`WeightsError::Gguf`] for a malformed file, [`WeightsError::Read`] when a file can't be read, [`WeightsError::NotAFile`] for a pipe
    /// or a device.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let file = Self::of(path.to_owned(), open_bytes(path)?)?;
        match file.value(SPLIT_COUNT).map(GgufValue::as_size) {
            None | Some(Some(0 | 1)) => Ok(file),
            Some(_) => file.with_others(),
        }
    }

    /// The number of files of the model that this file is a part of, and what their names begin with.
    fn split(&self) -> Result<(u64, String), WeightsError> {
        let value = self.value(SPLIT_COUNT);
        let count = value.and_then(GgufValue::as_size);
        let name = self.path.file_name().and_then(|name| name.to_str());
        let stem = name.and_then(|name| Some((count?, stem_of_part(name, count?)?)));
        stem.ok_or_else(|| {
            let expected = "the number of the files NAME-00001-of-0000N.gguf of a model";
            let value = value.map_or_else(String::new, GgufValue::shown);
            let got = format!("{value} in {}", quoted(name.unwrap_or_default()));
            misplaced(&self.path, SPLIT_COUNT, expected, got)
        })
    }

    /// Opens all files of the model that this file is a part of. The metadata is taken from the first part.
    fn with_others(self) -> Result<Self, WeightsError> {
        let (count, stem) = self.split()?;
        let told = self.value(SPLIT_TENSORS).and_then(GgufValue::as_size);
        let (mut head, mut parts, mut base) = (Head::default(), Vec::new(), 0);
        let mut paths = Vec::new();
        let (first, own) = (
            self.path.with_file_name(part_name(&stem, 1, count)),
            self.path.clone(),
        );
        let mut named = Some(self);
        for number in 1..=count {
            let name = part_name(&stem, number, count);
            let path = own.with_file_name(&name);
            if !path.exists() {
                let expected = format!("{count} files, among them {}", quoted(&name));
                return Err(misplaced(&own, SPLIT_COUNT, expected, "no such file"));
            }
            // The file that the caller named has been read already.
            let part = match named.take_if(|named| named.path == path) {
                Some(part) => part,
                None => Self::of(path.clone(), open_bytes(&path)?)?,
            };
            let index = part.value(SPLIT_NUMBER).and_then(GgufValue::as_size);
            if index != Some(number - 1) {
                let got = index.map_or("none".to_owned(), |index| index.to_string());
                return Err(misplaced(&path, SPLIT_NUMBER, number - 1, got));
            }
            let size = part.file_bytes();
            head.add(part.head, base)
                .map_err(|error| WeightsError::Gguf(InFile::at(&path)(error)))?;
            parts.push(part.bytes);
            paths.push(path);
            base += size;
        }
        let there = head.tensors.len() as u64;
        if told.is_some_and(|told| told != there) {
            let expected = format!("{there}, as the {count} files hold");
            let got = told.unwrap_or_default();
            return Err(misplaced(&first, SPLIT_TENSORS, expected, got));
        }
        // The result is a single model.
        head.metadata.remove(SPLIT_COUNT);
        Ok(Self {
            path: first,
            paths,
            bytes: Box::new(Joined(parts)),
            head,
            read: AtomicU64::new(0),
        })
    }

    /// Opens a file that is already in memory; errors call it `name`.
    ///
    /// # Errors
    /// [`WeightsError::Gguf`] for a malformed file.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, WeightsError> {
        Self::from_source(name, Box::new(bytes))
    }

    /// Opens a file from any source of bytes; errors call it `name`.
    ///
    /// # Errors
    /// As [`GgufFile::open`].
    pub fn from_source(name: &str, bytes: Box<dyn ReadAt>) -> Result<Self, WeightsError> {
        Self::of(PathBuf::from(name), bytes)
    }

    fn of(path: PathBuf, bytes: Box<dyn ReadAt>) -> Result<Self, WeightsError> {
        let head = Head::read(&*bytes).map_err(|error| match error {
            GgufError::Read(error) => read_error(&path)(error),
            GgufError::Magic(_) if is_pointer(&*bytes) => WeightsError::LfsPointer(path.clone()),
            other => WeightsError::Gguf(InFile::at(&path)(other)),
        })?;
        Ok(Self {
            paths: vec![path.clone()],
            path,
            bytes,
            head,
            read: AtomicU64::new(0),
        })
    }

    /// Path or name of the file, or of the first of a model in several files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Paths of all files of the model: one, or the parts of a model in several files.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
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

    /// The value of a metadata key.
    pub fn value(&self, key: &str) -> Option<&GgufValue> {
        self.head.metadata.get(key)
    }

    /// The tensors by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &GgufTensor)> {
        let all = self.head.tensors.iter();
        all.map(|(name, info)| (name.as_str(), info))
    }

    /// Header information of a tensor.
    pub fn get(&self, name: &str) -> Option<&GgufTensor> {
        self.head.tensors.get(name)
    }

    /// Bytes of tensors read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Tells the file that bytes of a tensor, counted from the tensor's first, will be read soon, and returns at once. A hint: names and bytes
    /// that there aren't are passed over.
    pub fn expect(&self, name: &str, bytes: Range<u64>) {
        let Some(GgufTensor { at, .. }) = self.get(name) else {
            return;
        };
        let [begin, end] = [bytes.start, bytes.end].map(|byte| at.start.saturating_add(byte));
        if begin < end.min(at.end) {
            self.bytes.expect(begin..end.min(at.end));
        }
    }

    /// Reads the values of a tensor, row-major.
    ///
    /// # Errors
    /// [`WeightsError::UnknownTensor`] for an unknown name, [`WeightsError::WrongTensor`] for a type that can't be decoded,
    /// [`WeightsError::Read`] when the file can't be read, [`WeightsError::OutOfMemory`] when the memory can't be allocated.
    pub fn read_f32(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let values = self.info(name)?.values();
        self.read_f32_part(name, 0, values)
    }

    /// Reads `count` values of a tensor from value `from` on, like [`Self::read_f32`]. Both must be whole blocks: a matrix of a stack, or
    /// some rows.
    ///
    /// # Errors
    /// As [`Self::read_f32`], and [`WeightsError::WrongTensor`] for parts of blocks, [`WeightsError::DataLength`] when the tensor ends
    /// before the last value.
    pub fn read_f32_part(
        &self,
        name: &str,
        from: u64,
        count: u64,
    ) -> Result<Vec<f32>, WeightsError> {
        self.part(name, from, count)?;
        let mut values: Vec<f32> = Vec::new();
        let room = values.try_reserve_exact(usize::try_from(count).unwrap_or(usize::MAX));
        room.map_err(|refused| {
            let expected = format!("memory for {} bytes", count.saturating_mul(4));
            WeightsError::OutOfMemory(Unfit::new(self.place_of(name), expected, refused))
        })?;
        values.resize(count as usize, 0.0);
        self.read_f32_to(name, from, cast_slice_mut(&mut values))?;
        Ok(values)
    }

    /// Fills `out` with values like those of [`Self::read_f32_part`], from value `from` on: f32 as they lie in memory, of which `out` has whole
    /// blocks. Several threads may fill parts of one vector at once.
    ///
    /// # Errors
    /// As [`Self::read_f32_part`].
    pub fn read_f32_to(&self, name: &str, from: u64, out: &mut [u8]) -> Result<(), WeightsError> {
        let (kind, at) = self.part(name, from, out.len() as u64 / 4)?;
        // An empty tensor may begin past the end of the file.
        if out.is_empty() {
            return Ok(());
        }
        let mut begin = at.start;
        let mut read = |bytes: &mut [u8]| -> Result<(), WeightsError> {
            let read = self.bytes.read_at(begin, bytes);
            read.map_err(read_error(&self.path))?;
            begin += bytes.len() as u64;
            self.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            Ok(())
        };
        if kind == GgmlType::F32 && cfg!(target_endian = "little") {
            return read(out);
        }
        let most = SOME / kind.bytes * kind.values;
        let mut values = vec![0.0; most.min(out.len() / 4)];
        let mut bytes = vec![0; values.len() / kind.values * kind.bytes];
        for out in out.chunks_mut(4 * most) {
            let values = &mut values[..out.len() / 4];
            let bytes = &mut bytes[..values.len() / kind.values * kind.bytes];
            read(bytes)?;
            decode(kind, bytes, values);
            to_memory(values.iter().copied(), out);
        }
        Ok(())
    }

    /// Reads bytes of a tensor as they are in the file, from byte `at` on.
    ///
    /// # Errors
    /// [`WeightsError::UnknownTensor`] for an unknown name, [`WeightsError::DataLength`] when the tensor ends before the last byte,
    /// [`WeightsError::Read`] when the file can't be read.
    pub fn read_part(&self, name: &str, at: u64, out: &mut [u8]) -> Result<(), WeightsError> {
        let of = self.info(name)?.at.clone();
        let (size, end) = (of.end - of.start, at.saturating_add(out.len() as u64));
        if end > size {
            return Err(data_length(name, size, end));
        }
        let read = self.bytes.read_at(of.start + at, out);
        read.map_err(read_error(&self.path))?;
        self.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Finds the bytes of the file that hold some of a tensor's values.
    fn part(
        &self,
        name: &str,
        from: u64,
        count: u64,
    ) -> Result<(GgmlType, Range<u64>), WeightsError> {
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

/// The error that a metadata key of a model in several files doesn't fit the files.
fn misplaced(path: &Path, key: &str, expected: impl ToString, got: impl ToString) -> WeightsError {
    let fault = GgufError::Metadata(Unfit::new(quoted(key), expected, got));
    WeightsError::Gguf(InFile::at(path)(fault))
}

/// Names of the types that can be decoded, for an error.
pub fn expected_types() -> String {
    let names: Vec<_> = DECODED.iter().map(|kind| kind.name()).collect();
    let (last, first) = names.split_last().unwrap_or((&"", &[]));
    format!(
        "{} or {last}, which llama-quantize writes",
        first.join(", ")
    )
}
