//! The one seam to Burn: every operation of `moebius-ops` on whatever device holds its tensors.
//!
//! A call is the description of an operation, its operands, and on CubeCL devices its kernels as they were planned. It goes
//! through [`call::Operations`], which each backend implements once, in the file of its name; ARCHITECTURE.md lists them.
//!
//! A family is a module: it has functions of ordinary tensors, which check, plan the kernels and call; its module `flex` makes
//! slices of Flex's tensors for the family's module of `moebius-host`. Capacities and hash routing are the kernels' references.
//!
//! What a function refuses: sizes and dtypes that its operation doesn't take ([`ErrorKind::Shape`](crate::ErrorKind::Shape)),
//! and what the device can't run ([`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)).

pub(crate) mod attention;
mod call;
pub(crate) mod experts;
pub(crate) mod fp8_training;
pub(crate) mod fused;
pub(crate) mod grouped_gemm;
pub(crate) mod kv_cache;
pub(crate) mod permute;
pub(crate) mod quantize;
pub(crate) mod routing;
pub(crate) mod segment_attention;
mod tensors;

#[cfg(feature = "autodiff")]
mod autodiff;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "fusion")]
mod fusion;
#[cfg(feature = "flex")]
mod host;
#[cfg(feature = "xla")]
mod xla;

pub(crate) use call::Request;
pub(crate) use experts::{FeedForward, Run, StageClock};
pub(crate) use grouped_gemm::Rows;
pub(crate) use permute::{Assignment, CapacityRule, Sorted};
pub(crate) use tensors::{DeviceValue, dtype};
