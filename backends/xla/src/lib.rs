//! XLA through PJRT: the same models on TPUs and on whatever else has a PJRT plugin, without Python.
//!
//! | module | what it is |
//! |---|---|
//! | [`stablehlo`] | programs as text: a builder with typed values |
//! | [`custom`] | Moebius's own operations in it |
//! | [`lower`] | Burn's operations in it |
//! | [`pjrt`] | plugins: devices, buffers, compiled programs |

pub mod custom;
mod element;
pub mod lower;
pub mod pjrt;
mod record;
pub mod stablehlo;

pub use element::ElementType;
pub use record::{dtype, element, record};
