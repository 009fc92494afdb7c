//! Compilation without a device: kernel × target → source text or object code.
//!
//! A [`KernelEntry`] is one variant of one kernel. Its family's own `plan` reads the hand-written properties of a device of the
//! target (`machine.rs`), and its `launch` runs on a device that only records kernels. The compiled kernels are therefore those
//! that a real device would get. If the plan refuses, the result is [`EmitError::NotAvailable`]. Sizes that a kernel reads at
//! launch don't matter here; the plan only has to accept the shapes.
//!
//! In text, the kernel's entry point has the name of the entry; in SPIR-V and AMDGPU objects it keeps CubeCL's name, which ends
//! in a hash ([`Artifact::entry_point`]).

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
    /// A target of compilation.
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

/// The error for a name that no target has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown target {got:?}, expected one of {}", Target::ALL.map(Target::name).join(", "))]
pub struct ParseTargetError {
    got: String,
}

impl Target {
    /// The extension of a file with the target's output, without the dot.
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

    /// The runtime that launches the target's output; Metal is reached through wgpu.
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

/// The oldest CUDA architecture that kernels are compiled for, unless they need a newer one.
const OLDEST_SM: u32 = 80;

/// Whether the plan of an entry accepted the device.
pub(crate) type Planned = Result<(), PlanError>;

/// One variant of one kernel, ready to be compiled for any target.
pub struct KernelEntry {
    /// The name, unique among the entries, e.g. `grouped_gemm_unit_f32_gather_relu`.
    pub name: String,
    /// The family of the kernel, e.g. `grouped_gemm`.
    pub family: &'static str,
    /// The variant, or the kernel within the family, e.g. `unit`.
    pub variant: &'static str,
    /// The element type of the inputs; `None` for kernels of words and f32 only.
    pub element: Option<Element>,
    /// The oldest CUDA architecture that supports the kernel; 80 is sm_80.
    pub sm: u32,
    /// Whether plans may choose the variant by themselves; see [unproven](crate#unproven).
    pub proven: bool,
    launch: Box<dyn Fn(&Machine) -> Planned + Send + Sync>,
}

impl KernelEntry {
    /// An entry for the kernel `name`, one of those that `launch` launches, of a `family`'s `variant`.
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

    /// The path of the kernel's Rust type when compiled for `target`, as CubeCL reports it to observers of launches; `None` if
    /// the plan refuses the target.
    pub fn type_name(&self, target: Target) -> Option<&'static str> {
        let kernel = self.kernel(target).ok()?;
        Some(kernel.name())
    }

    /// The kernel that `launch` enqueues on a device of `target`.
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

    /// A copy as another variant, whose name ends in `suffix`, too.
    pub(crate) fn by(self, variant: &'static str, suffix: &str) -> Self {
        let name = self.name + suffix;
        Self {
            name,
            variant,
            ..self
        }
    }

    /// A copy for CUDA architectures from `sm` on.
    pub(crate) fn since_sm(self, sm: u32) -> Self {
        Self { sm, ..self }
    }

    /// A copy marked as proven or not.
    pub(crate) fn proven(self, proven: bool) -> Self {
        Self { proven, ..self }
    }
}

/// Unwraps a problem of a kernel that is only compiled, whose sizes are constants of this crate.
pub(crate) fn valid<T>(problem: Result<T, Mismatch>) -> T {
    problem.unwrap_or_else(|error| unreachable!("sizes of a compiled kernel: {error}"))
}

/// A compiled kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Text in UTF-8, or a binary module.
    pub bytes: Vec<u8>,
    /// The extension of a file with these bytes, without the dot.
    pub extension: &'static str,
    /// The name of the entry point in the module.
    pub entry_point: String,
    /// The workgroup's units along x, y and z.
    pub workgroup: [u32; 3],
}

/// Why a kernel has no code for a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The target can't run the kernel.
    #[error("not available for {target}: {reason}")]
    NotAvailable {
        /// The requested target.
        target: Target,
        /// What the target lacks.
        reason: String,
    },
    /// This build has no compiler for the target.
    #[error("expected a build with the feature {feature} for {target}, got one without")]
    NotBuilt {
        /// The requested target.
        target: Target,
        /// The feature of this crate that adds the compiler.
        feature: &'static str,
    },
    /// The compiler failed.
    #[error("compiling {kernel} for {target} failed: {reason}")]
    Failed {
        /// The name of the entry.
        kernel: String,
        /// The requested target.
        target: Target,
        /// The compiler's message.
        reason: String,
    },
}

/// Compiles `entry` for `target`.
///
/// For kernels with exponentials, PTX needs CUDA's `libdevice.10.bc`, which CubeCL looks for in the usual places of a CUDA
/// toolkit and in `CUDA_PATH`.
///
/// # Errors
/// [`EmitError`] if the target can't run the kernel, this build can't compile for the target, or the compiler fails. A panic
/// inside the compiler is an [`EmitError::Failed`], too.
pub fn emit(entry: &KernelEntry, target: Target) -> Result<Artifact, EmitError> {
    let compile = || compile::compile(&*entry.kernel(target)?, Some(&entry.name), target);
    caught(&entry.name, target, compile)
}

/// Compiles a kernel that is launched on a device with the [`properties`] of `target`.
///
/// # Errors
/// [`EmitError`] under the conditions of [`emit`].
pub fn compile(kernel: &dyn CubeKernel, target: Target) -> Result<Artifact, EmitError> {
    caught(kernel.name(), target, || {
        compile::compile(kernel, None, target)
    })
}

/// Turns panics of `compile` into errors: CubeCL's compilers panic on what they don't support. Each compilation has its own
/// context, so a panic leaves nothing broken behind.
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

/// The properties of `target`'s oldest hardware, for planning and expanding kernels.
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
