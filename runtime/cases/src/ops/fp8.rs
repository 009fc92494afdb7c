//! FP8 casts, quantised matrices, and products.
//!
//! `fp8_cast {format, saturate}`: `x` of any shape → `codes` (one byte each) and `decoded`.
//!
//! `fp8_quantize {format, granularity, margin, compute}`: `x` [R,C] and perhaps `scale` → `scale`, `codes` (a byte each) and `dequantized`
//! [R,C]. `granularity` is `tensor`, `row`, `block128` (128 × 128) or `mx`; the scales of `mx` are powers of two, stored as a byte each (E8M0),
//! and are returned as f32. A `scale` among the inputs takes the place of the one that x has: f32, or bytes for `mx`. `compute` is the dtype
//! of x: `f32`, `f16` or `bf16`.
//!
//! `fp8_linear {format, activations, history, compute}`: `x` \[M,K\], `weight_codes` \[N,K\] (a byte each), `weight_scale` and perhaps `bias`
//! \[N\] → `y` \[M,N\]. A scale multiplies its codes. There is one f32 scale for the matrix (\[1,1\]), for each row (\[N,1\]) or for each
//! block of 128 × 128, or a byte (U8, E8M0) for every 32 values of a row (\[N,⌈K/32⌉\]). `compute` is the dtype of x, the bias and y.
//!
//! `activations` says how x is quantised to `format`, too:
//! - `none`: not at all;
//! - `dynamic_tensor`, `dynamic_row`, `dynamic_block128` (1 × 128), `dynamic_mx` (1 × 32): with scales from x;
//! - `static`: with the f32 input `activation_scale` \[1\]; larger values saturate;
//! - `delayed`: x \[S,M,K\] is S batches, one after the other, and y \[S,M,N\]. The scale of a batch is the largest magnitude of the `history`
//!   batches before it, divided by the largest value of `format`, or that of the batch itself where those are all 0; larger values saturate.

use burn::tensor::{Device, FloatDType, Tensor};
use moebius::fp8::{
    self, ActivationScaling, Activations, Fp8Format, Fp8Layout, Fp8Scheme, Fp8Tensor, Granularity,
    HostScales, Overflow, Quantizer, ScaleType,
};
use moebius::nn::Linear;
use serde::Deserialize;

use super::{Input, Inputs, Produced, Values, download, download_ints, upload};
use crate::case_file::{CaseFile, quoted};
use crate::compute::{Compute, Place};
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
    #[serde(default)]
    compute: Compute,
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
    let scale = inputs.optional("scale");
    inputs.finish()?;
    let [rows, columns] = x.dims("[R,C]")?;
    let blocks = granularity.blocks(rows, columns);
    scale.map_or(Ok(()), |scale| scale.expect("the blocks of x", &blocks))?;
    let place = Place::new(params.compute, device)?;
    let x: Tensor<2> = x.at("[R,C]", &place)?;
    let packed = match scale {
        Some(scale) => {
            let scales = host_scales(&scale, granularity)?;
            let layout = Fp8Layout {
                shape: [1, rows, columns],
                scheme: Fp8Scheme {
                    format: params.format,
                    granularity,
                },
            };
            // Codes of zeros, for their scales: these are packed as the device keeps them.
            let codes = vec![0; rows * columns];
            let zeros = Fp8Tensor::from_codes(&codes, &scales, layout, device)?;
            Fp8Tensor::quantize_by(x, zeros.scales().clone(), &quantizer)?
        }
        None => Fp8Tensor::quantize(x, &quantizer)?,
    };
    let scales = Values::Float(packed.to_scales_async().await?.to_f32());
    let codes = packed.to_codes_async().await?;
    let codes = codes.into_iter().map(i64::from).collect();
    let dequantized = download("dequantized", packed.dequantize(FloatDType::F32)?).await?;
    Ok(vec![
        Produced::new("scale", &blocks, scales),
        Produced::new("codes", &[rows, columns], Values::Int(codes)),
        Produced {
            shape: vec![rows, columns],
            ..dequantized
        },
    ])
}

