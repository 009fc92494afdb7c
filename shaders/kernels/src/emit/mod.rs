//! Compilation without a device: kernel × target → source text or object code.
//!
//! A [`KernelEntry`] is one variant of one kernel: the family's own `plan` reads the hand-written properties of a device of
//! the target (`machine.rs`), and its `launch` runs on a device that only keeps the kernels it is sent. So
//! what is compiled here is what such a device would be given. What a plan refuses is [`EmitError::NotAvailable`]. Sizes that
//! a kernel reads at launch don't matter here; shapes only need to be ones the plan accepts.
//!
//! The text of a kernel names its entry point like the entry; in SPIR-V and AMDGPU objects it
//! keeps CubeCL's name, which ends in a hash ([`Artifact::entry_point`]).

mod compile;
mod machine;
mod names;
pub mod server;

pub(crate) use machine::Machine;

use crate::error::PlanError;
use cubecl::ir::DeviceProperties;
use cubecl::prelude::CubeKernel;
use moebius_device::Runtime;
use moebius_ops::Element;
use moebius_ops::Mismatch;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

moebius_ops::named! {
    /// Where a kernel is compiled to, without a device.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Target {
        /// WGSL within WebGPU's default limits; f16 kernels add `enable f16`.
        Wgsl = "wgsl",
        /// SPIR-V 1.5 for Vulkan 1.2.
        SpirV = "spirv",
        /// CUDA C++ for sm_80 and newer, or for what the kernel needs.
        CudaCpp = "cuda",
        /// PTX for sm_90.
        Ptx = "ptx-sm90",
        /// HIP C++ for gfx942.
        HipCpp = "hip",
        /// A linked code object for gfx942 (MI300X).
        AmdgpuGfx942 = "amdgpu-gfx942",
        /// A linked code object for gfx1201 (RDNA4).
        AmdgpuGfx1201 = "amdgpu-gfx1201",
        /// The Metal shading language.
        Msl = "msl",
    }
}

/// A name that is no target's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown target {got:?}, expected one of {}", Target::ALL.map(Target::name).join(", "))]
pub struct ParseTargetError {
    got: String,
}

impl Target {
    /// Ending of a file that holds its output, without the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Wgsl => "wgsl",
            Self::SpirV => "spv",
            Self::CudaCpp => "cu",
            Self::Ptx => "ptx",
            Self::HipCpp => "hip",
            Self::AmdgpuGfx942 | Self::AmdgpuGfx1201 => "hsaco",
            Self::Msl => "metal",
        }
    }

    /// The runtime that would launch its output; Metal is reached through wgpu.
    pub const fn runtime(self) -> Runtime {
        match self {
            Self::Wgsl | Self::Msl => Runtime::Wgpu,
            Self::SpirV => Runtime::Vulkan,
            Self::CudaCpp | Self::Ptx => Runtime::Cuda,
            Self::HipCpp | Self::AmdgpuGfx942 | Self::AmdgpuGfx1201 => Runtime::Rocm,
        }
    }
}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|target| target.name() == name);
        named.ok_or_else(|| ParseTargetError {
            got: name.to_owned(),
        })
    }
}

/// The oldest CUDA architecture that kernels are compiled for, but for those that need a newer one.
const OLDEST_SM: u32 = 80;

/// Whether a plan accepted the machine that an entry was launched on.
pub(crate) type Planned = Result<(), PlanError>;

/// One variant of one kernel, ready to be compiled for any target.
pub struct KernelEntry {
    /// Name, unique among the entries, e.g. `grouped_gemm_unit_f32_gather_relu`.
    pub name: String,
    /// Family it belongs to, e.g. `grouped_gemm`.
    pub family: &'static str,
    /// Way it is computed, or the kernel within the family, e.g. `unit`.
    pub variant: &'static str,
    /// Element type of its inputs; `None` for kernels of words and f32 only.
    pub element: Option<Element>,
    /// Oldest CUDA architecture it is for: 80 is sm_80.
    pub sm: u32,
    /// Whether plans may choose its way of computing by themselves; see [unproven](crate#unproven).
    pub proven: bool,
    launch: Box<dyn Fn(&Machine) -> Planned + Send + Sync>,
}

