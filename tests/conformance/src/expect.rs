//! The cases that a device may refuse, with the reason; all other cases must run everywhere.

use crate::model_scale::slow;
use moebius_device::{Capability, Runtime};
use moebius_tests::target::Target;

/// Families and cases that launch CubeCL kernels directly or read the allocator's statistics.
const NEED_KERNELS: [&str; 20] = [
    "grouped_gemm",
    "fp8_gemm",
    "fp8_mma",
    "fp8_conversion",
    "weight_gradient",
    "expert_activation",
    "permute::tiles_cover_every_row",
    "permute::row_bound",
    "capacity::shared_under_a_mask",
    "capacity::own_factors",
    "rows::positions_past_the_rows",
    "router_backward::one_of_both",
    "moe_layer::warm_forward_allocates_nothing",
    "moe_layer::launches_are_fixed",
    "moe_layer::training_launches_are_fixed",
    "layers::keeping_less_is_less",
    "switching::device_memory",
    "fp8_models::device_memory",
    "quantize::overwrites_its_outputs",
    "attention::visits",
];

/// Whether a case can't run at all on a device without CubeCL kernels.
pub(crate) fn needs_kernels(case: &str) -> bool {
    let family = case.split("::").next();
    NEED_KERNELS
        .iter()
        .any(|name| *name == case || Some(*name) == family)
}

/// Whether the device has matrix instructions for squares of one of these edges, and a known plane size.
fn has_matrices(capability: &Capability, element: &str, edges: &[u32]) -> bool {
    let planes = capability
        .subgroup
        .is_some_and(|(least, most)| least == most || capability.runtime != Runtime::Vulkan);
    let square = |&edge: &u32| capability.has_mma((edge, edge, edge), element, "f32");
    planes && edges.iter().any(square)
}

/// Why `target` is expected to refuse the case, or `None` when it must run.
pub(crate) fn unsupported(case: &str, target: &Target) -> Option<&'static str> {
    let capability = target.capability();
    let without_kernels = matches!(capability.runtime, Runtime::Flex | Runtime::Xla);
    if without_kernels && (needs_kernels(case) || case == "moe_layer::device_memory") {
        return Some("no CubeCL kernels there, and no allocator of CubeCL's");
    }
    let fp8_instructions = capability.runtime == Runtime::Cuda && capability.fp8_mma;
    let needs_them = case.starts_with("fp8_mma::") || case.starts_with("fp8_instructions::");
    if needs_them && !fp8_instructions {
        return Some("only CubeCL's CUDA C++ compiler has FP8 instructions, from sm_89 on");
    }
    let converts = capability.runtime == Runtime::Cuda && capability.fp8_conversion;
    if case.starts_with("fp8_conversion::") && !converts {
        return Some("only CubeCL's CUDA C++ compiler has FP8 conversions, from sm_89 on");
    }
    if case.ends_with("::webgpu_default_limits") && capability.runtime == Runtime::Cpu {
        return Some("the CPU runtime is no GPU");
    }
    let processor = capability.runtime == Runtime::Cpu;
    if case.starts_with("attention::tiles") && (without_kernels || processor) {
        return Some("variants for GPUs and software adapters");
    }
    if case.starts_with("exact::") && capability.runtime == Runtime::Xla {
        return Some("XLA chooses the order of its sums");
    }
    if case.starts_with("attention::own_rule") && capability.runtime == Runtime::Xla {
        return Some("a program's own rule has no StableHLO");
    }
    if case == "model_scale::few_tokens_f16" && capability.limits.max_buffer_bytes < 805_306_368 {
        return Some("a stack of weights is one buffer, and 805 MB is more than the adapter's");
    }
    if case == "model_scale::many_tokens_f16" && slow(target) {
        return Some("a software adapter takes minutes");
    }
    let matrices = [("matrices_f16", "f16"), ("matrices_bf16", "bf16")];
    let matrices = matrices.iter().find(|(name, _)| case.ends_with(name));
    let edges: &[u32] = if case.starts_with("attention") {
        &[16]
    } else {
        &[16, 8]
    };
    if matrices.is_some_and(|(_, element)| !has_matrices(capability, element, edges)) {
        return Some("no square matrix instructions of this type with sums in f32");
    }
    if case.contains("::pipelines_") && !capability.async_copies {
        return Some("no asynchronous copies beside matrix instructions");
    }
    if case.ends_with("f16") && !capability.f16 && !without_kernels {
        return Some("the adapter has no shader-f16");
    }
    let wgpu = matches!(capability.runtime, Runtime::Wgpu | Runtime::Vulkan);
    if case.ends_with("bf16") && wgpu && !capability.bf16 {
        return Some("WGSL has no bf16");
    }
    None
}
