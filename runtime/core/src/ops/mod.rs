//! The only interface to Burn's backends (the seam): every operation of `moebius-ops`, on the device that holds its tensors.
//!
//! A call is the description of an operation, with its operands and, on CubeCL devices, its planned kernels. It goes through
//! [`call::Operations`], which each backend implements once, in the file of its name; ARCHITECTURE.md lists these files.
//!
//! Each family of operations is a module. Its functions take ordinary tensors, check them, plan the kernels and make the call; its module
//! `flex` turns Flex's tensors into slices for the family's module of `moebius-host`. Capacities and hash routing run the references of the
//! kernels.
//!
//! All functions refuse sizes and dtypes that their operation doesn't take ([`ErrorKind::Shape`](crate::ErrorKind::Shape)), and operations
//! that the device can't run ([`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)).

pub(crate) mod attention;
mod call;
pub(crate) mod exact;
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
