//! `quantization_config` of a `config.json`: what tells a loader how the weights are kept.
//!
//! | weights | `quant_method` | read by |
//! |---|---|---|
//! | blocks | `fp8`, with `fmt` and `weight_block_size`, as DeepSeek-V3 | Hugging Face, vLLM, SGLang |
//! | E4M3, row or tensor | `compressed-tensors`, `float-quantized` | the same |
//! | E4M3, MX | `compressed-tensors`, `mxfp8-quantized` | newer ones |
//! | E5M2, not blocks | `moebius-fp8` | no other program: there is no scheme for it, and a name that others refuse is better than wrong values |

use moebius_ops::fp8::Fp8Format;
use moebius_ops::scaling::{Fp8Scheme, Granularity, MX_BLOCK};
use serde_json::{Value, json};

use crate::names::BLOCK_SIZE;

/// The value of `quantization_config`. `ignored` are modules whose weights stay as they were; `calibrated`
/// says that every weight has the scale of its input.
pub(crate) fn quantization_config(
    scheme: Fp8Scheme,
    ignored: &[String],
    calibrated: bool,
) -> Value {
    let activations = if calibrated { "static" } else { "dynamic" };
    let fmt = scheme.format.name();
    match (scheme.granularity, scheme.format) {
        (Granularity::Block { rows, columns }, _) => json!({
            "quant_method": "fp8",
            "fmt": fmt,
            "activation_scheme": activations,
            BLOCK_SIZE: [rows, columns],
            "modules_to_not_convert": ignored,
        }),
        (granularity, Fp8Format::E4M3) => compressed_tensors(granularity, ignored, calibrated),
        (granularity, Fp8Format::E5M2) => json!({
            "quant_method": "moebius-fp8",
            "fmt": fmt,
            "granularity": granularity,
            "activation_scheme": activations,
            "modules_to_not_convert": ignored,
        }),
    }
}

fn compressed_tensors(granularity: Granularity, ignored: &[String], calibrated: bool) -> Value {
    let mx = granularity == Granularity::Mx;
    let format = if mx {
        "mxfp8-quantized"
    } else {
        "float-quantized"
    };
    let (weights, inputs, dynamic) = match granularity {
        Granularity::Tensor => ("tensor", "tensor", !calibrated),
        Granularity::Mx => ("group", "group", true),
        _ if calibrated => ("channel", "tensor", false),
        _ => ("channel", "token", true),
    };
    let numbers = |strategy: &str, dynamic: bool| {
        let mut numbers = json!({
            "num_bits": 8,
            "type": "float",
            "symmetric": true,
            "strategy": strategy,
            "dynamic": dynamic,
        });
        if mx {
            numbers["group_size"] = json!(MX_BLOCK);
            numbers["scale_dtype"] = json!("torch.uint8");
        }
        numbers
    };
    json!({
        "quant_method": "compressed-tensors",
        "format": format,
        "quantization_status": "compressed",
        "ignore": ignored,
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "format": format,
                "weights": numbers(weights, false),
                "input_activations": numbers(inputs, dynamic),
                "output_activations": null,
            },
        },
    })
}

#[cfg(test)]
#[path = "quantization_config_tests.rs"]
mod tests;
