//! The list of all kernels.

use crate::emit::KernelEntry;

/// Every variant of every kernel, in the order of the families.
pub fn kernels() -> Vec<KernelEntry> {
    [
        crate::fp8::entries(),
        crate::quantize::entries(),
        crate::routing::entries(),
        crate::permute::entries(),
        crate::grouped_gemm::entries(),
        crate::fp8_mma::entries(),
        crate::grouped_gemm::weight_gradient::entries(),
        crate::grouped_gemm::bias_gradient::entries(),
        crate::expert_activation::entries(),
        crate::segment_attention::entries(),
        crate::attention::entries(),
        crate::kv_cache::entries(),
        vec![crate::peak::entry()],
    ]
    .into_iter()
    .flatten()
    .collect()
}
