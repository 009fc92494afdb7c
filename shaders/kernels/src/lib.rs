//! Mixture-of-experts and FP8 kernels, each written once in CubeCL.
//!
//! A family is one module with the pure `plan`, which matches a problem of the same module in [`moebius_ops`] to a device's
//! [`Capability`], with the cube functions, and with `launch`, whose buffers must be exactly as long as their shapes say.
//! [`Kernels::launch`] cuts buffers to the operation's description; other callers of a `launch` must pass buffers of the right
//! length. Nothing here opens a device.
//!
//! # Unproven
//!
//! A variant, with its instructions, is unproven when too little hardware has run it. This applies to variants with matrix
//! instructions and with FP8 conversion instructions: no CI machine has them, and a driver in software doesn't count. Two GPUs have
//! computed correctly what they had of them, an NVIDIA H100 (2026-11-27, commit b6104b6) and an H200 (the same day, commit 1b529bb), so
//! plans of grouped products take [`grouped_gemm::Variant::TensorCore`] on NVIDIA's cards by themselves, and on Hopper
//! [`grouped_gemm::Variant::Pipelined`], which two H200 have run (2026-11-28).
//!
//! A plan chooses an unproven variant only if the caller names or allows it. Targets and element types don't matter here: the other
//! variants are proven where conformance runs them. On a GPU that no machine of the project has, they run by default, and the
//! `moebius` command checks them before their first use.

#![allow(
    unsafe_code,
    reason = "kernels are launched without checks of every index; each launch says why none leaves its buffer"
)]

pub mod attention;
mod element;
#[cfg(feature = "emit")]
pub mod emit;
mod error;
pub mod exact;
pub mod expert_activation;
pub mod experts;
pub mod fp8;
pub mod fp8_mma;
mod grid;
pub mod grouped_gemm;
pub mod kv_cache;
pub mod launched;
mod named;
mod operation;
pub mod peak;
pub mod permute;
mod prelude;
pub mod quantize;
mod rounds;
pub mod routing;
pub mod segment_attention;

pub use element::DeviceElement;
pub use error::{PlanError, Unsupported, checked};
pub use grid::Grid;
pub use named::{FromNames, Lookup};
pub use operation::{AnyRule, Buffers, Family, Kernels, ProductHow, Tiles};

use moebius_device::Capability;

/// Identifies a build of the kernels: a hash of this crate's sources and of CubeCL's versions.
pub const FINGERPRINT: &str = env!("MOEBIUS_KERNELS");

moebius_ops::named! {
    /// A part of a layer's forward that is timed separately.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Stage {
        /// Router logits and the choice of experts.
        Router = "router",
        /// Histogram, scan, scatter, and the drop rule.
        Sort = "sort",
        /// First product with activation.
        Gemm1 = "gemm 1",
        /// Second product.
        Gemm2 = "gemm 2",
        /// Weighted sum of the slots.
        Combine = "combine",
        /// Both products and the weighted sum, if they are one program.
        Experts = "experts",
    }
}

/// Every variant of every kernel, in the order of the families.
#[cfg(feature = "emit")]
pub fn kernels() -> Vec<emit::KernelEntry> {
    [
        fp8::entries(),
        quantize::entries(),
        routing::entries(),
        permute::entries(),
        grouped_gemm::entries(),
        fp8_mma::entries(),
        grouped_gemm::weight_gradient::entries(),
        grouped_gemm::bias_gradient::entries(),
        expert_activation::entries(),
        segment_attention::entries(),
        attention::entries(),
        kv_cache::entries(),
        operation::exact::entries(),
        vec![peak::entry()],
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether this is a build for a browser. A browser's devices are GPUs without matrix instructions, so that kernels for processors and with
/// such instructions aren't compiled in, and a page is small.
const BROWSER: bool = cfg!(target_family = "wasm");

/// Says that no plan for a browser's device has the variant that is launched.
fn not_in_a_browser() -> ! {
    unreachable!("a browser's device has neither a processor's kernels nor matrix instructions")
}

/// Checks that a single binding can hold `bytes` bytes.
fn fits_binding(
    kernel: &'static str,
    bytes: usize,
    device: &Capability,
) -> Result<(), Unsupported> {
    let limit = device.limits.max_binding_bytes;
    let needs = format_args!("a binding of {bytes} bytes");
    let have = format_args!("bindings of at most {limit} bytes");
    Unsupported::unless(bytes as u64 <= limit, kernel, needs, have)
}

/// Checks that a cube can have `units` units and `memory` bytes of workgroup memory.
fn fits_cube(
    kernel: &'static str,
    units: u32,
    memory: usize,
    device: &Capability,
) -> Result<(), Unsupported> {
    let limits = &device.limits;
    let (most, largest) = (limits.max_units_per_cube, limits.max_shared_memory);
    let needs = format_args!("{units} units and {memory} bytes of workgroup memory");
    let have = format_args!("{most} units and {largest} bytes");
    Unsupported::unless(units <= most && memory <= largest, kernel, needs, have)
}

/// Checks that a launch can have `cubes` cubes along x, y and z.
fn fits_grid(
    kernel: &'static str,
    cubes: [usize; 3],
    device: &Capability,
) -> Result<(), Unsupported> {
    let most = device.limits.max_cube_count;
    let mut pairs = cubes.iter().zip(most);
    let fits = pairs.all(|(cubes, most)| *cubes <= most as usize);
    let needs = format_args!("{cubes:?} cubes");
    let have = format_args!("at most {most:?}");
    Unsupported::unless(fits, kernel, needs, have)
}

/// Checks that a tensor of `bytes` bytes can exist.
fn fits_buffer(kernel: &'static str, bytes: usize, device: &Capability) -> Result<(), Unsupported> {
    let limit = device.limits.max_buffer_bytes;
    let needs = format_args!("a buffer of {bytes} bytes for the weights of all experts");
    let have = format_args!("buffers of at most {limit} bytes");
    Unsupported::unless(bytes as u64 <= limit, kernel, needs, have)
}
