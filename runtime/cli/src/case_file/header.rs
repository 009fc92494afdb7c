//! The safetensors header, read without trusting a word of it.
//!
//! Every size is checked against the length of the file before it is used, so a caller can refuse a
//! file before it has read the data. The `safetensors` crate supplies the entry and dtype types and a
//! second opinion on the layout; on its own it keeps the last of two equal names and adds offsets
//! unchecked.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use super::error::CaseError;
use super::quoted;
use super::unique_map::UniqueMap;

/// Bytes of the length field in front of the header.
pub(crate) const LENGTH_FIELD: usize = 8;
/// Largest header: a case has tens of tensors, each some hundred bytes of header.
pub(crate) const MAX_HEADER: u64 = 16 * 1024 * 1024;

/// Where one tensor lies in the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Element type.
    pub(crate) dtype: Dtype,
    /// Extents, outermost first.
    pub(crate) shape: Vec<usize>,
    /// Bytes of the data section.
    pub(crate) bytes: Range<usize>,
}

/// A checked header: every slot lies inside the data and the slots cover it exactly.
#[derive(Debug)]
pub(crate) struct Header {
    /// The free text entries.
    pub(crate) metadata: BTreeMap<String, String>,
    /// The tensors by name.
    pub(crate) tensors: BTreeMap<String, Slot>,
}

/// Length of the header in bytes, from the length field of a file of `file_len` bytes.
pub(crate) fn header_length(field: [u8; LENGTH_FIELD], file_len: u64) -> Result<usize, CaseError> {
    let said = u64::from_le_bytes(field);
    let available = file_len.saturating_sub(LENGTH_FIELD as u64);
    if said > available {
        return Err(CaseError::HeaderPastEnd { said, available });
    }
    if said > MAX_HEADER {
        return Err(CaseError::HeaderTooLarge {
            max: MAX_HEADER,
            got: said,
        });
    }
    // MAX_HEADER fits a usize on every platform the tool is built for.
    Ok(said as usize)
}

impl Header {
    /// Reads the header of a file whose data section has `data_len` bytes.
    pub(crate) fn parse(header: &[u8], data_len: u64) -> Result<Self, CaseError> {
        let text = std::str::from_utf8(header).map_err(|e| CaseError::HeaderNotUtf8 {
            valid_up_to: e.valid_up_to(),
        })?;
        let mut entries: Entries = serde_json::from_str(text).map_err(CaseError::HeaderNotValid)?;
        entries.tensors.sort_by(|a, b| {
            a.1.data_offsets
                .cmp(&b.1.data_offsets)
                .then_with(|| a.0.cmp(&b.0))
        });
        check_layout(&entries.tensors, data_len)?;
        let layout = Metadata::new(None, entries.tensors).map_err(CaseError::Layout)?;
        let tensors = layout
            .tensors()
            .into_iter()
            .map(|(name, info)| {
                let (begin, end) = info.data_offsets;
                (
                    name,
                    Slot {
                        dtype: info.dtype,
                        shape: info.shape.clone(),
                        bytes: begin..end,
                    },
                )
            })
            .collect();
        Ok(Self {
            metadata: entries.metadata,
            tensors,
        })
    }
}

/// The slots, sorted by offset, cover `0..data_len` without gap or overlap, each as large as its shape.
fn check_layout(tensors: &[(String, TensorInfo)], data_len: u64) -> Result<(), CaseError> {
    let mut covered = 0;
    for (name, info) in tensors {
        let (begin, end) = info.data_offsets;
        if begin > end || end as u64 > data_len {
            return Err(CaseError::OffsetsOutOfRange {
                tensor: quoted(name),
                begin,
                end,
                available: data_len,
            });
        }
        if begin != covered {
            return Err(CaseError::NotContiguous {
                tensor: quoted(name),
                expected: covered,
                got: begin,
            });
        }
        let expected = byte_size(info).ok_or_else(|| CaseError::ShapeOverflow {
            tensor: quoted(name),
            shape: quoted_shape(&info.shape),
        })?;
        if expected != end - begin {
            return Err(CaseError::SizeMismatch {
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
        return Err(CaseError::DataLength {
            expected: covered,
            got: data_len,
        });
    }
    Ok(())
}

/// Bytes of a dense tensor; `None` where the product overflows or is not whole bytes.
fn byte_size(info: &TensorInfo) -> Option<usize> {
    // A zero extent makes the size 0 whatever the others are; their product must still be a number,
    // because callers multiply extents again.
    let elements = info
        .shape
        .iter()
        .try_fold(1_usize, |n, &d| n.checked_mul(d.max(1)))?;
    let elements = if info.shape.contains(&0) { 0 } else { elements };
    let bits = elements.checked_mul(info.dtype.bitsize())?;
    bits.is_multiple_of(8).then_some(bits / 8)
}

/// A shape for a message, at most eight extents of it.
fn quoted_shape(shape: &[usize]) -> String {
    match shape.get(..8) {
        Some(head) if shape.len() > 8 => format!("{head:?} and {} more", shape.len() - 8),
        _ => format!("{shape:?}"),
    }
}

/// The header's JSON object with equal names refused.
struct Entries {
    metadata: BTreeMap<String, String>,
    tensors: Vec<(String, TensorInfo)>,
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut seen = std::collections::HashSet::new();
                let mut entries = Entries {
                    metadata: BTreeMap::new(),
                    tensors: Vec::new(),
                };
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format_args!(
                            "duplicate name {}",
                            quoted(&name)
                        )));
                    }
                    if name == "__metadata__" {
                        entries.metadata = map.next_value::<UniqueMap<String>>()?.into_inner();
                    } else {
                        entries.tensors.push((name, map.next_value()?));
                    }
                }
                Ok(entries)
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}
