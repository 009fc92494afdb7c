//! XLA through PJRT: the same models on TPUs and on whatever else has a PJRT plugin, without Python.
//!
//! | module | what it is |
//! |---|---|
//! | [`stablehlo`] | programs as text: a builder with typed values |
//! | [`custom`] | Moebius's own operations in StableHLO |
//! | [`lower`] | Burn's operations in StableHLO |
//! | [`eager`] | ordinary tensors: operations are recorded and run as one program |
//!
//! [`open`] gives a device for ordinary tensors, [`place`] several as one, [`mark_step`] ends a step of a loop over them,
//! and a [`CompiledFunction`] is a captured function as one program. Plugins, devices and buffers come from [`moebius_pjrt`].

pub mod custom;
pub mod eager;
mod function;
pub mod lower;
mod machine;
mod open;
mod record;
pub mod stablehlo;

pub use burn_router::{BackendRouter, RouterChannel, RouterTensor};
pub use function::{Arguments, CompileError, CompiledFunction, Spec, download};
pub use machine::{Machine, RunError, run, upload};
pub use open::{
    OpenError, Placed, StepError, activity, client, configure, mark_step, mesh_of, open, place,
    platform_of, programs,
};
pub use record::{RecordError, dtype, element, record};
