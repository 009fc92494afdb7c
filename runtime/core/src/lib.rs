//! Mixture-of-experts layers and FP8 for Burn, on every device that Burn and CubeCL reach.
//!
//! ```no_run
//! use burn::tensor::{Distribution, Tensor};
//! use moebius::Device;
//! use moebius::moe::{Activation, MoeConfig};
//!
//! # fn main() -> Result<(), moebius::Error> {
//! let device = moebius::open(&Device::Auto)?;
//! let layer = MoeConfig::new(512, 2048, 8).with_activation(Activation::Silu).init(&device)?;
//! let x = Tensor::<3>::random([4, 128, 512], Distribution::Default, &device);
//! let out = layer.forward(x)?;
//! assert_eq!(out.y.dims(), [4, 128, 512]);
//! # Ok(())
//! # }
//! ```

/// The examples of the documentation, compiled and run with the other doc tests.
#[cfg(all(doctest, feature = "flex"))]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide.md")]
    struct Guide;
    #[doc = include_str!("../../../docs/fp8.md")]
    struct Fp8;
    #[doc = include_str!("../../../docs/operation.md")]
    struct Operation;
    #[cfg(feature = "xla")]
    #[doc = include_str!("../../../docs/xla.md")]
    struct Xla;
}

/// Defines methods of a configuration that return a copy with another value of a field.
macro_rules! setters {
    ($of:ident: $($(#[$documented:meta])* $setter:ident: $field:ident: $type:ty,)*) => {
        impl $of {
            $($(#[$documented])* pub fn $setter(self, $field: $type) -> Self { Self { $field, ..self } })*
        }
    };
}

pub mod attention;
pub mod blocks;
mod check;
mod device;
mod error;
pub mod exact;
pub mod fp8;
mod large_pages;
pub mod moe;
pub mod nn;
pub mod operation;
mod ops;
pub mod pad;
mod parameters;
pub mod reduce;
mod spans;
pub mod sparse;
#[cfg(feature = "xla")]
mod xla;

pub use device::{
    Memory, check_dtype, check_experts, discover, discover_on, join, keep_pace, largest_buffer,
    memory, memory_free, memory_in_use, memory_in_use_async, on, on_workers, open, open_placed,
    release_memory,
};
pub use error::{Error, ErrorKind};
pub use large_pages::{Room, in_large_pages};
pub use moebius_device::{Capability, Device, Placement, PlacementError};
pub use spans::in_span;
