//! FP8: the codec, as packed words in ordinary integer tensors.

mod codec;

pub use codec::{decode, encode};
pub use moebius_shaders::fp8::{Fp8Format, Overflow};
pub use moebius_shaders::fp8::{decode_host, encode_host};
pub use moebius_shaders::scaling::{Granularity, ScaleType};
pub use moebius_shaders::scaling::{MX_BLOCK, e8m0_host, e8m0_value, scale_host};
