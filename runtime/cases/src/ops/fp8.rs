//! FP8 casts, quantised matrices, and products.
//!
//! `fp8_cast {format, saturate}`: `x` of any shape → `codes` (one byte each) and `decoded`.
//!
//! `fp8_quantize {format, granularity, margin}`: `x` [R,C] → `scale` and `dequantized` [R,C]. `granularity` is `tensor`, `row`, `block128`
//! (128 × 128) or `mx`; the scales of `mx` are powers of two, stored as a byte each, and are returned as f32.
//!
//! `fp8_linear {format, activations}`: `x` \[M,K\], `weight_codes` \[N,K\] (a byte each), `weight_scale` and perhaps `bias` \[N\] → `y`
//! \[M,N\]. A scale multiplies its codes. There is one scale for the matrix (\[1,1\]), for each row (\[N,1\]) or for each block of 128 ×
//! 128. `activations` is `none`, or, to quantise x to E4M3 or E5M2 as well, `dynamic_row`, `dynamic_tensor` or `dynamic_block128` (1 ×
//! 128).

use burn::tensor::{Device, FloatDType, Tensor};
use moebius::fp8::{
    self, ActivationScaling, Activations, Fp8Format, Fp8Layout, Fp8Scheme, Fp8Tensor, Granularity,
    HostScales, Overflow, Quantizer,
};
use moebius::nn::Linear;
use serde::Deserialize;

use super::{Input, Inputs, Produced, Values, download, download_ints, upload};
use crate::case_file::{CaseFile, quoted};
use crate::error::OpError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cast {
    format: Fp8Format,
    saturate: bool,
}

pub(crate) async fn cast(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let Cast { format, saturate } = case.params()?;
    let overflow = if saturate {
        Overflow::Saturate
    } else {
        Overflow::Ieee
    };
    let mut inputs = Inputs::new(case);
    let x = inputs.required("x")?;
    inputs.finish()?;
    let values = x.view.to_f32()?;
    let len = values.len();
    let x_device: Tensor<1> = upload(values, [len], device);
    let words = fp8::encode(x_device, format, overflow)?;
    let decoded = fp8::decode(words.clone(), len, format)?;
    let codes = unpack(&download_ints("codes", words).await?, len);
    let decoded = Produced {
        shape: x.view.shape.to_vec(),
        ..download("decoded", decoded).await?
    };
    Ok(vec![
        Produced::new("codes", x.view.shape, Values::Int(codes)),
        decoded,
    ])
}

/// Unpacks the four codes of each word, lane 0 in the low byte; the last word may hold fewer.
fn unpack(words: &[i64], len: usize) -> Vec<i64> {
    let lanes = |&word: &i64| [0, 8, 16, 24].map(|shift| (word >> shift) & 0xFF);
    words.iter().flat_map(lanes).take(len).collect()
}

const BLOCK128: Granularity = Granularity::of_blocks(128, 128);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Quantize {
    format: Fp8Format,
    granularity: String,
    #[serde(default)]
    margin: i32,
}

pub(crate) async fn quantize(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let params: Quantize = case.params()?;
    let granularity = match params.granularity.as_str() {
        "tensor" => Granularity::Tensor,
        "row" => Granularity::Row,
        "block128" => BLOCK128,
        "mx" => Granularity::Mx,
        other => {
            let op = format!("fp8_quantize with granularity {}", quoted(other));
            return Err(OpError::Unsupported(op));
        }
    };
    let quantizer = Quantizer::new(params.format, granularity).with_margin(params.margin);
    quantizer.validate().map_err(moebius::Error::from)?;
    let mut inputs = Inputs::new(case);
    let x = inputs.required("x")?;
    inputs.finish()?;
    let [rows, columns] = x.dims("[R,C]")?;
    let packed = Fp8Tensor::quantize(x.on::<2>(device)?, &quantizer)?;
    let scales = Values::Float(packed.to_scales_async().await?.to_f32());
    let dequantized = download("dequantized", packed.dequantize(FloatDType::F32)?).await?;
    Ok(vec![
        Produced::new("scale", &granularity.blocks(rows, columns), scales),
        Produced {
            shape: vec![rows, columns],
            ..dequantized
        },
    ])
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Product {
    format: Fp8Format,
    activations: Rounding,
}

/// Quantisation of the activations x.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rounding {
    None,
    DynamicTensor,
    DynamicRow,
    DynamicBlock128,
}

impl Rounding {
    fn source(self) -> Activations {
        Activations::Dynamic(match self {
            Self::None => return Activations::Float,
            Self::DynamicTensor => Granularity::Tensor,
            Self::DynamicRow => Granularity::Row,
            Self::DynamicBlock128 => Granularity::of_blocks(1, 128),
        })
    }
}

/// The granularity of the weights' scales, determined from the scales' shape.
fn granularity(scale: &Input, [n, k]: [usize; 2]) -> Result<Granularity, OpError> {
    let of = [Granularity::Row, Granularity::Tensor, BLOCK128];
    let fits = |granularity: &Granularity| granularity.blocks(n, k) == scale.view.shape;
    of.into_iter().find(fits).ok_or_else(|| {
        let blocks = BLOCK128.blocks(n, k);
        scale.shape_error(format!("[N,1] = [{n}, 1], [1, 1] or {blocks:?}"))
    })
}

pub(crate) async fn linear(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let Product {
        format,
        activations,
    } = case.params()?;
    let mut inputs = Inputs::new(case);
    let x = inputs.required("x")?;
    let codes = inputs.required("weight_codes")?;
    let scale = inputs.required("weight_scale")?;
    let bias = inputs.optional("bias");
    inputs.finish()?;
    let [_, k] = x.dims("[M,K]")?;
    let [n, _] = codes.dims::<2>("[N,K]")?;
    codes.expect("[N,K]", &[n, k])?;
    codes.expect_positive("[N,K]", 0)?;
    if let Some(bias) = &bias {
        bias.expect("[N]", &[n])?;
    }
    let layout = Fp8Layout {
        shape: [1, n, k],
        scheme: Fp8Scheme {
            format,
            granularity: granularity(&scale, [n, k])?,
        },
    };
    let scales = HostScales::F32(scale.view.to_f32()?);
    let weight = Fp8Tensor::from_codes(&codes.view.to_bytes()?, &scales, layout, device)?;
    let bias = bias.map(|bias| bias.on(device)).transpose()?;
    let activations = ActivationScaling::new(activations.source(), device).with_format(format);
    let linear = Linear::from_fp8(weight, bias)?.with_activations(activations)?;
    let y = linear.forward(x.on::<2>(device)?)?;
    Ok(vec![download("y", y).await?])
}

#[cfg(test)]
mod tests {
    use super::unpack;

    #[test]
    fn lane_0_is_the_low_byte_and_padding_is_dropped() {
        // A device that stores words as i32 returns the second word as a negative number.
        let words = [0x0403_0201, i64::from(0x8877_6655_u32 as i32)];
        assert_eq!(unpack(&words, 7), [1, 2, 3, 4, 0x55, 0x66, 0x77]);
        assert_eq!(unpack(&words, 8)[7], 0x88);
        assert_eq!(unpack(&[], 0), [0_i64; 0]);
    }
}
