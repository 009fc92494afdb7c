use serde_json::json;

use super::{Fp8Format, Fp8Scheme, Granularity, quantization_config};

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
