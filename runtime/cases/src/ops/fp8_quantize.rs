//! `fp8_quantize {format, granularity, margin}`: `x` [R,C] → `scale` and `dequantized` [R,C].
//!
//! `granularity` is `tensor`, `row`, `block128` (128 × 128) or `mx`; the scales of the last are powers of two, a byte each
//! in the library, and are shown as f32.

use burn::tensor::{Device, FloatDType};
use moebius::fp8::{Fp8Format, Fp8Tensor, Granularity, Quantizer};
use serde::Deserialize;

use super::inputs::Inputs;
use super::{OpError, Produced, Values, download};
use crate::case_file::{CaseFile, quoted};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    format: Fp8Format,
    granularity: String,
    #[serde(default)]
    margin: i32,
}

fn granularity(name: &str) -> Result<Granularity, OpError> {
    match name {
        "tensor" => Ok(Granularity::Tensor),
        "row" => Ok(Granularity::Row),
        "block128" => Ok(Granularity::Block {
            rows: 128,
            columns: 128,
        }),
        "mx" => Ok(Granularity::Mx),
        other => Err(OpError::Unsupported(format!(
            "fp8_quantize with granularity {}",
            quoted(other)
        ))),
    }
}

pub(crate) async fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let params: Params = case.params()?;
    let granularity = granularity(&params.granularity)?;
    let quantizer = Quantizer::new(params.format, granularity).with_margin(params.margin);
    quantizer.validate()?;
    let mut inputs = Inputs::new(case);
    let x = inputs.required("x")?;
    inputs.finish()?;
    let [rows, columns] = x.dims("[R,C]")?;
    let packed = Fp8Tensor::quantize(x.on::<2>(device)?, &quantizer)?;
    let scales = packed.to_scales_async().await?.to_f32();
    let scale = Produced::new(
        "scale",
        &granularity.blocks(rows, columns),
        Values::Float(scales),
    );
    let dequantized = download("dequantized", packed.dequantize(FloatDType::F32)?).await?;
    Ok(vec![
        scale,
        Produced {
            shape: vec![rows, columns],
            ..dequantized
        },
    ])
}
