//! The head of a GGUF file, before the data: metadata and tensor table, checked against the length of the file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use super::element::{DECODED, GgmlType};
use super::value::{Cursor, GgufValue};
use crate::error::{GgufError, Unfit, quoted, quoted_shape, tensor};
use crate::source::ReadAt;

/// Largest number of extents of a tensor.
const MAX_RANK: u32 = 4;
/// Largest lengths in bytes of a tensor's name and of a metadata key.
const MAX_NAME: u64 = 64;
const MAX_KEY: u64 = 65535;
/// Default alignment of the data in bytes.
pub(super) const ALIGNMENT: u64 = 32;
/// Metadata key of the alignment.
const ALIGNMENT_KEY: &str = "general.alignment";

/// Header information of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufTensor {
    /// Type of the stored values.
    pub kind: GgmlType,
    /// Extents, outermost first (in the file, innermost first).
    pub shape: Vec<usize>,
    /// Range of the tensor's bytes in the file.
    pub(super) at: Range<u64>,
}

impl GgufTensor {
    /// Bytes of the tensor.
    pub fn bytes(&self) -> u64 {
        self.at.end - self.at.start
    }

    /// Values of the tensor.
    pub fn values(&self) -> u64 {
        self.bytes() / self.kind.bytes as u64 * self.kind.values as u64
    }
}

/// The metadata and the tensors of a file, by name.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) version: u32,
    pub(super) metadata: BTreeMap<String, GgufValue>,
    pub(super) tensors: BTreeMap<String, GgufTensor>,
}

impl Head {
    /// Reads the head of a file.
    pub(super) fn read(bytes: &dyn ReadAt) -> Result<Self, GgufError> {
        let mut cursor = Cursor::new(bytes);
        let mut head = Self {
            version: version(&mut cursor)?,
            ..Self::default()
        };
        let (tensors, entries) = (cursor.u64()?, cursor.u64()?);
        cursor.what = "the metadata".to_owned();
        // An entry has at least a key's length, a type and a byte of a value; a tensor has a name's length, a rank, a type and an offset.
        cursor.expect(entries, 8 + 4 + 1)?;
        cursor.expect(tensors, 8 + 4 + 4 + 8)?;
        for number in 0..entries {
            cursor.what = format!("metadata entry {number}");
            let key = cursor.name(MAX_KEY)?;
            cursor.what = quoted(&key);
            // Names of authors and licenses are shown at most; a token with other characters would be another token.
            cursor.latin = !key.starts_with("tokenizer.");
            let value = GgufValue::read(&mut cursor)?;
            insert(&mut head.metadata, key, value, "key")?;
        }
        let alignment = head.alignment()?;
        for number in 0..tensors {
            cursor.what = format!("tensor {number} of the table");
            let name = cursor.name(MAX_NAME)?;
            cursor.what = tensor(&name);
            let (info, what) = (GgufTensor::read(&mut cursor)?, "tensor");
            insert(&mut head.tensors, name, info, what)?;
        }
        head.place(cursor.at(), alignment, bytes.size())?;
        Ok(head)
    }

    /// Adds the tensors of another file of the model, whose bytes begin at `base`, and the metadata keys that are new.
    pub(super) fn add(&mut self, other: Self, base: u64) -> Result<(), GgufError> {
        self.version = self.version.max(other.version);
        for (key, value) in other.metadata {
            self.metadata.entry(key).or_insert(value);
        }
        for (name, mut info) in other.tensors {
            info.at = base + info.at.start..base + info.at.end;
            insert(&mut self.tensors, name, info, "tensor")?;
        }
        Ok(())
    }

    fn alignment(&self) -> Result<u64, GgufError> {
        let Some(value) = self.metadata.get(ALIGNMENT_KEY) else {
            return Ok(ALIGNMENT);
        };
        let alignment = value.as_size();
        let alignment = alignment.filter(|size| size.is_power_of_two() && *size <= 1 << 32);
        alignment.ok_or_else(|| {
            let expected = "a power of two of at most 2^32";
            GgufError::Metadata(Unfit::new(quoted(ALIGNMENT_KEY), expected, value.shown()))
        })
    }

