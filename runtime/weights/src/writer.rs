//! Writer of safetensors files, piece by piece.
//!
//! All tensors are declared first, so the header and every offset are known before the data; the data may then come in any order and in any
//! pieces. A file is written under a temporary name (`NAME.part`), and flushed and renamed after its last byte; an incomplete file is
//! removed. Tensors lie in order of decreasing element size, each aligned to its elements, as the `safetensors` crate writes them; the
//! header is padded with spaces to 8 bytes and says `format: pt`.

use std::collections::{BTreeMap, HashMap};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde_json::{Map, Value, json};

use crate::error::{InFile, WeightsError, data_length, quoted, write_error};
use crate::folder::{Part, parent, sync_folder, write_whole};
use crate::fp8::Matrix;
use crate::header::{Header, METADATA, byte_size};
use crate::source::{INDEX_FILE, MODEL_FILE};

/// Bytes of data after which a folder gets another file, the same as Hugging Face's.
pub const SHARD_BYTES: u64 = 5_000_000_000;

/// Declaration of a tensor to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name of the tensor.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
}

impl TensorSpec {
    /// Declares the two tensors of an FP8 weight of this name and shape: codes and scales.
    /// [`Fp8Weight::check`](crate::Fp8Weight::check) holds a weight against its shape, which has two or three extents.
    pub fn of_fp8(name: &str, shape: &[usize], scheme: Fp8Scheme) -> [Self; 2] {
        let matrix = Matrix::of(shape);
        let grid = scheme.grid(matrix.rows, matrix.columns);
        let experts = &shape[..shape.len().saturating_sub(2)];
        let (ending, dtype) = match scheme.granularity {
            Granularity::Block { .. } => ("_scale_inv", Dtype::F32),
            Granularity::Row | Granularity::Tensor => ("_scale", Dtype::F32),
            Granularity::Mx => ("_scale", Dtype::U8),
        };
        let scales = match (scheme.granularity, experts) {
            (Granularity::Tensor, []) => vec![1],
            _ => [experts, &grid].concat(),
        };
        let codes = Self {
            name: name.to_owned(),
            dtype: match scheme.format {
                Fp8Format::E4M3 => Dtype::F8_E4M3,
                Fp8Format::E5M2 => Dtype::F8_E5M2,
            },
            shape: shape.to_vec(),
        };
        let scales = Self {
            name: format!("{name}{ending}"),
            dtype,
            shape: scales,
        };
        [codes, scales]
    }

    fn bytes(&self) -> Result<usize, WeightsError> {
        byte_size(self.dtype, &self.shape).ok_or_else(|| WeightsError::Declared {
            tensor: quoted(&self.name),
            reason: "its size overflows, or is no whole number of bytes",
        })
    }
}

/// Writer of one file, or of a checkpoint of several files with an index.
#[derive(Debug, Default)]
pub struct Writer {
    folder: PathBuf,
    files: Vec<ShardFile>,
    /// File index and place in the file of each tensor, by name.
    places: HashMap<String, (usize, Place)>,
    total: u64,
    index: bool,
}

#[derive(Debug)]
struct Place {
    /// Offset of the tensor in the file.
    begin: u64,
    bytes: u64,
    written: u64,
}

/// A file that is still to be written, is being written, or is complete.
#[derive(Debug)]
struct ShardFile {
    path: PathBuf,
    /// Length field and header.
    head: Vec<u8>,
    /// Bytes of data still to come.
    missing: u64,
    open: Option<Part>,
}

impl Writer {
    /// Declares the tensors of one file. `metadata` is the free-text metadata in addition to `format`.
    ///
    /// # Errors
    /// [`WeightsError::Declared`] for a repeated or reserved name, and for a size that overflows.
    pub fn file(
        path: &Path,
        tensors: &[TensorSpec],
        metadata: &BTreeMap<String, String>,
    ) -> Result<Self, WeightsError> {
        let mut writer = Self {
            folder: parent(path),
            ..Self::default()
        };
        writer.declare(path.to_owned(), tensors.iter().collect(), metadata)?;
        Ok(writer)
    }

