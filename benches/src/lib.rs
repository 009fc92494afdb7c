//! Benchmarks of layers and kernels: verify against the oracle, warm up, wait for the device, take the median.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "help texts name devices as wgpu[:n], and clap shows them as they are written"
)]

pub mod attention;
mod ceiling;
pub mod decode;
pub mod grouped_gemm;
pub mod launches;
pub mod linear;
pub mod moe;
pub mod options;
mod oracle;
mod peer;
mod place;
pub mod suite;
pub mod timing;
#[cfg(feature = "flex")]
pub mod training_step;
#[cfg(feature = "xla")]
pub mod xla_call;

pub use ceiling::{Bound, CacheSize, Ceilings, Floor, MemoryRead, Reached, peak_gflops};
pub use peer::{BenchPeer, Peer, PeerError};
pub use place::{Checked, HeldError, Measurement, Ran, instructions};

use moebius_device::Device;

/// Function that is called with each step of a benchmark.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// FLOPs of a forward and a backward pass, as a multiple of the forward's: each product has two gradients.
/// Recomputation in the backward pass counts as time, not as work.
pub const FLOPS_OF_FORWARD: u64 = 3;

/// Why a benchmark has no numbers.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The device or the layer refused the benchmark.
    #[error(transparent)]
    Refused(#[from] moebius::Error),
    /// The kernel can't be planned.
    #[error(transparent)]
    Plan(#[from] moebius_shaders::PlanError),
    /// The device failed while running.
    #[error("the device failed: {0}")]
    Device(String),
    /// The device takes more vector instructions than the process is held to.
    #[error(transparent)]
    Held(Box<HeldError>),
    /// The device lacks what is measured.
    #[error("{device} has no {what}")]
    Lacks {
        /// The device.
        device: Device,
        /// What the device lacks.
        what: &'static str,
    },
    /// The peer couldn't be run.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

impl BenchError {
    fn device(error: impl ToString) -> Self {
        Self::Device(error.to_string())
    }
}
