//! The reader of case files. It is total: any bytes give a [`CaseFile`] or a [`CaseError`], and it
//! allocates no more than the file is long plus its header.

mod elements;
mod error;
mod tolerance;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use moebius_weights::header::{Header, HeaderError, LENGTH_FIELD, TensorInfo, header_length};
use serde::de::DeserializeOwned;

pub(crate) use elements::TensorView;
pub use error::CaseError;
pub(crate) use moebius_weights::quoted;
pub use tolerance::Tolerance;

/// Largest header: a case has tens of tensors, each some hundred bytes of header.
const MAX_HEADER: u32 = 16 * 1024 * 1024;

/// Largest case file read.
const MAX_FILE: u64 = 2 * 1024 * 1024 * 1024;

/// A case whose header, metadata and tolerances have been checked.
#[derive(Debug)]
pub struct CaseFile {
    op: String,
    params: String,
    tolerances: BTreeMap<String, Tolerance>,
    tensors: BTreeMap<String, TensorInfo>,
    bytes: Cow<'static, [u8]>,
    /// Where in `bytes` the tensors' data begins.
    data: usize,
    /// Where the file lies, if it was read from a disk.
    #[cfg_attr(
        target_family = "wasm",
        expect(dead_code, reason = "operations on folders are left out of pages")
    )]
    folder: Option<PathBuf>,
}

impl CaseFile {
    /// Reads a case from disk: header first, data only once the header holds.
    ///
    /// # Errors
    /// [`CaseError`], also for files over 2 GiB and anything that is not a regular file.
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
        // Both are at most file_len, which is at most MAX_FILE.
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

    /// Reads a case that is already in memory: `&'static [u8]` or `Vec<u8>`, which it keeps.
    ///
    /// # Errors
    /// [`CaseError`].
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

    /// Everything but the data.
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
            tolerances: tolerance::parse(&tol)?,
            tensors: header.tensors,
            bytes: Cow::Borrowed(&[]),
            data: 0,
            folder: None,
        };
        case.params::<serde_json::Map<String, serde_json::Value>>()?;
        case.check_names()?;
        Ok(case)
    }

    /// Every tensor is an input or an output, and outputs and tolerances pair up.
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

    /// The folder that it was read from; empty for the current one.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Name of the operation.
    pub fn op(&self) -> &str {
        &self.op
    }

    /// The parameters of an operation; unknown, repeated and missing keys are errors that name the key.
    pub(crate) fn params<P: DeserializeOwned>(&self) -> Result<P, CaseError> {
        serde_json::from_str(&self.params).map_err(|source| CaseError::BadMetadata {
            key: "params",
            source,
        })
    }

    /// The inputs by name, without their `in.`.
    pub(crate) fn inputs(&self) -> BTreeMap<&str, TensorView<'_>> {
        self.tensors
            .iter()
            .filter_map(|(name, info)| Some((name.strip_prefix("in.")?, self.view(name, info))))
            .collect()
    }

    /// The expected outputs with their tolerances, in order of name.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (&str, TensorView<'_>, Tolerance)> {
        self.tensors.iter().filter_map(|(name, info)| {
            let output = name.strip_prefix("out.")?;
            Some((output, self.view(name, info), *self.tolerances.get(output)?))
        })
    }

    fn view<'a>(&'a self, name: &'a str, info: &'a TensorInfo) -> TensorView<'a> {
        let (begin, end) = info.data_offsets;
        // The header's check put every tensor inside the data.
        let bytes = &self.bytes[self.data..][begin..end];
        TensorView {
            name,
            dtype: info.dtype,
            shape: &info.shape,
            bytes,
        }
    }
}

/// Header and data of a whole file.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), CaseError> {
    let file_len = bytes.len() as u64;
    let (field, rest) = bytes
        .split_first_chunk()
        .ok_or(HeaderError::TooShort(file_len))?;
    let header_len = header_length(*field, file_len, MAX_HEADER)?;
    Ok(rest.split_at(header_len))
}

/// Exactly `len` bytes; memory that is not there is an error, not an abort.
fn read_bytes(file: &mut File, len: usize) -> Result<Vec<u8>, CaseError> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(len)
        .map_err(|_| CaseError::OutOfMemory(len))?;
    bytes.resize(len, 0);
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
