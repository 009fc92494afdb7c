//! FP8: codes and scales, weights in any precision, and training.
//!
//! | task | items |
//! |---|---|
//! | values as codes, and back | [`encode`], [`decode`], [`fake_quantize`], [`Fp8Tensor`] |
//! | the weights of layers | [`Weight`], in any [`Precision`] |
//! | low-rank changes of weights that stay as they are, codes too | [`LowRank`], which [`Weight::with_changes`] attaches |
//! | inference with a whole model | [`Fp8Conversion`], [`InferenceEngine`] |
//! | training | [`training`] |
//!
//! E4M3 is the variant without infinities (`fn`) and with a negative zero (not `fnuz`). Decoding multiplies a code by its scale, as
//! `weight_scale_inv` of published checkpoints does.

mod activations;
mod convert;
mod engine;
mod low_rank;
mod matrices;
mod product;
mod scales;
mod tensor;
pub mod training;
mod weight;

pub use crate::ops::quantize::{amax, decode, encode};
pub use activations::{ActivationScaling, Activations};
pub use convert::{ConversionReport, Fp8Conversion, LayerReport, LeftOut};
pub(crate) use convert::{FROZEN_EXPERTS, SHARED_EXPERT, container, known_container, same_name};
pub use engine::{InferenceEngine, MemoryReport};
pub use low_rank::LowRank;
pub(crate) use low_rank::changed;
pub(crate) use matrices::Codes;
pub use matrices::{Fp8Matrices, Instructions};
pub use moebius_ops::fp8::{Fp8Format, Overflow, decode_host, encode_host};
pub use moebius_ops::matches_pattern;
pub use moebius_ops::quantize::{LEAST_SQUARES_TRIED, Quantizer, ScaleRule, least_squares_factors};
pub use moebius_ops::scaling::{
    Fp8Scheme, Granularity, HostScales, MX_BLOCK, ScaleType, e8m0_host, e8m0_value, scale_host,
};
pub use scales::{Fp8Layout, Fp8Scales, fake_quantize};
pub use tensor::Fp8Tensor;
pub(crate) use weight::Operand;
pub use weight::{Precision, Weight};
