//! Values of metadata, as they are read and written, and the cursor that reads the head of a file in order, in pieces, and allocates no
//! memory for more than the file can hold.

use crate::error::{GgufError, Unfit, quoted};
use crate::source::ReadAt;

/// Largest depth of lists within lists; published files have none.
const MAX_DEPTH: usize = 4;

/// Type numbers of texts and lists in a file.
const TEXT: u32 = 8;
const LIST: u32 = 9;

/// A value of metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum GgufValue {
    /// An unsigned integer of 8 to 64 bits.
    Unsigned(u64),
    /// A signed integer of 8 to 64 bits.
    Signed(i64),
    /// A floating-point number of 32 bits.
    Single(f32),
    /// A floating-point number of 64 bits.
    Double(f64),
    /// A flag: true or false.
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

/// A list of texts, stored end to end in as much memory as in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GgufTexts {
    text: String,
    ends: Vec<usize>,
}

/// A list of numbers or flags of one type, stored as in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufNumbers {
    kind: Scalar,
    bytes: Vec<u8>,
}

/// Type of a number, or of a flag.
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

    /// The type's number in a file.
    fn number(self) -> u32 {
        let mut numbers = 0..=12;
        let own = numbers.find(|&number| Self::of(number) == Some(self));
        own.unwrap_or_else(|| unreachable!("every type has a number"))
    }

    fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Flag => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The value in `bytes`, whose length is [`Self::size`].
    fn value(self, bytes: &[u8]) -> GgufValue {
        // The bytes are extended with the sign, where the type has one.
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
    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The texts in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins
            .zip(&self.ends)
            .map(|(from, &to)| &self.text[from..to])
    }

    fn push(&self, out: &mut Vec<u8>) {
        for text in self.iter() {
            push_text(text, out);
        }
    }

    fn read(cursor: &mut Cursor<'_>, count: u64) -> Result<Self, GgufError> {
        // Each text has at least a length field of 8 bytes.
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

impl<T: AsRef<str>> FromIterator<T> for GgufTexts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut all = Self::default();
        for text in texts {
            all.text.push_str(text.as_ref());
            all.ends.push(all.text.len());
        }
        all
    }
}

impl From<&[i32]> for GgufNumbers {
    fn from(numbers: &[i32]) -> Self {
        Self {
            kind: Scalar::I32,
            bytes: numbers.iter().flat_map(|of| of.to_le_bytes()).collect(),
        }
    }
}

impl From<&[f32]> for GgufNumbers {
    fn from(numbers: &[f32]) -> Self {
        Self {
            kind: Scalar::F32,
            bytes: numbers.iter().flat_map(|of| of.to_le_bytes()).collect(),
        }
    }
}

impl GgufNumbers {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.kind.size()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The elements in order.
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
                // Each inner list has at least a type and a length, 12 bytes.
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

