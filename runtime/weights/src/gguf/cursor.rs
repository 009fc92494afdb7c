//! Reads the head of a file in order, a piece at a time, and gives no room for what the file can't hold.

use crate::bytes::ReadAt;
use crate::error::GgufError;
use crate::fault::Unfit;

/// Bytes that are fetched at a time.
const PIECE: u64 = 256 * 1024;

/// Bytes of metadata and tensor table together. Those of published models are some MB, nearly all of it the vocabulary.
const MAX_HEAD: u64 = 64 * 1024 * 1024;

/// A place in a file.
pub(super) struct Cursor<'a> {
    bytes: &'a dyn ReadAt,
    /// Bytes of the file.
    len: u64,
    at: u64,
    /// Bytes of the file that end `piece.len() − from` bytes behind `at`.
    piece: Vec<u8>,
    from: usize,
    /// What is read now, as errors begin.
    pub(super) what: String,
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
        }
    }

    /// Bytes before it.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// That `count` things of at least `size` bytes each can still come.
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

    /// So many bytes, which the file has.
    pub(super) fn bytes(&mut self, count: u64) -> Result<Vec<u8>, GgufError> {
        self.expect(count, 1)?;
        let mut out = vec![0; count as usize];
        self.fill(&mut out)?;
        Ok(out)
    }

    /// A text behind its length.
    pub(super) fn text(&mut self) -> Result<String, GgufError> {
        let len = self.u64()?;
        self.characters(len)
    }

    /// The same of at most `max` bytes: names are compared with each other in errors.
    pub(super) fn name(&mut self, max: u64) -> Result<String, GgufError> {
        let len = self.u64()?;
        // What the file doesn't even hold is truncated.
        self.expect(len, 1)?;
        if len > max {
            let expected = format!("a name of at most {max} bytes");
            return Err(GgufError::Name(Unfit::new(&self.what, expected, len)));
        }
        self.characters(len)
    }

    fn characters(&mut self, len: u64) -> Result<String, GgufError> {
        let bytes = self.bytes(len)?;
        String::from_utf8(bytes).map_err(|error| GgufError::NotUtf8 {
            what: self.what.clone(),
            valid_up_to: error.utf8_error().valid_up_to(),
        })
    }
}
