//! The one seam to Burn: our operations as backend extensions, a folder per family.
//!
//! | file of a family | what it does |
//! |---|---|
//! | `mod.rs` | functions of ordinary tensors, which plan and dispatch: the only way in; the operations and their types |
//! | `cube.rs` | launches kernels |
//! | `flex.rs` | composes Burn's primitive operations and plain Rust; capacities and hash routing are the kernels' references |
//! | `autodiff.rs` | records what the backward pass needs, and runs it |
//! | `lazy.rs` | tells Burn's fusion the shapes of results that don't exist yet, as the operation is described |
//! | `xla.rs` | records the description for XLA, which lowers it when the graph runs |
//!
//! A call carries a checked problem and, for CubeCL devices, its plan; the implementations can't
//! fail. Operations that only a backward pass runs are traits of their own (`..Gradients`), which
//! autodiff doesn't implement: there are no second derivatives.

mod assignment;
pub(crate) mod attention;
pub(crate) mod experts;
pub(crate) mod fp8;
pub(crate) mod fp8_linear;
pub(crate) mod fp8_mma;
pub(crate) mod fp8_training;
pub(crate) mod linear;
pub(crate) mod quantize;
pub(crate) mod router;
mod rows;
mod sort;

#[cfg(feature = "cube")]
mod buffers;
#[cfg(feature = "autodiff")]
mod graph;
#[cfg(feature = "flex")]
mod host;
#[cfg(any(feature = "fusion", feature = "xla"))]
mod results;
#[cfg(feature = "xla")]
mod xla;

pub(crate) use assignment::{Assignment, CapacityRule};
pub(crate) use experts::{FeedForward, Run, StageClock};
pub(crate) use fp8_linear::CodedWeights;
pub(crate) use quantize::QuantizeOps;
pub(crate) use sort::{Grouping, Sorted};

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, ExtensionType};
use burn::tensor::{Bool, DType, Tensor};

/// A float tensor that may be missing: Burn's extensions have no `Option`.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) enum Maybe<B: Backend> {
    /// There is none.
    Absent,
    /// There is one.
    Present(FloatTensor<B>),
}

impl<B: Backend> Maybe<B> {
    pub(crate) fn into_option(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Absent => None,
            Self::Present(tensor) => Some(tensor),
        }
    }
}

impl<B: Backend> From<Option<FloatTensor<B>>> for Maybe<B> {
    fn from(tensor: Option<FloatTensor<B>>) -> Self {
        tensor.map_or(Self::Absent, Self::Present)
    }
}

#[cfg(feature = "fusion")]
impl From<Option<burn::backend::fusion::custom::TensorSpec>> for MaybeMetadata {
    fn from(spec: Option<burn::backend::fusion::custom::TensorSpec>) -> Self {
        spec.map_or(Self::Absent, Self::Present)
    }
}

/// Which experts may be chosen.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) enum Mask<B: Backend> {
    /// All of them.
    All,
    /// Those whose entry of \[E\] isn't 0.
    Only(IntTensor<B>),
}

impl Mask<Dispatch> {
    /// 32-bit words, whatever integers the device is configured for.
    pub(crate) fn of(mask: Option<Tensor<1, Bool>>) -> Self {
        match mask {
            None => Self::All,
            Some(mask) => Self::Only(mask.int().cast(DType::I32).into_dispatch()),
        }
    }
}

/// Scales of an ordinary tensor.
pub(crate) type DeviceScales = Scales<Dispatch>;
/// Weights of an ordinary tensor.
pub(crate) type DeviceWeights = CodedWeights<Dispatch>;

/// FP8 scales: f32s, or words of four E8M0 bytes.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) enum Scales<B: Backend> {
    /// An f32 for each block.
    F32(FloatTensor<B>),
    /// Four E8M0 bytes to a word.
    E8M0(IntTensor<B>),
}