/// The scales of an input in the form that a granularity has.
fn host_scales(scale: &Input<'_>, granularity: Granularity) -> Result<HostScales, OpError> {
    Ok(match granularity.scale_type() {
        ScaleType::F32 => HostScales::F32(scale.view.to_f32()?),
        ScaleType::E8M0 => HostScales::E8M0(scale.view.to_bytes()?),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Product {
    format: Fp8Format,
    activations: Rounding,
    history: Option<usize>,
    #[serde(default)]
    compute: Compute,
}

/// Quantisation of the activations x.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rounding {
    None,
    DynamicTensor,
    DynamicRow,
    DynamicBlock128,
    DynamicMx,
    Static,
    Delayed,
}

impl Product {
    /// Where the scales of activations come from; refuses a missing or useless history.
    fn source(&self) -> Result<Activations, OpError> {
        let source = Activations::Dynamic(match (self.activations, self.history) {
            (Rounding::Delayed, Some(history)) => return Ok(Activations::Delayed { history }),
            (Rounding::Delayed, None) => {
                let message = "parameter history is missing, which delayed activations need";
                return Err(OpError::Misfit(message.to_owned()));
            }
            (_, Some(_)) => {
                let message = "parameter history has no effect without delayed activations";
                return Err(OpError::Misfit(message.to_owned()));
            }
            (Rounding::None, None) => return Ok(Activations::Float),
            (Rounding::Static, None) => return Ok(Activations::Static),
            (Rounding::DynamicTensor, None) => Granularity::Tensor,
            (Rounding::DynamicRow, None) => Granularity::Row,
            (Rounding::DynamicBlock128, None) => Granularity::of_blocks(1, 128),
            (Rounding::DynamicMx, None) => Granularity::Mx,
        });
        Ok(source)
    }

    /// The rounding of activations, with a fixed scale if there is an input with one.
    fn scaling(
        &self,
        scale: Option<Input<'_>>,
        device: &Device,
    ) -> Result<ActivationScaling, OpError> {
        let source = self.source()?;
        let scaling = match scale {
            Some(scale) => {
                scale.expect("[1]", &[1])?;
                ActivationScaling::fixed(scale.view.to_f32()?[0], device)?
            }
            None => ActivationScaling::new(source, device),
        };
        Ok(scaling.with_format(self.format))
    }
}

/// The granularity of the weights' scales, determined from their type and shape.
fn granularity(scale: &Input<'_>, [n, k]: [usize; 2]) -> Result<Granularity, OpError> {
    if scale.view.is_integer() {
        let [down, across] = Granularity::Mx.blocks(n, k);
        scale.expect("[N,K/32]", &[down, across])?;
        return Ok(Granularity::Mx);
    }
    let of = [Granularity::Row, Granularity::Tensor, BLOCK128];
    let fits = |granularity: &Granularity| granularity.blocks(n, k) == scale.view.shape;
    of.into_iter().find(fits).ok_or_else(|| {
        let blocks = BLOCK128.blocks(n, k);
        scale.shape_error(format!("[N,1] = [{n}, 1], [1, 1] or {blocks:?}"))
    })
}

/// The inputs of a product, checked.
struct Operands<'a> {
    x: Input<'a>,
    /// The batches S of x and their rows M; S is 1 unless scales are delayed.
    rows: [usize; 2],
    codes: Input<'a>,
    scale: Input<'a>,
    /// Extents N and K of the weights.
    extents: [usize; 2],
    bias: Option<Input<'a>>,
    activation_scale: Option<Input<'a>>,
}

impl<'a> Operands<'a> {
    fn read(case: &'a CaseFile, product: &Product) -> Result<Self, OpError> {
        let mut inputs = Inputs::new(case);
        let x = inputs.required("x")?;
        let codes = inputs.required("weight_codes")?;
        let scale = inputs.required("weight_scale")?;
        let bias = inputs.optional("bias");
        let activation_scale = match product.activations {
            Rounding::Static => Some(inputs.required("activation_scale")?),
            _ => None,
        };
        inputs.finish()?;
        let (rows, k) = match product.activations {
            Rounding::Delayed => {
                let [batches, rows, k] = x.dims("[S,M,K]")?;
                // Batches of no rows would be as many as the file says.
                x.expect_positive("[S,M,K]", 0)?;
                ([batches, rows], k)
            }
            _ => {
                let [rows, k] = x.dims("[M,K]")?;
                ([1, rows], k)
            }
        };
        let [n, _] = codes.dims::<2>("[N,K]")?;
        codes.expect("[N,K]", &[n, k])?;
        codes.expect_positive("[N,K]", 0)?;
        bias.map_or(Ok(()), |bias| bias.expect("[N]", &[n]))?;
        Ok(Self {
            x,
            rows,
            codes,
            scale,
            extents: [n, k],
            bias,
            activation_scale,
        })
    }

    fn layer(&self, product: &Product, place: &Place) -> Result<Linear, OpError> {
        let [n, k] = self.extents;
        let granularity = granularity(&self.scale, [n, k])?;
        let layout = Fp8Layout {
            shape: [1, n, k],
            scheme: Fp8Scheme {
                format: product.format,
                granularity,
            },
        };
        let (scales, device) = (host_scales(&self.scale, granularity)?, place.device());
        let weight = Fp8Tensor::from_codes(&self.codes.view.to_bytes()?, &scales, layout, device)?;
        let bias = self.bias.map(|bias| bias.at("[N]", place)).transpose()?;
        let activations = product.scaling(self.activation_scale, device)?;
        Ok(Linear::from_fp8(weight, bias)?.with_activations(activations)?)
    }
}

pub(crate) async fn linear(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let product: Product = case.params()?;
    product.source()?;
    let operands = Operands::read(case, &product)?;
    let place = Place::new(product.compute, device)?;
    let linear = operands.layer(&product, &place)?;
    let ([batches, rows], [n, k]) = (operands.rows, operands.extents);
    let values = operands.x.view.to_f32()?;
    let mut y = Vec::new();
    for batch in 0..batches {
        let x = values[batch * rows * k..][..rows * k].to_vec();
        let part = linear.forward(place.put(x, [rows, k]))?;
        if let Values::Float(part) = download("y", part).await?.values {
            y.extend(part);
        }
    }
    let (all, one) = ([batches, rows, n], [rows, n]);
    let shape: &[usize] = match product.activations {
        Rounding::Delayed => &all,
        _ => &one,
    };
    Ok(vec![Produced::new("y", shape, Values::Float(y))])
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
