//! `fp8_quantize {format, granularity, margin}`: `x` [R,C] → `scale` and `dequantized` [R,C].
//!
//! `granularity` is `tensor`, `row`, `block128` (128 × 128) or `mx`; the scales of the last are powers of two, a byte each
//! in the library, and are shown as f32.

use burn::tensor::{Device, FloatDType};
use moebius::fp8::{Fp8Format, Fp8Tensor, Granularity, HostScales, Quantizer};
use serde::Deserialize;

use super::inputs::Inputs;
use super::{OpError, Produced, download, upload};
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
        other => Err(OpError::Unsupported {
            op: format!("fp8_quantize with granularity {}", quoted(other)),
        }),
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
    let packed = Fp8Tensor::quantize(upload(x.floats()?, [rows, columns], device), &quantizer)?;
    let scales = match packed.to_scales_async().await? {
        HostScales::F32(scales) => scales,
        HostScales::E8M0(bytes) => bytes.into_iter().map(power_of_two).collect(),
    };
    let scale = Produced::float("scale", &granularity.blocks(rows, columns), scales);
    let dequantized = download("dequantized", packed.dequantize(FloatDType::F32)?).await?;
    Ok(vec![
        scale,
        Produced {
            shape: vec![rows, columns],
            ..dequantized
        },
    ])
}

/// The value of an E8M0 byte the library makes, 1 to 254.
fn power_of_two(byte: u8) -> f32 {
    f32::from_bits(u32::from(byte) << 23)
}
