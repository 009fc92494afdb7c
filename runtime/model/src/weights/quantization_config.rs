//! `quantization_config` of a `config.json`: what tells a loader how the weights are kept.
//!
//! | weights | `quant_method` | read by |
//! |---|---|---|
//! | blocks | `fp8`, with `fmt` and `weight_block_size`, as DeepSeek-V3 | Hugging Face, vLLM, SGLang |
//! | E4M3, row or tensor | `compressed-tensors`, `float-quantized` | the same |
//! | E4M3, MX | `compressed-tensors`, `mxfp8-quantized` | newer ones |
//! | E5M2, not blocks | `moebius-fp8` | no other program: there is no scheme for it, and a name that others refuse is better than wrong values |

use moebius::fp8::{Fp8Format, Granularity, MX_BLOCK};
use serde_json::{Value, json};

use super::BLOCK_SIZE;
use super::fp8::Fp8Scheme;

/// The value of `quantization_config`. `ignored` are modules whose weights stay as they were; `calibrated`
/// says that every weight has the scale of its input.
pub(super) fn quantization_config(
    scheme: Fp8Scheme,
    ignored: &[String],
    calibrated: bool,
) -> Value {
    let activations = if calibrated { "static" } else { "dynamic" };
    let fmt = match scheme.format {
        Fp8Format::E4M3 => "e4m3",
        Fp8Format::E5M2 => "e5m2",
    };
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
    let numbers = |strategy: &str, dynamic: bool| {
        json!({
            "num_bits": 8,
            "type": "float",
            "symmetric": true,
            "strategy": strategy,
            "dynamic": dynamic,
        })
    };
    let (format, mut weights, mut inputs) = match granularity {
        Granularity::Tensor => {
            let inputs = numbers("tensor", !calibrated);
            ("float-quantized", numbers("tensor", false), inputs)
        }
        Granularity::Mx => {
            let inputs = numbers("group", true);
            ("mxfp8-quantized", numbers("group", false), inputs)
        }
        _ if calibrated => (
            "float-quantized",
            numbers("channel", false),
            numbers("tensor", false),
        ),
        _ => (
            "float-quantized",
            numbers("channel", false),
            numbers("token", true),
        ),
    };
    if granularity == Granularity::Mx {
        for numbers in [&mut weights, &mut inputs] {
            numbers["group_size"] = json!(MX_BLOCK);
            numbers["scale_dtype"] = json!("torch.uint8");
        }
    }
    json!({
        "quant_method": "compressed-tensors",
        "format": format,
        "quantization_status": "compressed",
        "ignore": ignored,
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "format": format,
                "weights": weights,
                "input_activations": inputs,
                "output_activations": null,
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::{Fp8Format, Fp8Scheme, Granularity, quantization_config};
    use serde_json::json;

    fn of(format: Fp8Format, granularity: Granularity) -> serde_json::Value {
        let scheme = Fp8Scheme {
            format,
            granularity,
        };
        quantization_config(scheme, &["lm_head".to_owned()], false)
    }

    #[test]
    fn blocks_are_written_as_deepseek_does() {
        let block = Granularity::Block {
            rows: 128,
            columns: 64,
        };
        assert_eq!(
            of(Fp8Format::E4M3, block),
            json!({
                "quant_method": "fp8",
                "fmt": "e4m3",
                "activation_scheme": "dynamic",
                "weight_block_size": [128, 64],
                "modules_to_not_convert": ["lm_head"],
            })
        );
    }

    #[test]
    fn the_rest_is_compressed_tensors_where_that_has_a_form() {
        let row = of(Fp8Format::E4M3, Granularity::Row);
        assert_eq!(row["quant_method"], "compressed-tensors");
        let group = &row["config_groups"]["group_0"];
        assert_eq!(group["weights"]["strategy"], "channel");
        assert_eq!(group["input_activations"]["strategy"], "token");
        let mx = of(Fp8Format::E4M3, Granularity::Mx);
        assert_eq!(mx["format"], "mxfp8-quantized");
        assert_eq!(mx["config_groups"]["group_0"]["weights"]["group_size"], 32);
        let e5m2 = of(Fp8Format::E5M2, Granularity::Tensor);
        assert_eq!(e5m2["quant_method"], "moebius-fp8");
        assert_eq!(e5m2["granularity"], "tensor");
    }
}
