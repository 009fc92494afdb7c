//! The same bits on every device: a forward pass of products and sums in f32 in a fixed order, without contraction, with functions of our own
//! ([`moebius_ops::exact`] says how, and what is left to a device).
//!
//! A model computes this way where it is asked to (`Model::with_exact` of `moebius-model`); it takes longer, because each result is one unit's
//! work. There are no gradients, and nothing runs on XLA.
//!
//! ```
//! use burn::tensor::{Distribution, Tensor};
//! use moebius::exact::{self, Function};
//!
//! # fn main() -> Result<(), moebius::Error> {
//! # #[cfg(feature = "flex")] {
//! let device = moebius::open(&moebius::Device::Flex)?;
//! let x = Tensor::<2>::random([3, 64], Distribution::Default, &device);
//! let w = Tensor::<2>::random([16, 64], Distribution::Default, &device);
//! let y = exact::map(Function::Sigmoid, exact::linear(x, w, None)?)?;
//! assert_eq!(y.dims(), [3, 16]);
//! # }
//! # Ok(())
//! # }
//! ```

pub use crate::ops::exact::{Function, activation, combine, linear, map, rms_norm, rotate};
