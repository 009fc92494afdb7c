//! Values of metadata.

use super::cursor::Cursor;
use crate::error::GgufError;
use crate::fault::{Unfit, quoted};

/// Lists within lists; published files have none.
const MAX_DEPTH: usize = 4;

/// Numbers of the types of values.
const TEXT: u32 = 8;
const LIST: u32 = 9;

/// A value of metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum GgufValue {
    /// Of 8 to 64 bits.
    Unsigned(u64),
    /// Of 8 to 64 bits.
    Signed(i64),
    /// Of 32 bits.
    Single(f32),
    /// Of 64 bits.
    Double(f64),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
    /// A list of texts.
    Texts(GgufTexts),
    /// A list of numbers or flags.
    Numbers(GgufNumbers),
    /// A list of lists.
    Lists(Vec<GgufValue>),
}

/// Texts end to end, which take no more memory than in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GgufTexts {
    text: String,
    ends: Vec<usize>,
}

/// Numbers or flags of one type, as they lie in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufNumbers {
    kind: Scalar,
    bytes: Vec<u8>,
}

/// A type of numbers, or that of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scalar {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Flag,
    U64,
    I64,
    F64,
}

impl Scalar {
    fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Flag,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return None,
        })
    }

    fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Flag => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The value of `bytes`, which are [`Self::size`] many.
    fn value(self, bytes: &[u8]) -> GgufValue {
        // Widened with the sign, where the type has one.
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let unsigned = u64::from_le_bytes(wide);
        let unused = 64 - 8 * bytes.len() as u32;
        let signed = (unsigned << unused) as i64 >> unused;
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => GgufValue::Unsigned(unsigned),
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => GgufValue::Signed(signed),
            Self::F32 => GgufValue::Single(f32::from_bits(unsigned as u32)),
            Self::F64 => GgufValue::Double(f64::from_bits(unsigned)),
            Self::Flag => GgufValue::Flag(unsigned != 0),
        }
    }
}

impl GgufTexts {
    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins
            .zip(&self.ends)
            .map(|(from, &to)| &self.text[from..to])
    }

    fn read(cursor: &mut Cursor<'_>, count: u64) -> Result<Self, GgufError> {
        // Of each there is at least the length.
        cursor.expect(count, 8)?;
        let mut texts = Self {
            text: String::new(),
            ends: Vec::with_capacity(count as usize),
        };
        for _ in 0..count {
            texts.text.push_str(&cursor.text()?);
            texts.ends.push(texts.text.len());
        }
        Ok(texts)
    }
}

impl GgufNumbers {
    /// How many.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.kind.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = GgufValue> {
        let each = self.bytes.chunks_exact(self.kind.size());
        each.map(|bytes| self.kind.value(bytes))
    }
}

impl GgufValue {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, GgufError> {
        let kind = cursor.u32()?;
        Self::of_type(cursor, kind, 0)
    }

    fn of_type(cursor: &mut Cursor<'_>, kind: u32, depth: usize) -> Result<Self, GgufError> {
        match kind {
            TEXT => Ok(Self::Text(cursor.text()?)),
            LIST if depth < MAX_DEPTH => Self::list(cursor, depth + 1),
            LIST => {
                let expected = format!("lists within lists to a depth of {MAX_DEPTH}");
                let fault = Unfit::new(&cursor.what, expected, "a deeper one");
                Err(GgufError::Metadata(fault))
            }
            _ => {
                let kind = scalar(cursor, kind)?;
                let bytes = cursor.bytes(kind.size() as u64)?;
                check_flags(cursor, kind, &bytes)?;
                Ok(kind.value(&bytes))
            }
        }
    }

    fn list(cursor: &mut Cursor<'_>, depth: usize) -> Result<Self, GgufError> {
        let kind = cursor.u32()?;
        let count = cursor.u64()?;
        match kind {
            TEXT => Ok(Self::Texts(GgufTexts::read(cursor, count)?)),
            LIST => {
                // A type and a length each.
                cursor.expect(count, 12)?;
                let lists = (0..count).map(|_| Self::of_type(cursor, LIST, depth));
                Ok(Self::Lists(lists.collect::<Result<_, _>>()?))
            }
            _ => {
                let kind = scalar(cursor, kind)?;
                cursor.expect(count, kind.size() as u64)?;
                let bytes = cursor.bytes(count * kind.size() as u64)?;
                check_flags(cursor, kind, &bytes)?;
                Ok(Self::Numbers(GgufNumbers { kind, bytes }))
            }
        }
    }

    /// A whole number that isn't negative.
    pub fn as_size(&self) -> Option<u64> {
        match self {
            Self::Unsigned(value) => Some(*value),
            Self::Signed(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// A number; one of 32 bits is the decimal that it is written as, so that `1e-6` is that of 64 bits.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Unsigned(value) => Some(*value as f64),
            Self::Signed(value) => Some(*value as f64),
            Self::Single(value) => value.to_string().parse().ok(),
            Self::Double(value) => Some(*value),
            _ => None,
        }
    }

    /// A text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// For an error: a value, or what a list holds.
    pub fn shown(&self) -> String {
        match self {
            Self::Unsigned(value) => value.to_string(),
            Self::Signed(value) => value.to_string(),
            Self::Single(value) => value.to_string(),
            Self::Double(value) => value.to_string(),
            Self::Flag(value) => value.to_string(),
            Self::Text(text) => quoted(text),
            Self::Texts(texts) => format!("a list of {} texts", texts.len()),
            Self::Numbers(numbers) => format!("a list of {} numbers", numbers.len()),
            Self::Lists(lists) => format!("a list of {} lists", lists.len()),
        }
    }
}

fn scalar(cursor: &Cursor<'_>, kind: u32) -> Result<Scalar, GgufError> {
    Scalar::of(kind).ok_or_else(|| {
        let expected = "a type of values from 0 to 12";
        GgufError::Metadata(Unfit::new(&cursor.what, expected, kind))
    })
}

fn check_flags(cursor: &Cursor<'_>, kind: Scalar, bytes: &[u8]) -> Result<(), GgufError> {
    let bad = bytes.iter().find(|&&byte| byte > 1);
    match bad {
        Some(byte) if kind == Scalar::Flag => {
            let fault = Unfit::new(&cursor.what, "0 or 1 for false or true", byte);
            Err(GgufError::Metadata(fault))
        }
        _ => Ok(()),
    }
}
