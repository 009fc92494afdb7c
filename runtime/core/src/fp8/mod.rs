//! FP8: the codec as packed words in ordinary integer tensors, tensors of codes with scales, and
//! training.

mod codec;
mod quantizer;
mod tensor;
pub mod training;

pub use codec::{decode, encode};
pub use moebius_shaders::fp8::{Fp8Format, Overflow};
pub use moebius_shaders::scaling::{Granularity, ScaleType};
pub use quantizer::{Quantizer, amax, fake_quantize};
pub use tensor::{Fp8Layout, Fp8Scales, Fp8Tensor, HostScales};
