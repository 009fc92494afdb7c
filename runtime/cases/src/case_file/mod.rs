//! Reader of case files. It is total: any bytes give a [`CaseFile`] or a [`CaseError`], and it allocates no more than the size of the file
//! and its header.

#[cfg(test)]
mod tests;

pub(crate) use moebius_weights::quoted;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use burn::tensor::DType;
use half::{bf16, f16};
use moebius_weights::header::{
    Header, HeaderError, LENGTH_FIELD, TensorInfo, UniqueMap, header_length,
};
use safetensors::Dtype;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

use crate::compute::Compute;
use crate::error::CaseError;

/// Largest header in bytes: a case has tens of tensors, each with some hundred bytes of header.
const MAX_HEADER: u32 = 16 * 1024 * 1024;

/// Largest case file in bytes.
const MAX_FILE: u64 = 2 * 1024 * 1024 * 1024;

/// A case with checked header, metadata and tolerances.
#[derive(Debug)]
pub struct CaseFile {
    op: String,
    params: String,
    tolerances: BTreeMap<String, Tolerance>,
    tensors: BTreeMap<String, TensorInfo>,
    bytes: Cow<'static, [u8]>,
    /// Offset of the tensors' data in `bytes`.
    data: usize,
    /// Path of the file, if it was read from disk.
    #[cfg_attr(
        target_family = "wasm",
        expect(dead_code, reason = "operations on folders are left out of pages")
    )]
    folder: Option<PathBuf>,
}

