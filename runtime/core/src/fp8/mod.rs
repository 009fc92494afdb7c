//! FP8: the codec as packed words in ordinary integer tensors, tensors of codes with scales, and
//! training.

mod activations;
mod codec;
mod convert;
mod engine;
mod instructions;
mod linear;
mod matrices;
mod quantizer;
mod tensor;
pub mod training;

pub use activations::{ActivationScaling, Activations};
pub use codec::{decode, encode};
pub(crate) use convert::relative_error;
pub use convert::{
    ConversionReport, Fp8Conversion, Fp8Layer, Fp8Module, Fp8Visitor, LayerReport, Linear,
};
pub use engine::{InferenceEngine, MemoryReport};
pub use linear::Fp8Linear;
pub(crate) use linear::{check_inference, inner};
pub use matrices::Fp8Matrices;
pub use moebius_shaders::fp8::{Fp8Format, Overflow};
pub use moebius_shaders::fp8::{decode_host, encode_host};
pub use moebius_shaders::scaling::{Granularity, ScaleType};
pub use moebius_shaders::scaling::{MX_BLOCK, e8m0_host, e8m0_value, scale_host};
pub use quantizer::{Quantizer, amax, fake_quantize};
pub use tensor::{Fp8Layout, Fp8Scales, Fp8Tensor, HostScales};