    /// Turns the tensors' offsets in the data into offsets in the file, and checks that they are aligned, lie inside the file and don't
    /// overlap.
    fn place(&mut self, head: u64, alignment: u64, len: u64) -> Result<(), GgufError> {
        // These sums can't overflow: a head is short, and an alignment at most 2^32.
        let data = head.next_multiple_of(alignment);
        let room = len.saturating_sub(data);
        let wrong = |name: &str, expected: String, got: &Range<u64>| {
            GgufError::Offset(Unfit::new(tensor(name), expected, format!("{got:?}")))
        };
        for (name, info) in &mut self.tensors {
            if !info.at.start.is_multiple_of(alignment) {
                let expected = format!("data at a multiple of {alignment}");
                return Err(wrong(name, expected, &info.at));
            }
            if info.at.end > room {
                let expected = format!("bytes of the {room} of the file's data");
                let got = format!("{:?}: download it again", info.at);
                let fault = Unfit::new(tensor(name), expected, got);
                return Err(GgufError::Offset(fault));
            }
            info.at = data + info.at.start..data + info.at.end;
        }
        let mut all: Vec<_> = self.tensors.iter().collect();
        all.sort_by_key(|(_, info)| (info.at.start, info.at.end));
        for pair in all.windows(2) {
            let [(before, first), (name, second)] = pair else {
                continue;
            };
            if second.at.start < first.at.end {
                let expected = format!("bytes behind those of {}, {:?}", quoted(before), first.at);
                return Err(wrong(name, expected, &second.at));
            }
        }
        Ok(())
    }
}

fn version(cursor: &mut Cursor<'_>) -> Result<u32, GgufError> {
    let magic = cursor.array::<4>()?;
    if &magic != b"GGUF" {
        let got = quoted(&String::from_utf8_lossy(&magic));
        return Err(GgufError::Magic(got));
    }
    let version = cursor.u32()?;
    if [2, 3].contains(&version) {
        return Ok(version);
    }
    let got = match version.swap_bytes() {
        swapped @ 1..=3 => format!("{swapped} of the other order of bytes"),
        _ => version.to_string(),
    };
    let got = format!("{got}: convert the model again with llama.cpp's convert_hf_to_gguf.py");
    let expected = "2 or 3 with little-endian numbers";
    Err(GgufError::Version(Unfit::new("version", expected, got)))
}

fn insert<T>(
    map: &mut BTreeMap<String, T>,
    name: String,
    value: T,
    what: &str,
) -> Result<(), GgufError> {
    match map.entry(name) {
        Entry::Vacant(free) => {
            free.insert(value);
            Ok(())
        }
        Entry::Occupied(taken) => {
            let what = format!("{what} {}", quoted(taken.key()));
            Err(GgufError::Duplicate(Unfit::new(what, "once", "twice")))
        }
    }
}

impl GgufTensor {
    /// Reads an entry of the tensor table; its offset is relative to the beginning of the data.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, GgufError> {
        let wrong = |cursor: &Cursor<'_>, expected: &str, got: String| {
            GgufError::Tensor(Unfit::new(&cursor.what, expected, got))
        };
        let rank = cursor.u32()?;
        if rank > MAX_RANK {
            return Err(wrong(cursor, "at most 4 extents", rank.to_string()));
        }
        let mut shape = Vec::new();
        for _ in 0..rank {
            let extent = cursor.u64()?;
            let fits = usize::try_from(extent).ok();
            let expected = "extents that fit this machine";
            shape.push(fits.ok_or_else(|| wrong(cursor, expected, extent.to_string()))?);
        }
        let row = shape.first().copied().unwrap_or(1);
        shape.reverse();
        let number = cursor.u32()?;
        let kind = GgmlType::of(number).ok_or_else(|| {
            let decoded: Vec<_> = DECODED.iter().map(|kind| kind.name()).collect();
            let expected = format!("a type that is known, as {} are", decoded.join(", "));
            wrong(cursor, &expected, format!("type {number}"))
        })?;
        if !row.is_multiple_of(kind.values) {
            let expected = format!("rows of whole blocks of {} values of {kind}", kind.values);
            return Err(wrong(cursor, &expected, quoted_shape(&shape)));
        }
        let start = cursor.u64()?;
        let end = elements(&shape)
            .and_then(|values| kind.size(values))
            .and_then(|size| start.checked_add(size));
        let expected = "extents and a place that fit 64 bits";
        let end = end.ok_or_else(|| wrong(cursor, expected, quoted_shape(&shape)))?;
        let at = start..end;
        Ok(Self { kind, shape, at })
    }
}

/// The product of the extents; `None` where it overflows, even if an extent is 0, because callers multiply some of the extents again.
pub(super) fn elements(shape: &[usize]) -> Option<u64> {
    let extents = shape.iter().map(|&extent| extent as u64);
    let product = extents.clone();
    let product = product
        .map(|extent| extent.max(1))
        .try_fold(1_u64, u64::checked_mul)?;
    Some(if shape.contains(&0) { 0 } else { product })
}
