//! FP8: the codec, as packed words in ordinary integer tensors, and training.

mod codec;
pub mod training;

pub use codec::{decode, encode};
pub use moebius_shaders::fp8::{Fp8Format, Overflow};
pub use moebius_shaders::scaling::{Granularity, ScaleType};
