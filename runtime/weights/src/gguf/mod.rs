//! Reads and writes GGUF files: metadata, and tensors whose values are decoded while they are read, and encoded while they are written.
//!
//! [`GgufFile::open`] reads everything before the data, and checks every length and offset in it against the file. [`GgufWriter`] writes a
//! file tensor by tensor, in blocks that [`encode`] makes. The layout and the formats are those of ggml (its `docs/gguf.md`): versions 2 and
//! 3 are read, version 3 is written.

mod element;
mod encode;
mod file;
mod head;
mod value;
mod vocabulary;
mod writer;

pub use crate::error::GgufError;
pub use element::{DECODED, GgmlType};
pub use encode::{ENCODED, encode};
pub use file::{GgufFile, expected_types};
pub use head::GgufTensor;
pub use value::{GgufNumbers, GgufTexts, GgufValue};
pub use vocabulary::Vocabulary;
pub use writer::{GgufSpec, GgufWriter, GgufWritten};
