//! FP8: the codec as packed words in ordinary integer tensors, and tensors of codes with scales.

mod activations;
mod codec;
mod linear;
mod matrices;
mod quantizer;
mod tensor;

pub use activations::{ActivationScaling, Activations};
pub use codec::{decode, encode};
pub use linear::Fp8Linear;
pub use matrices::Fp8Matrices;
pub use moebius_shaders::fp8::{Fp8Format, Overflow};
pub use moebius_shaders::scaling::{Granularity, ScaleType};
pub use quantizer::{Quantizer, amax, fake_quantize};
pub use tensor::{Fp8Layout, Fp8Scales, Fp8Tensor, HostScales};