    /// Appends the value behind the number of its type. An integer has 32 bits where they are enough.
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        let number = |kind: Scalar, bytes: &[u8], out: &mut Vec<u8>| {
            out.extend(kind.number().to_le_bytes());
            out.extend(bytes);
        };
        match self {
            Self::Unsigned(wide) => match u32::try_from(*wide) {
                Ok(narrow) => number(Scalar::U32, &narrow.to_le_bytes(), out),
                Err(_) => number(Scalar::U64, &wide.to_le_bytes(), out),
            },
            Self::Signed(wide) => match i32::try_from(*wide) {
                Ok(narrow) => number(Scalar::I32, &narrow.to_le_bytes(), out),
                Err(_) => number(Scalar::I64, &wide.to_le_bytes(), out),
            },
            Self::Single(value) => number(Scalar::F32, &value.to_le_bytes(), out),
            Self::Double(value) => number(Scalar::F64, &value.to_le_bytes(), out),
            Self::Flag(flag) => number(Scalar::Flag, &[u8::from(*flag)], out),
            Self::Text(text) => {
                out.extend(TEXT.to_le_bytes());
                push_text(text, out);
            }
            Self::Texts(_) | Self::Numbers(_) | Self::Lists(_) => {
                out.extend(LIST.to_le_bytes());
                self.push_list(out);
            }
        }
    }

    /// Appends a list: the type of its elements, their number, and the elements.
    fn push_list(&self, out: &mut Vec<u8>) {
        let (kind, count) = match self {
            Self::Texts(texts) => (TEXT, texts.len()),
            Self::Numbers(numbers) => (numbers.kind.number(), numbers.len()),
            Self::Lists(lists) => (LIST, lists.len()),
            _ => return,
        };
        out.extend(kind.to_le_bytes());
        out.extend((count as u64).to_le_bytes());
        match self {
            Self::Texts(texts) => texts.push(out),
            Self::Numbers(numbers) => out.extend(&numbers.bytes),
            Self::Lists(lists) => lists.iter().for_each(|list| list.push_list(out)),
            _ => {}
        }
    }

    /// The value as a size, if it is an integer that isn't negative.
    pub fn as_size(&self) -> Option<u64> {
        match self {
            Self::Unsigned(value) => Some(*value),
            Self::Signed(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The value as a number. A 32-bit number is converted by its decimal form, so that `1e-6` becomes the 64-bit `1e-6`.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Unsigned(value) => Some(*value as f64),
            Self::Signed(value) => Some(*value as f64),
            Self::Single(value) => value.to_string().parse().ok(),
            Self::Double(value) => Some(*value),
            _ => None,
        }
    }

    /// The value as a text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value for an error message; for a list, a description of what it holds.
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

/// Appends a text behind its length.
pub(super) fn push_text(text: &str, out: &mut Vec<u8>) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
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

/// Bytes that are read from the file at a time.
const PIECE: u64 = 256 * 1024;

/// Largest size of metadata and tensor table together, in bytes. Those of published models have some MB, nearly all of it the vocabulary.
const MAX_HEAD: u64 = 64 * 1024 * 1024;

/// A cursor that reads a file in order.
pub(super) struct Cursor<'a> {
    bytes: &'a dyn ReadAt,
    /// Length of the file in bytes.
    len: u64,
    at: u64,
    /// Buffered bytes of the file, of which those from `from` on are still unread.
    piece: Vec<u8>,
    from: usize,
    /// What is being read, for the beginning of errors.
    pub(super) what: String,
    /// Whether values that aren't UTF-8 are read as Latin-1.
    pub(super) latin: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a dyn ReadAt) -> Self {
        Self {
            bytes,
            len: bytes.size(),
            at: 0,
            piece: Vec::new(),
            from: 0,
            what: "the header".to_owned(),
            latin: false,
        }
    }

    /// Offset in the file: the number of bytes before the cursor.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Checks that the file has room for `count` more items of at least `size` bytes each.
    pub(super) fn expect(&self, count: u64, size: u64) -> Result<(), GgufError> {
        let (needs, left) = (count.saturating_mul(size), self.len - self.at);
        if needs > left {
            let what = self.what.clone();
            return Err(GgufError::Truncated { what, needs, left });
        }
        if self.at + needs > MAX_HEAD {
            let (max, what) = (MAX_HEAD, self.what.clone());
            return Err(GgufError::TooLarge { max, what });
        }
        Ok(())
    }

    pub(super) fn fill(&mut self, mut out: &mut [u8]) -> Result<(), GgufError> {
        self.expect(out.len() as u64, 1)?;
        while !out.is_empty() {
            if self.from == self.piece.len() {
                self.piece.resize(PIECE.min(self.len - self.at) as usize, 0);
                let read = self.bytes.read_at(self.at, &mut self.piece);
                read.map_err(GgufError::Read)?;
                self.from = 0;
            }
            let there = &self.piece[self.from..];
            let (now, later) = out.split_at_mut(there.len().min(out.len()));
            now.copy_from_slice(&there[..now.len()]);
            self.from += now.len();
            self.at += now.len() as u64;
            out = later;
        }
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut out = [0; N];
        self.fill(&mut out)?;
        Ok(out)
    }

    pub(super) fn u32(&mut self) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads `count` bytes, and allocates them only if the file has as many.
    pub(super) fn bytes(&mut self, count: u64) -> Result<Vec<u8>, GgufError> {
        self.expect(count, 1)?;
        let mut out = vec![0; count as usize];
        self.fill(&mut out)?;
        Ok(out)
    }

    /// Reads a text after its length.
    pub(super) fn text(&mut self) -> Result<String, GgufError> {
        let len = self.u64()?;
        let bytes = self.bytes(len)?;
        if self.latin && std::str::from_utf8(&bytes).is_err() {
            return Ok(bytes.into_iter().map(char::from).collect());
        }
        self.characters(bytes)
    }

    /// Reads a name of at most `max` bytes after its length; the limit keeps errors that compare names short.
    pub(super) fn name(&mut self, max: u64) -> Result<String, GgufError> {
        let len = self.u64()?;
        // A length beyond the end of the file is reported as truncation.
        self.expect(len, 1)?;
        if len > max {
            let expected = format!("a name of at most {max} bytes");
            return Err(GgufError::Name(Unfit::new(&self.what, expected, len)));
        }
        let bytes = self.bytes(len)?;
        self.characters(bytes)
    }

    fn characters(&self, bytes: Vec<u8>) -> Result<String, GgufError> {
        String::from_utf8(bytes).map_err(|error| GgufError::NotUtf8 {
            what: self.what.clone(),
            valid_up_to: error.utf8_error().valid_up_to(),
        })
    }
}