impl CaseFile {
    /// Reads a case from disk: the header first, and the data only if the header is valid.
    ///
    /// # Errors
    /// [`CaseError`] for an invalid file, also for files over 2 GiB and paths that aren't regular files.
    pub fn read(path: &Path) -> Result<Self, CaseError> {
        let mut file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(CaseError::NotAFile);
        }
        let file_len = about.len();
        if file_len > MAX_FILE {
            return Err(CaseError::TooLarge {
                max: MAX_FILE,
                got: file_len,
            });
        }
        if file_len < LENGTH_FIELD as u64 {
            return Err(HeaderError::TooShort(file_len).into());
        }
        let mut field = [0; LENGTH_FIELD];
        file.read_exact(&mut field)?;
        let header_len = header_length(field, file_len, MAX_HEADER)?;
        let header_bytes = read_bytes(&mut file, header_len)?;
        // Both lengths are at most `file_len`, which is at most `MAX_FILE`.
        let data_len = file_len - (LENGTH_FIELD + header_len) as u64;
        let header = Header::parse(&header_bytes, data_len)?;
        let case = Self::from_header(header)?;
        let data = read_bytes(&mut file, data_len as usize)?;
        Ok(Self {
            bytes: data.into(),
            folder: path.parent().map(Path::to_owned),
            ..case
        })
    }

    /// Reads a case that is already in memory, and keeps its bytes: `&'static [u8]` or `Vec<u8>`.
    ///
    /// # Errors
    /// [`CaseError`] for an invalid file.
    pub fn parse(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self, CaseError> {
        let bytes = bytes.into();
        let (header, data) = split(&bytes)?;
        let case = Self::from_header(Header::parse(header, data.len() as u64)?)?;
        Ok(Self {
            data: bytes.len() - data.len(),
            bytes,
            ..case
        })
    }

    /// Checks the header and makes a case without its data.
    fn from_header(header: Header) -> Result<Self, CaseError> {
        let mut metadata = header.metadata;
        let mut entry = |key| metadata.remove(key).ok_or(CaseError::MissingMetadata(key));
        let (op, params, tol) = (entry("op")?, entry("params")?, entry("tol")?);
        if let Some(key) = metadata.into_keys().next() {
            return Err(CaseError::UnknownMetadata(quoted(&key)));
        }
        let case = Self {
            op,
            params,
            tolerances: parse_tolerances(&tol)?,
            tensors: header.tensors,
            bytes: Cow::Borrowed(&[]),
            data: 0,
            folder: None,
        };
        case.params::<serde_json::Map<String, serde_json::Value>>()?;
        case.check_names()?;
        Ok(case)
    }

    /// Checks that every tensor is an input or an output, and that outputs and tolerances match.
    fn check_names(&self) -> Result<(), CaseError> {
        let mut outputs = 0;
        for tensor in self.tensors.keys() {
            if let Some(output) = tensor.strip_prefix("out.") {
                outputs += 1;
                if !self.tolerances.contains_key(output) {
                    return Err(CaseError::MissingTolerance(quoted(output)));
                }
            } else if !tensor.starts_with("in.") {
                return Err(CaseError::StrayTensor(quoted(tensor)));
            }
        }
        for output in self.tolerances.keys() {
            if !self.tensors.contains_key(&format!("out.{output}")) {
                return Err(CaseError::UnusedTolerance(quoted(output)));
            }
        }
        if outputs == 0 {
            Err(CaseError::NoOutputs)
        } else {
            Ok(())
        }
    }

    /// The folder of the file, if it was read from disk; an empty path for the current folder.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Name of the operation.
    pub fn op(&self) -> &str {
        &self.op
    }

    /// The dtype in which the operation computes: that of the parameter `compute`, f32 without one. Something else than a dtype counts as
    /// f32 here; the operation refuses it.
    pub fn dtype(&self) -> DType {
        #[derive(Deserialize)]
        struct Asked {
            #[serde(default)]
            compute: Compute,
        }
        let asked = self.params::<Asked>();
        asked.map_or(DType::F32, |asked| asked.compute.dtype())
    }

    /// Parses the parameters of an operation; unknown, repeated and missing keys are errors that name the key.
    pub(crate) fn params<P: DeserializeOwned>(&self) -> Result<P, CaseError> {
        serde_json::from_str(&self.params).map_err(|source| CaseError::BadMetadata {
            key: "params",
            source,
        })
    }

    /// The inputs by name, without the prefix `in.`.
    pub(crate) fn inputs(&self) -> BTreeMap<&str, TensorView<'_>> {
        self.tensors
            .iter()
            .filter_map(|(name, info)| Some((name.strip_prefix("in.")?, self.view(name, info))))
            .collect()
    }

    /// The expected outputs with their tolerances, by name.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (&str, TensorView<'_>, Tolerance)> {
        self.tensors.iter().filter_map(|(name, info)| {
            let output = name.strip_prefix("out.")?;
            Some((output, self.view(name, info), *self.tolerances.get(output)?))
        })
    }

    fn view<'a>(&'a self, name: &'a str, info: &'a TensorInfo) -> TensorView<'a> {
        let (begin, end) = info.data_offsets;
        // The check of the header ensures that every tensor lies inside the data.
        let bytes = &self.bytes[self.data..][begin..end];
        TensorView {
            name,
            dtype: info.dtype,
            shape: &info.shape,
            bytes,
        }
    }
}

/// Splits a whole file into header and data.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), CaseError> {
    let file_len = bytes.len() as u64;
    let (field, rest) = bytes
        .split_first_chunk()
        .ok_or(HeaderError::TooShort(file_len))?;
    let header_len = header_length(*field, file_len, MAX_HEADER)?;
    Ok(rest.split_at(header_len))
}