    /// Declares the tensors of a checkpoint in an existing folder: `model.safetensors`, or for more than `shard_bytes` of data the files
    /// `model-00001-of-0000N.safetensors` and so on, with `model.safetensors.index.json`. A tensor is never split between files, however
    /// large it is.
    ///
    /// # Errors
    /// As [`Self::file`].
    pub fn folder(
        folder: &Path,
        tensors: &[TensorSpec],
        metadata: &BTreeMap<String, String>,
        shard_bytes: Option<u64>,
    ) -> Result<Self, WeightsError> {
        let limit = shard_bytes.unwrap_or(u64::MAX);
        let mut shards: Vec<Vec<&TensorSpec>> = vec![Vec::new()];
        let mut filled = 0u64;
        for spec in tensors {
            let bytes = spec.bytes()? as u64;
            if filled > 0 && filled.saturating_add(bytes) > limit {
                shards.push(Vec::new());
                filled = 0;
            }
            filled = filled.saturating_add(bytes);
            if let Some(shard) = shards.last_mut() {
                shard.push(spec);
            }
        }
        let count = shards.len();
        let mut writer = Self {
            folder: folder.to_owned(),
            index: count > 1,
            ..Self::default()
        };
        for (number, shard) in shards.into_iter().enumerate() {
            let name = match count {
                1 => MODEL_FILE.to_owned(),
                _ => format!("model-{:05}-of-{count:05}.safetensors", number + 1),
            };
            writer.declare(folder.join(name), shard, metadata)?;
        }
        Ok(writer)
    }

    fn declare(
        &mut self,
        path: PathBuf,
        mut tensors: Vec<&TensorSpec>,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), WeightsError> {
        // A stable sort keeps the order of declaration for equal dtypes.
        tensors.sort_by_key(|spec| std::cmp::Reverse(spec.dtype));
        let (header, end) = self.header(&tensors, metadata)?;
        let head = head(header);
        // The header must pass the checks of the reader.
        let parsed = Header::parse(&head[8..], end as u64);
        let parsed = parsed.map_err(InFile::at(&path));
        parsed.map_err(WeightsError::Header)?;
        let mut begin = head.len() as u64;
        for spec in &tensors {
            let bytes = spec.bytes()? as u64;
            let place = Place {
                begin,
                bytes,
                written: 0,
            };
            begin += bytes;
            self.places
                .insert(spec.name.clone(), (self.files.len(), place));
        }
        self.total = self.total.saturating_add(end as u64);
        self.files.push(ShardFile {
            path,
            head,
            missing: end as u64,
            open: None,
        });
        Ok(())
    }

    /// The header of a file with these tensors in this order, and the number of bytes of their data.
    fn header(
        &self,
        tensors: &[&TensorSpec],
        metadata: &BTreeMap<String, String>,
    ) -> Result<(Map<String, Value>, usize), WeightsError> {
        let mut text = Map::new();
        text.extend(
            metadata
                .iter()
                .map(|(key, text)| (key.clone(), json!(text))),
        );
        text.insert("format".to_owned(), json!("pt"));
        let mut header = Map::new();
        header.insert(METADATA.to_owned(), Value::Object(text));
        let mut end = 0usize;
        for spec in tensors {
            let refuse = |reason| WeightsError::Declared {
                tensor: quoted(&spec.name),
                reason,
            };
            let begin = end;
            end = begin
                .checked_add(spec.bytes()?)
                .ok_or_else(|| refuse("the file's size overflows"))?;
            let info = TensorInfo {
                dtype: spec.dtype,
                shape: spec.shape.clone(),
                data_offsets: (begin, end),
            };
            if self.places.contains_key(&spec.name) || header.contains_key(&spec.name) {
                return Err(refuse("its name is taken"));
            }
            header.insert(spec.name.clone(), json!(info));
        }
        Ok((header, end))
    }