impl KernelEntry {
    /// The entry `name` of a `family`'s `variant`, which is among the kernels that `launch` launches.
    pub(crate) fn new(
        family: &'static str,
        variant: &'static str,
        name: impl Into<String>,
        launch: impl Fn(&Machine) -> Planned + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            family,
            variant,
            element: None,
            sm: OLDEST_SM,
            proven: true,
            launch: Box::new(launch),
        }
    }

    /// The path of the Rust type of the kernel that it compiles for `target`, as CubeCL tells observers of launches;
    /// `None` where its plan refuses the target.
    pub fn type_name(&self, target: Target) -> Option<&'static str> {
        let kernel = self.kernel(target).ok()?;
        Some(kernel.name())
    }

    /// The kernel as it is launched on a device of `target`.
    fn kernel(&self, target: Target) -> Result<Box<dyn CubeKernel>, EmitError> {
        let machine = Machine::of(target, self.element, self.sm);
        let launched = machine.record(&self.launch);
        let (names, kernels) = launched.map_err(|refusal| EmitError::NotAvailable {
            target,
            reason: refusal.to_string(),
        })?;
        let at = names.iter().position(|name| *name == self.name);
        let kernel = at.and_then(|at| kernels.into_iter().nth(at));
        kernel.ok_or_else(|| EmitError::Failed {
            kernel: self.name.clone(),
            target,
            reason: format!("its launch enqueues {names:?}"),
        })
    }

    /// A copy with inputs of `element`.
    pub(crate) fn of(self, element: Element) -> Self {
        Self {
            element: Some(element),
            ..self
        }
    }

    /// The same for CUDA architectures from `sm` on.
    pub(crate) fn since_sm(self, sm: u32) -> Self {
        Self { sm, ..self }
    }

    /// A copy of which this is known to be so or not.
    pub(crate) fn proven(self, proven: bool) -> Self {
        Self { proven, ..self }
    }
}

/// The problem of a kernel that is compiled only, whose sizes are written beside it.
pub(crate) fn valid<T>(problem: Result<T, Mismatch>) -> T {
    problem.unwrap_or_else(|error| unreachable!("sizes of a compiled kernel: {error}"))
}

/// A compiled kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Text in UTF-8, or a binary module.
    pub bytes: Vec<u8>,
    /// Ending of a file that holds it, without the dot.
    pub extension: &'static str,
    /// Name of the entry point inside.
    pub entry_point: String,
    /// Units of a workgroup along x, y and z.
    pub workgroup: [u32; 3],
}

/// Why a kernel has no code for a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The kernel can't run there.
    #[error("not available for {target}: {reason}")]
    NotAvailable {
        /// Target asked for.
        target: Target,
        /// What is missing.
        reason: String,
    },
    /// This build has no compiler for the target.
    #[error("expected a build with the feature {feature} for {target}, got one without")]
    NotBuilt {
        /// Target asked for.
        target: Target,
        /// Feature of this crate that has it.
        feature: &'static str,
    },
    /// The compiler refused the kernel, or gave up on it.
    #[error("compiling {kernel} for {target} failed: {reason}")]
    Failed {
        /// Entry.
        kernel: String,
        /// Target asked for.
        target: Target,
        /// What the compiler said.
        reason: String,
    },
}

/// Compiles `entry` for `target`.
///
/// PTX of kernels with exponentials needs CUDA's `libdevice.10.bc`; CubeCL looks for it where a
/// CUDA toolkit is usually installed and where `CUDA_PATH` points.
///
/// # Errors
/// [`EmitError`]: the target can't run the kernel, this build can't compile for the target, or the
/// compiler failed. A panic inside the compiler is a [`EmitError::Failed`], too.
pub fn emit(entry: &KernelEntry, target: Target) -> Result<Artifact, EmitError> {
    let compile = || compile::compile(&*entry.kernel(target)?, Some(&entry.name), target);
    caught(&entry.name, target, compile)
}

/// Compiles a kernel as it is launched on a device of the [`properties`] of `target`.
///
/// # Errors
/// As [`emit`].
pub fn compile(kernel: &dyn CubeKernel, target: Target) -> Result<Artifact, EmitError> {
    caught(kernel.name(), target, || {
        compile::compile(kernel, None, target)
    })
}

/// CubeCL's compilers panic on what they don't know; the context of a compilation is its own,
/// so nothing broken is left behind.
fn caught(
    kernel: &str,
    target: Target,
    compile: impl FnOnce() -> Result<Artifact, EmitError>,
) -> Result<Artifact, EmitError> {
    catch_unwind(AssertUnwindSafe(compile)).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<&str>().copied();
        let message = message.or(payload.downcast_ref::<String>().map(String::as_str));
        Err(EmitError::Failed {
            kernel: kernel.to_owned(),
            target,
            reason: message.unwrap_or("a panic without a message").to_owned(),
        })
    })
}

/// What kernels for `target` are planned and expanded with, of its oldest hardware.
pub fn properties(target: Target) -> DeviceProperties {
    machine::properties(target, None, OLDEST_SM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for target in Target::ALL {
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        let error = "glsl".parse::<Target>().map_err(|error| error.to_string());
        assert!(error.is_err_and(|error| error.contains("\"glsl\"") && error.contains("ptx-sm90")));
    }
}
