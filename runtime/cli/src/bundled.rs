//! The case files that travel inside the binary.

use moebius_cases::{CaseError, CaseFile};

macro_rules! cases {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/", $name, ".safetensors"
        )))),*]
    };
}

/// Name and bytes of every bundled case, 9.7 MB in all.
const CASES: &[(&str, &[u8])] = cases![
    "attention_alibi",
    "attention_backward_alibi",
    "attention_backward_causal",
    "attention_backward_cross",
    "attention_backward_document",
    "attention_backward_full",
    "attention_backward_prefix",
    "attention_backward_softcap",
    "attention_backward_softcap_window_alibi",
    "attention_backward_window",
    "attention_causal",
    "attention_cross",
    "attention_document",
    "attention_full",
    "attention_prefix",
    "attention_softcap",
    "attention_softcap_window_alibi",
    "attention_window",
    "balance_losses",
    "fp8_cast_e4m3_ieee",
    "fp8_cast_e4m3_sat",
    "fp8_cast_e5m2_ieee",
    "fp8_cast_e5m2_sat",
    "fp8_linear_w8a16_e4m3",
    "fp8_linear_w8a16_e5m2",
    "fp8_linear_w8a8_row_e4m3",
    "fp8_linear_w8a8_row_e5m2",
    "fp8_quantize_e4m3_block128",
    "fp8_quantize_e4m3_mx",
    "fp8_quantize_e4m3_row",
    "fp8_quantize_e4m3_tensor",
    "fp8_quantize_e5m2_block128",
    "fp8_quantize_e5m2_mx",
    "fp8_quantize_e5m2_row",
    "fp8_quantize_e5m2_tensor",
    "moe_layer_backward_capacity",
    "moe_layer_backward_gelu",
    "moe_layer_backward_glu_gelu_sigmoid_raw",
    "moe_layer_backward_glu_mish_sigmoid",
    "moe_layer_backward_glu_silu",
    "moe_layer_backward_glu_silu_raw",
    "moe_layer_backward_one_bias",
    "moe_layer_backward_relu",
    "moe_layer_backward_unbiased",
    "moe_layer_capacity",
    "moe_layer_gelu",
    "moe_layer_glu_silu",
    "moe_layer_glu_silu_raw",
    "moe_layer_relu",
    "moe_layer_unbiased",
    "route_after_topk",
    "route_groups",
    "route_masked",
    "route_sigmoid",
    "route_softmax_raw",
    "route_softmax_renorm",
];

/// How many cases there are.
pub(crate) fn count() -> usize {
    CASES.len()
}

/// The cases, parsed one at a time.
pub(crate) fn cases() -> impl Iterator<Item = (String, Result<CaseFile, CaseError>)> {
    CASES
        .iter()
        .map(|&(name, bytes)| (name.to_owned(), CaseFile::parse(bytes)))
}

#[cfg(test)]
#[path = "bundled_tests.rs"]
mod tests;
