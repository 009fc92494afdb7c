//! Reads GGUF files: metadata, and tensors whose values are decoded while they are read.
//!
//! [`GgufFile::open`] reads everything before the data, and checks every length and offset in it against the file. The layout and the
//! formats are those of ggml (its `docs/gguf.md`), versions 2 and 3.

mod element;
mod file;
mod head;
mod value;

pub use crate::error::GgufError;
pub use element::{DECODED, GgmlType};
pub use file::{GgufFile, Vocabulary, expected_types};
pub use head::GgufTensor;
pub use value::{GgufNumbers, GgufTexts, GgufValue};
