//! The safetensors header, read as untrusted input.
//!
//! Every size is checked against the length of the file before it is used, so a caller can refuse a file before it has read the data. The
//! `safetensors` crate supplies the entry and dtype types and a second opinion on the layout; on its own, that crate keeps the last of two
//! equal names and adds offsets unchecked.

pub use crate::error::HeaderError;
pub use safetensors::tensor::TensorInfo;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::marker::PhantomData;

use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde::Deserialize;
use serde::de::value::{Error as NameError, StrDeserializer};
use serde::de::{Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor};

use crate::error::{Unfit, quoted, quoted_shape, tensor};

/// Bytes of the length field in front of the header.
pub const LENGTH_FIELD: usize = 8;
/// Name of the entry that holds the free-text metadata.
pub(crate) const METADATA: &str = "__metadata__";

/// A checked header: all tensors lie inside the data and cover it exactly.
#[derive(Debug)]
pub struct Header {
    /// Entries of the free-text metadata.
    pub metadata: BTreeMap<String, String>,
    /// The tensors by name.
    pub tensors: BTreeMap<String, TensorInfo>,
}

/// Reads the length of the header in bytes from the length field of a file of `file_len` bytes.
///
/// # Errors
/// [`HeaderError::PastEnd`] for a length beyond the end of the file, [`HeaderError::TooLarge`] for more than `max` bytes.
pub fn header_length(
    field: [u8; LENGTH_FIELD],
    file_len: u64,
    max: u32,
) -> Result<usize, HeaderError> {
    let said = u64::from_le_bytes(field);
    let available = file_len.saturating_sub(LENGTH_FIELD as u64);
    if said > available {
        return Err(HeaderError::PastEnd { said, available });
    }
    if said > u64::from(max) {
        let max = u64::from(max);
        return Err(HeaderError::TooLarge { max, got: said });
    }
    // A u32 fits a usize on all supported platforms.
    Ok(said as usize)
}

impl Header {
    /// Reads the header of a file whose data section has `data_len` bytes.
    ///
    /// # Errors
    /// [`HeaderError`] for a malformed header; no bytes cause a panic.
    pub fn parse(header: &[u8], data_len: u64) -> Result<Self, HeaderError> {
        let text = std::str::from_utf8(header).map_err(|e| HeaderError::NotUtf8 {
            valid_up_to: e.valid_up_to(),
        })?;
        let entries: Entries = serde_json::from_str(text).map_err(HeaderError::NotValid)?;
        let known = entries.tensors.into_iter().map(Entry::into_info);
        let mut tensors = known.collect::<Result<Vec<_>, _>>()?;
        tensors.sort_by(|a, b| {
            a.1.data_offsets
                .cmp(&b.1.data_offsets)
                .then_with(|| a.0.cmp(&b.0))
        });
        check_layout(&tensors, data_len)?;
        let layout = Metadata::new(None, tensors).map_err(HeaderError::Layout)?;
        let tensors = layout.tensors().into_iter();
        Ok(Self {
            metadata: entries.metadata,
            tensors: tensors.map(|(name, info)| (name, info.clone())).collect(),
        })
    }
}

/// Checks that the tensors, sorted by offset, cover `0..data_len` without gap or overlap, and that each is as large as its shape.
fn check_layout(tensors: &[(String, TensorInfo)], data_len: u64) -> Result<(), HeaderError> {
    let mut covered = 0;
    for (name, info) in tensors {
        let (begin, end) = info.data_offsets;
        if begin > end || end as u64 > data_len {
            let expected = format!("offsets inside the {data_len} bytes of data");
            // A file that was cut off ends within the data of a tensor.
            let hint = if begin > end {
                ""
            } else {
                ": download the file again"
            };
            let fault = Unfit::new(tensor(name), expected, format!("{begin}..{end}{hint}"));
            return Err(HeaderError::OffsetsOutOfRange(fault));
        }
        if begin != covered {
            return Err(HeaderError::NotContiguous {
                tensor: quoted(name),
                expected: covered,
                got: begin,
            });
        }
        let expected = byte_size(info.dtype, &info.shape).ok_or_else(|| {
            let (fits, got) = ("a shape of a size that fits", quoted_shape(&info.shape));
            HeaderError::ShapeOverflow(Unfit::new(tensor(name), fits, got))
        })?;
        if expected != end - begin {
            return Err(HeaderError::SizeMismatch {
                tensor: quoted(name),
                dtype: info.dtype,
                shape: quoted_shape(&info.shape),
                expected,
                got: end - begin,
            });
        }
        covered = end;
    }
    if covered as u64 != data_len {
        return Err(HeaderError::DataLength {
            expected: covered,
            got: data_len,
        });
    }
    Ok(())
}

