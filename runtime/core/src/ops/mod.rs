//! The one seam to Burn: every operation of `moebius-ops` on whatever device holds its tensors.
//!
//! A call is the description of an operation, its operands, and on CubeCL devices its kernels as they were planned. It goes
//! through [`call::Operations`], which each backend implements once:
//!
//! | file | what it does with a call |
//! |---|---|
//! | `call.rs` | what it is, and the only way to make one |
//! | `cube.rs` | allocates the results that are described, and launches the kernels |
//! | `flex.rs` | runs the family's portable body |
//! | `autodiff.rs` | keeps what the backward pass reads, and runs the operation that the gradient is |
//! | `fusion.rs` | tells Burn's fusion the results that are described |
//! | `xla.rs` | records the description, which XLA lowers when the graph runs |
//!
//! A family is a folder:
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | functions of ordinary tensors, which check, plan the kernels and call |
//! | `flex.rs` | the portable body: Burn's primitive operations and plain Rust; capacities and hash routing are the kernels' references |

mod assignment;
pub(crate) mod attention;
mod call;
pub(crate) mod experts;
pub(crate) mod fp8;
pub(crate) mod fp8_linear;
pub(crate) mod fp8_mma;
pub(crate) mod fp8_training;
pub(crate) mod linear;
pub(crate) mod quantize;
pub(crate) mod router;
mod rows;
pub(crate) mod segment_attention;
mod sort;
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

pub(crate) use assignment::{Assignment, CapacityRule};
pub(crate) use experts::{FeedForward, Run, StageClock};
pub(crate) use fp8_linear::CodedWeights;
pub(crate) use sort::Sorted;
pub(crate) use tensors::DeviceValue;

/// The dtype of what is described.
#[cfg(any(feature = "cube", feature = "flex"))]
fn dtype(scalar: moebius_ops::Scalar) -> burn::tensor::DType {
    use burn::tensor::DType;
    use moebius_ops::{Element, Scalar};
    match scalar {
        Scalar::Float(Element::F32) => DType::F32,
        Scalar::Float(Element::F16) => DType::F16,
        Scalar::Float(Element::Bf16) => DType::BF16,
        Scalar::Word => DType::I32,
    }
}
