//! The languages and machines a kernel is compiled for.

use moebius_device::Runtime;
use std::fmt;
use std::str::FromStr;

/// Where a kernel is compiled to, without a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// WGSL within WebGPU's default limits; f16 kernels add `enable f16`.
    Wgsl,
    /// SPIR-V 1.5 for Vulkan 1.2.
    SpirV,
    /// CUDA C++ for sm_80 and newer, or for what the kernel needs.
    CudaCpp,
    /// PTX for sm_90.
    Ptx,
    /// HIP C++ for gfx942.
    HipCpp,
    /// A linked code object for gfx942 (MI300X).
    AmdgpuGfx942,
    /// A linked code object for gfx1201 (RDNA4).
    AmdgpuGfx1201,
    /// The Metal shading language.
    Msl,
}

/// A name that is no target's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown target {got:?}, expected one of {}", Target::ALL.map(Target::name).join(", "))]
pub struct ParseTargetError {
    got: String,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 8] = [
        Self::Wgsl,
        Self::SpirV,
        Self::CudaCpp,
        Self::Ptx,
        Self::HipCpp,
        Self::AmdgpuGfx942,
        Self::AmdgpuGfx1201,
        Self::Msl,
    ];

    /// Its name, the ending of its files, and the runtime.
    const fn row(self) -> (&'static str, &'static str, Runtime) {
        match self {
            Self::Wgsl => ("wgsl", "wgsl", Runtime::Wgpu),
            Self::SpirV => ("spirv", "spv", Runtime::Vulkan),
            Self::CudaCpp => ("cuda", "cu", Runtime::Cuda),
            Self::Ptx => ("ptx-sm90", "ptx", Runtime::Cuda),
            Self::HipCpp => ("hip", "hip", Runtime::Rocm),
            Self::AmdgpuGfx942 => ("amdgpu-gfx942", "hsaco", Runtime::Rocm),
            Self::AmdgpuGfx1201 => ("amdgpu-gfx1201", "hsaco", Runtime::Rocm),
            Self::Msl => ("msl", "metal", Runtime::Wgpu),
        }
    }

    /// Its name, as it is displayed and parsed.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Ending of a file that holds its output, without the dot.
    pub const fn extension(self) -> &'static str {
        self.row().1
    }

    /// The runtime that would launch its output; Metal is reached through wgpu.
    pub const fn runtime(self) -> Runtime {
        self.row().2
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
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