/// Size of a dense tensor in bytes; `None` where the product overflows or isn't whole bytes.
pub(crate) fn byte_size(dtype: Dtype, shape: &[usize]) -> Option<usize> {
    // An extent of 0 makes the size 0, but the product of the other extents must not overflow either, because callers multiply extents
    // again.
    let elements = shape
        .iter()
        .try_fold(1_usize, |n, &d| n.checked_mul(d.max(1)))?;
    let elements = if shape.contains(&0) { 0 } else { elements };
    let bits = elements.checked_mul(dtype.bitsize())?;
    bits.is_multiple_of(8).then_some(bits / 8)
}

/// A tensor's entry as in the header; like the entry type of `safetensors`, but the dtype may be unknown.
#[derive(Deserialize)]
struct RawInfo {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

struct Entry {
    name: String,
    info: RawInfo,
}

impl Entry {
    fn into_info(self) -> Result<(String, TensorInfo), HeaderError> {
        let written: StrDeserializer<'_, NameError> = self.info.dtype.as_str().into_deserializer();
        let dtype = Dtype::deserialize(written).map_err(|_| {
            let (expected, got) = ("a safetensors dtype", quoted(&self.info.dtype));
            HeaderError::UnknownDtype(Unfit::new(tensor(&self.name), expected, got))
        })?;
        let info = TensorInfo {
            dtype,
            shape: self.info.shape,
            data_offsets: self.info.data_offsets,
        };
        Ok((self.name, info))
    }
}

/// The header's JSON object, with repeated names refused.
struct Entries {
    metadata: BTreeMap<String, String>,
    tensors: Vec<Entry>,
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut seen = HashSet::new();
        let (mut metadata, mut tensors) = (BTreeMap::new(), Vec::new());
        while let Some(name) = map.next_key::<String>()? {
            let place = |e| A::Error::custom(format_args!("{}: {e}", quoted(&name)));
            if !seen.insert(name.clone()) {
                return Err(place(A::Error::custom("duplicate name")));
            }
            if name == METADATA {
                // Some programs write null where there is none.
                let entries = map.next_value::<Option<UniqueMap<String>>>();
                let entries = entries.map_err(place)?.map(UniqueMap::into_inner);
                metadata = entries.unwrap_or_default();
            } else {
                let info = map.next_value().map_err(place)?;
                tensors.push(Entry { name, info });
            }
        }
        Ok(Entries { metadata, tensors })
    }
}

/// A map that refuses repeated keys; serde's own maps silently keep the last value.
#[derive(Debug)]
pub struct UniqueMap<V>(BTreeMap<String, V>);

impl<V> UniqueMap<V> {
    /// The entries of the map.
    pub fn into_inner(self) -> BTreeMap<String, V> {
        self.0
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for MapVisitor<V> {
            type Value = UniqueMap<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    if entries.contains_key(&key) {
                        return Err(A::Error::custom(format_args!(
                            "duplicate key {}",
                            quoted(&key)
                        )));
                    }
                    let value = map.next_value()?;
                    entries.insert(key, value);
                }
                Ok(UniqueMap(entries))
            }
        }

        deserializer.deserialize_map(MapVisitor(PhantomData))
    }
}