    /// Appends bytes to a tensor.
    ///
    /// # Errors
    /// [`WeightsError::UnknownTensor`] for a tensor that wasn't declared, [`WeightsError::DataLength`] for more bytes than were declared,
    /// [`WeightsError::Write`] when the file can't be written, [`WeightsError::Busy`] when the temporary file exists already.
    pub fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), WeightsError> {
        let place = self.places.get_mut(name);
        let (file, place) = place.ok_or_else(|| WeightsError::UnknownTensor(quoted(name)))?;
        let got = place.written.saturating_add(bytes.len() as u64);
        if got > place.bytes {
            return Err(data_length(name, place.bytes, got));
        }
        self.files[*file].write(place.begin + place.written, bytes)?;
        place.written = got;
        Ok(())
    }

    /// Completes the files, and returns their paths, the index last.
    ///
    /// # Errors
    /// [`WeightsError::DataLength`] for a tensor whose bytes aren't complete, [`WeightsError::Write`] when a file can't be written.
    pub fn finish(mut self) -> Result<Vec<PathBuf>, WeightsError> {
        for (name, (_, place)) in &self.places {
            if place.written != place.bytes {
                return Err(data_length(name, place.bytes, place.written));
            }
        }
        for file in &mut self.files {
            // A file without data hasn't been written yet; complete files have been closed.
            if file.missing == 0 && !file.head.is_empty() {
                file.write(0, &[])?;
            }
        }
        let mut paths: Vec<_> = self.files.iter().map(|file| file.path.clone()).collect();
        if self.index {
            let file_name = |file: usize| {
                let name = self.files[file].path.file_name();
                name.map(|name| name.to_string_lossy())
            };
            let places = self.places.iter();
            let map: BTreeMap<&str, _> = places
                .map(|(name, (file, _))| (name.as_str(), file_name(*file)))
                .collect();
            let index = json!({ "metadata": { "total_size": self.total }, "weight_map": map });
            let path = self.folder.join(INDEX_FILE);
            write_whole(&path, format!("{index:#}\n").as_bytes())?;
            paths.push(path);
        }
        sync_folder(&self.folder).map_err(write_error(&self.folder))?;
        Ok(paths)
    }
}

impl ShardFile {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), WeightsError> {
        if self.open.is_none() && !self.head.is_empty() {
            let mut part = Part::create(&self.path)?;
            let wrote = part.file.write_all(&self.head);
            wrote.map_err(write_error(&part.path))?;
            self.open = Some(part);
            self.head = Vec::new();
        }
        let Some(part) = &mut self.open else {
            return Ok(()); // The file is complete, so only empty data can follow.
        };
        let mut write = || {
            part.file.seek(SeekFrom::Start(at))?;
            part.file.write_all(bytes)
        };
        write().map_err(write_error(&part.path))?;
        self.missing = self.missing.saturating_sub(bytes.len() as u64);
        if self.missing == 0 {
            let part = self.open.take();
            part.map_or(Ok(()), |part| part.finish(&self.path))?;
        }
        Ok(())
    }
}

/// A safetensors file in memory: tensors with their bytes, in the order and with the header that [`Writer::file`] gives them.
///
/// # Errors
/// [`WeightsError::Declared`] as [`Writer::file`], and [`WeightsError::DataLength`] for more or fewer bytes than a tensor has.
pub fn file_bytes(tensors: &[(TensorSpec, Vec<u8>)]) -> Result<Vec<u8>, WeightsError> {
    let mut sorted: Vec<&(TensorSpec, Vec<u8>)> = tensors.iter().collect();
    sorted.sort_by_key(|(spec, _)| std::cmp::Reverse(spec.dtype));
    let specs: Vec<&TensorSpec> = sorted.iter().map(|(spec, _)| spec).collect();
    let (header, size) = Writer::default().header(&specs, &BTreeMap::new())?;
    let mut bytes = head(header);
    bytes.reserve_exact(size);
    for (spec, data) in sorted {
        let (expected, got) = (spec.bytes()?, data.len());
        if expected != got {
            return Err(data_length(&spec.name, expected as u64, got as u64));
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes)
}

/// The length field and the header, padded to 8 bytes.
fn head(header: Map<String, Value>) -> Vec<u8> {
    let mut text = Value::Object(header).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut head = (text.len() as u64).to_le_bytes().to_vec();
    head.extend(text);
    head
}
