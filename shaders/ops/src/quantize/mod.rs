//! FP8 quantisation: codes and scales of a stack of matrices, and back.
//!
//! code = encode(x / scale), y = decode(code) · scale, where a block of values shares a scale that
//! follows from its largest finite magnitude ([`crate::scaling`]) or is given. Quotients of f32
//! scales are divisions, as exact as the target's; those of E8M0 scales are exact. NaN and
//! infinities are encoded as such ([`crate::fp8::Overflow`]).
//!
//! Shapes: x and y \[M, rows, columns\] of the element type, words u32 \[M, rows, ⌈columns/4⌉\] where
//! every row is padded with zero codes, scales f32 \[M, down, across\] or words of four E8M0 bytes
//! \[M, rows, ⌈across/4⌉\], padded with zeros ([`scale_shape`](crate::scaling::Granularity::scale_shape)). Blocks end at the edges
//! of their matrix. Given scales are positive and finite; others, and f32 scales below 2⁻¹²⁶,
//! make codes or values that no contract covers. A value below 2⁻¹²⁶ counts as 0 in a quotient on
//! a device that flushes subnormals, though not in the largest magnitude. Bytes: x once
//! or twice, a quarter of f32 for the words.
//!
//! [`quantize_host`] quantises matrices on the host; functions that end in `_reference` are the oracle.

mod host;
mod least_squares;
mod oracle;
mod problem;
mod quantizer;

pub use host::{Blocks, Quantized, amax_host, decoded_codes, quantize_host};
pub use least_squares::{LEAST_SQUARES_TRIED, least_squares_factors};
pub use oracle::{
    Scales, amax_reference, dequantize_reference, encode_reference, scales_reference,
};
pub use problem::{AmaxProblem, MARGIN_MAX, Problem, check_granularity, check_margin};
pub use quantizer::{Quantizer, ScaleRule};
