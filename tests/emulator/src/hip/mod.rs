//! The functions of `libamdhip64.so` and `libhiprtc.so` that CubeCL's HIP runtime calls. HIP was made after CUDA: most are functions of
//! `driver` by another name, and their statuses are the same numbers.
#![allow(
    clippy::missing_safety_doc,
    reason = "what a caller owes is what HIP's reference says of each function"
)]
#![allow(
    clippy::too_many_arguments,
    reason = "the signatures are those of the HIP runtime API"
)]

pub mod device;
pub mod graph;
pub mod launch;
pub mod memory;
pub mod rtc;
pub mod stream;
