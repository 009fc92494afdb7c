//! FP8: codes and scales, layers whose weights are kept so, and training.
//!
//! | for | there is |
//! |---|---|
//! | values as codes, and back | [`encode`], [`decode`], [`fake_quantize`], [`Fp8Tensor`] |
//! | a linear layer, experts | [`Fp8Linear`], [`Fp8Experts`](crate::moe::experts::Fp8Experts) |
//! | a whole model | [`Linear`], [`fp8_module!`](crate::fp8_module), [`Fp8Conversion`], [`InferenceEngine`] |
//! | training | [`training`] |
//!
//! E4M3 is the variant without infinities (`fn`), never the one without a negative zero. A scale
//! multiplies when a code is decoded, as `weight_scale_inv` of published checkpoints does.

mod activations;
mod codec;
mod convert;
mod engine;
mod host_scales;
mod instructions;
mod linear;
mod matrices;
mod pattern;
mod quantizer;
mod tensor;
pub mod training;

pub use activations::{ActivationScaling, Activations};
pub use codec::{decode, encode};
pub use convert::{
    ConversionReport, Converted, Fp8Conversion, Fp8Layer, Fp8Module, Fp8Visitor, LayerReport,
    Linear,
};
pub use engine::{InferenceEngine, MemoryReport};
pub use host_scales::HostScales;
pub use linear::Fp8Linear;
pub(crate) use linear::{check_inference, inner};
pub use matrices::Fp8Matrices;
pub use moebius_ops::fp8::{Fp8Format, Overflow, decode_host, encode_host};
pub use moebius_ops::scaling::{
    Granularity, MX_BLOCK, ScaleType, e8m0_host, e8m0_value, scale_host,
};
pub use pattern::matches_pattern;
pub use quantizer::{Quantizer, amax, fake_quantize};
pub use tensor::{Fp8Layout, Fp8Scales, Fp8Tensor};
