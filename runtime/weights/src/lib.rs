//! Weights in safetensors files: read and written one tensor at a time, and converted to FP8. [`gguf`] reads and writes weights in GGUF
//! files, and [`package`] protects all files of a model by their SHA-256.
//!
//! [`Reader`] opens a file, a checkpoint of several files with an index, or a folder that holds either, and reads nothing but headers.
//! [`Reader::fp8_layouts`] pairs FP8 codes with their scales, under any common naming and with any block size. [`Writer`] puts tensors in
//! files that Hugging Face's loaders read. [`convert`] does both: it reads a checkpoint and writes FP8, in the memory of one matrix.
//!
//! ```no_run
//! use moebius_ops::fp8::Fp8Format;
//! use moebius_ops::scaling::{Fp8Scheme, Granularity};
//! use moebius_weights::{ConvertOptions, Reader, convert, host_quantizer};
//!
//! # fn main() -> Result<(), moebius_weights::WeightsError> {
//! let scheme = Fp8Scheme { format: Fp8Format::E4M3, granularity: Granularity::Row };
//! let source = Reader::open("model".as_ref())?;
//! let options = ConvertOptions::new(scheme);
//! let (mut quantize, mut progress) = (host_quantizer(scheme), |_: &str, _, _| ());
//! let report = convert(&source, "model-fp8".as_ref(), &options, &mut quantize, &mut progress)?;
//! println!("{} of {} bytes", report.bytes_after, report.bytes_before);
//! # Ok(())
//! # }
//! ```
//!
//! # Names and shapes
//!
//! A weight W of \[n, k\], or \[experts, n, k\], has its scales in
//!
//! | granularity | scales | dtype |
//! |---|---|---|
//! | block r × c | `W_scale_inv` \[⌈n/r⌉, ⌈k/c⌉\] | F32 |
//! | row | `W_scale` \[n, 1\] | F32 |
//! | tensor | `W_scale` \[1\] | F32 |
//! | MX | `W_scale` \[n, ⌈k/32⌉\] | U8 (E8M0) |
//!
//! with the experts in front (a scale per expert is \[experts, 1, 1\]). W ends in `.weight` as a rule, so this reads `X.weight_scale_inv`.
//! Decoding multiplies a code by its scale, also by one called `inv`. [`convert`] writes only these names; for the names that can be read,
//! see [`Reader::fp8_layout`].

mod convert;
mod error;
pub mod folder;
mod foreign;
mod fp8;
pub mod gguf;
pub mod header;
mod json;
mod located;
pub mod package;
mod packed;
mod reader;
mod scales;
mod source;
mod threads;
mod values;
mod widen;
mod writer;

pub use convert::{
    Action, ConvertOptions, ConvertReport, ConvertedLayer, DEFAULT_SKIPS, Quantize, QuantizeError,
    convert, host_quantizer,
};
pub use error::{InFile, Unfit, WeightsError, quoted};
pub use fp8::{Fp8Weight, StoredFp8, Unscaled};
pub use json::python_json;
pub use reader::Reader;
pub use safetensors::Dtype;
pub use source::{CONFIG_FILE, LFS_POINTER, ReadAt, TensorInfo};
pub use threads::on_threads;
pub use writer::{SHARD_BYTES, TensorSpec, Writer, file_bytes};
