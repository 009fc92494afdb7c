//! The languages and machines a kernel is compiled for.

use moebius_device::Runtime;
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
