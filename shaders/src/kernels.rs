//! The list of all kernels.

use crate::emit::KernelEntry;

/// Every variant of every kernel, in the order of the families.
pub fn kernels() -> Vec<KernelEntry> {
    [
        crate::fp8::entries(),
        crate::quantize::entries::entries(),
        crate::routing::entries::entries(),
        crate::permute::entries::entries(),
        crate::grouped_gemm::entries::entries(),
        crate::fp8_mma::entries::entries(),
        crate::grouped_gemm::weight_gradient::entries::entries(),
        crate::grouped_gemm::bias_gradient::entries(),
        crate::expert_activation::entries::entries(),
        crate::segment_attention::entries::entries(),
        crate::attention::entries(),
        crate::kv_cache::entries(),
        vec![crate::peak::entry()],
    ]
    .into_iter()
    .flatten()
    .collect()
}
