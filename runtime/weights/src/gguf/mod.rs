//! Reads GGUF files: metadata, and tensors whose values are decoded while they are read; and encodes values in the types of such files.
//!
//! [`GgufFile::open`] reads everything before the data, and checks every length and offset in it against the file. [`encode`] makes the
//! blocks of a tensor. The layout and the formats are those of ggml (its `docs/gguf.md`), versions 2 and 3.

mod element;
mod encode;
mod file;
mod head;
mod value;

pub use crate::error::GgufError;
pub use element::{DECODED, GgmlType};
pub use encode::{ENCODED, encode};
pub use file::{GgufFile, Vocabulary, expected_types};
pub use head::GgufTensor;
pub use value::{GgufNumbers, GgufTexts, GgufValue};