/// Reads exactly `len` bytes; failure to allocate is an error, not an abort.
fn read_bytes(file: &mut File, len: usize) -> Result<Vec<u8>, CaseError> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(len)
        .map_err(|_| CaseError::OutOfMemory(len))?;
    bytes.resize(len, 0);
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A tensor of a case file; `bytes` has the exact length for `dtype` and `shape`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorView<'a> {
    /// Name with the prefix `in.` or `out.`.
    pub(crate) name: &'a str,
    /// Element type.
    pub(crate) dtype: Dtype,
    /// Extents, outermost first.
    pub(crate) shape: &'a [usize],
    /// Little-endian elements, row-major.
    pub(crate) bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// Whether the elements are integers (truth values included).
    pub(crate) fn is_integer(&self) -> bool {
        matches!(
            self.dtype,
            Dtype::I64 | Dtype::I32 | Dtype::U8 | Dtype::BOOL
        )
    }

    /// The elements of an F64, F32, F16 or BF16 tensor, widened to f64 without loss.
    pub(crate) fn floats(&self) -> Result<Box<dyn Iterator<Item = f64> + 'a>, CaseError> {
        Ok(match self.dtype {
            Dtype::F64 => Box::new(self.chunks().map(f64::from_le_bytes)),
            Dtype::F32 => Box::new(self.chunks().map(|b| f64::from(f32::from_le_bytes(b)))),
            Dtype::F16 => Box::new(self.chunks().map(|b| f64::from(f16::from_le_bytes(b)))),
            Dtype::BF16 => Box::new(self.chunks().map(|b| f64::from(bf16::from_le_bytes(b)))),
            _ => return Err(self.wrong("F64, F32, F16 or BF16", self.dtype)),
        })
    }

    /// The elements of an I64, I32, U8 or BOOL tensor.
    pub(crate) fn ints(&self) -> Result<Box<dyn Iterator<Item = i64> + 'a>, CaseError> {
        Ok(match self.dtype {
            Dtype::I64 => Box::new(self.chunks().map(i64::from_le_bytes)),
            Dtype::I32 => Box::new(self.chunks().map(|b| i64::from(i32::from_le_bytes(b)))),
            Dtype::U8 | Dtype::BOOL => Box::new(self.bytes.iter().map(|&b| i64::from(b))),
            _ => return Err(self.wrong("I64, I32, U8 or BOOL", self.dtype)),
        })
    }

    /// The elements of a float tensor as f32; F64 is rounded to nearest.
    pub(crate) fn to_f32(self) -> Result<Vec<f32>, CaseError> {
        Ok(self.floats()?.map(|v| v as f32).collect())
    }

    /// The elements of a U8 tensor.
    pub(crate) fn to_bytes(self) -> Result<Vec<u8>, CaseError> {
        match self.dtype {
            Dtype::U8 => Ok(self.bytes.to_vec()),
            _ => Err(self.wrong("U8", self.dtype)),
        }
    }

    /// The elements of an integer tensor as truth values; any value but 0 and 1 is an error.
    pub(crate) fn to_bool(self) -> Result<Vec<bool>, CaseError> {
        let check = |(index, got)| match got {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.wrong(format!("0 or 1 at index {index}"), got)),
        };
        self.ints()?.enumerate().map(check).collect()
    }

    fn chunks<const N: usize>(&self) -> impl Iterator<Item = [u8; N]> + 'a {
        self.bytes.as_chunks::<N>().0.iter().copied()
    }

    fn wrong(&self, expected: impl Into<String>, got: impl ToString) -> CaseError {
        CaseError::WrongTensor {
            tensor: quoted(self.name),
            expected: expected.into(),
            got: got.to_string(),
        }
    }
}

/// Rule for accepting an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// All bits must be equal; any NaN equals any NaN.
    Exact,
    /// Largest relative error ‖got − want‖₂ / ‖want‖₂.
    RelL2(f64),
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::RelL2(limit) => write!(f, "{limit:.1e}"),
        }
    }
}

impl Serialize for Tolerance {
    /// Serialises the tolerance in the form of the file.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = match self {
            Self::Exact => json!({ "exact": true }),
            Self::RelL2(limit) => json!({ "rel_l2": limit }),
        };
        form.serialize(serializer)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    exact: Option<bool>,
    #[serde(default)]
    rel_l2: Option<f64>,
}

/// Parses the `tol` entry, which maps outputs to tolerances.
fn parse_tolerances(text: &str) -> Result<BTreeMap<String, Tolerance>, CaseError> {
    let entries: UniqueMap<Entry> = serde_json::from_str(text)
        .map_err(|source| CaseError::BadMetadata { key: "tol", source })?;
    let mut tolerances = BTreeMap::new();
    for (output, entry) in entries.into_inner() {
        let tolerance = match (entry.exact, entry.rel_l2) {
            (Some(true), None) => Tolerance::Exact,
            (None, Some(limit)) if limit.is_finite() && limit >= 0.0 => Tolerance::RelL2(limit),
            _ => {
                return Err(CaseError::BadTolerance(quoted(&output)));
            }
        };
        tolerances.insert(output, tolerance);
    }
    Ok(tolerances)
}
