//! The kernels available for each target. `validate` checks this table against the compilers in both directions, and the
//! README's support table is made from it.

use moebius_ops::Element;
use moebius_shaders::emit::{KernelEntry, Target};

/// The reason why `entry` has no code for `target`, or `None` if it must compile.
pub fn unavailable(entry: &KernelEntry, target: Target) -> Option<&'static str> {
    match (entry.variant, entry.element, target) {
        ("cpu", ..) => Some("the CPU runtime compiles it when it runs"),
        ("mma" | "pipelined" | "pipelined_wgmma", _, Target::CudaCpp) => None,
        (variant, _, target) if converts_by_instructions(variant) && target != Target::CudaCpp => {
            Some("only CubeCL's CUDA C++ compiler has FP8 conversions")
        }
        ("mma", ..) => Some("only CubeCL's CUDA C++ compiler has FP8 instructions of 16 x 8 x 32"),
        ("pipelined" | "pipelined_wgmma", ..) => {
            Some("only CubeCL's CUDA C++ compiler has asynchronous copies")
        }
        ("tensor_core", _, Target::Wgsl) => Some("WGSL has no matrix instructions"),
        ("tensor_core", _, Target::Msl) if entry.family == "attention" => {
            Some("Metal multiplies 8 x 8 x 8")
        }
        ("tensor_core", Some(Element::Bf16), Target::Msl) => {
            Some("Metal 3 has no matrix instructions in bf16")
        }
        ("tensor_core", _, Target::AmdgpuGfx942) => {
            Some("CubeCL's LLVM compiler has no CDNA matrix instructions")
        }
        (_, Some(Element::Bf16), Target::Wgsl) => Some("WGSL has no bf16"),
        _ => None,
    }
}

/// Whether a variant converts FP8 codes and numbers by the device's instructions.
pub fn converts_by_instructions(variant: &str) -> bool {
    variant.ends_with("by instructions")
}

/// The devices that run kernels in CI, by their names in conformance's record; `cuda` and `rocm` are emulated cards
/// (`tests/emulator/`).
pub const CI: [&str; 5] = ["cpu", "wgpu", "vulkan", "cuda", "rocm"];

/// The device that runs Metal kernels on the emulator, for cases that need no Burn.
pub const METAL: &str = "msl";

/// The reason why `entry` can't run on a CI device, or `None` if a case must launch it there.
pub fn cannot_run(entry: &KernelEntry, device: &str) -> Option<&'static str> {
    match (device, entry.variant) {
        ("cpu", "mma" | "tensor_core" | "pipelined" | "pipelined_wgmma") => {
            Some("the CPU runtime has no matrix instructions")
        }
        ("cpu", "unit" | "gemv" | "tile") => {
            Some("the CPU runtime has too few units in a workgroup")
        }
        ("cpu", variant) if converts_by_instructions(variant) => {
            Some("the CPU runtime has no FP8 conversions")
        }
        ("cpu", _) => None,
        ("vulkan", _) if entry.element == Some(Element::Bf16) => {
            Some("the software driver has no bf16")
        }
        ("vulkan", "tensor_core") if entry.family == "attention" => {
            Some("the software driver multiplies 8 x 8 x 8")
        }
        ("vulkan", _) => unavailable(entry, Target::SpirV),
        // Its instructions run on an emulated H100 in the deep tier.
        ("cuda", _) if entry.sm > 89 => Some("the emulated card of CI is an L4"),
        ("cuda", _) => unavailable(entry, Target::CudaCpp),
        ("rocm", _) => unavailable(entry, Target::HipCpp),
        _ => unavailable(entry, Target::Wgsl),
    }
}
