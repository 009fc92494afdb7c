//! `fp8_linear {format, activations}`: `x` \[M,K\], `weight_codes` \[N,K\] (a byte each), `weight_scale`
//! and perhaps `bias` \[N\] → `y` \[M,N\].
//!
//! A scale multiplies its codes. There is one for all (\[1,1\]), for each row (\[N,1\]) or for each block of
//! 128 × 128. `activations` is `none`, or `dynamic_row`, `dynamic_tensor` or `dynamic_block128` (1 × 128)
//! where x is rounded to E4M3 or E5M2 as well.

use burn::tensor::Device;
use moebius::fp8::{
    ActivationScaling, Activations, Fp8Format, Fp8Layout, Fp8Tensor, Granularity, HostScales,
};
use moebius::nn::Linear;
use serde::Deserialize;

use super::inputs::{Input, Inputs};
use super::{OpError, Produced, download};
use crate::case_file::CaseFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    format: Fp8Format,
    activations: Rounding,
}

/// How x is rounded.
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
        match self {
            Self::None => Activations::Float,
            Self::DynamicTensor => Activations::Dynamic(Granularity::Tensor),
            Self::DynamicRow => Activations::Dynamic(Granularity::Row),
            Self::DynamicBlock128 => Activations::Dynamic(Granularity::Block {
                rows: 1,
                columns: 128,
            }),
        }
    }
}

/// Which weights share a scale, told by the shape of the scales.
fn granularity(scale: &Input, shape: [usize; 2]) -> Result<Granularity, OpError> {
    let block = Granularity::Block {
        rows: 128,
        columns: 128,
    };
    let of = [Granularity::Row, Granularity::Tensor, block];
    let fits = |granularity: &Granularity| granularity.blocks(shape[0], shape[1]) == scale.shape();
    let [n, k] = shape;
    of.into_iter().find(fits).ok_or_else(|| {
        let blocks = block.blocks(n, k);
        scale.shape_error(format!("[N,1] = [{n}, 1], [1, 1] or {blocks:?}"))
    })
}

pub(crate) async fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let Params {
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
        format,
        granularity: granularity(&scale, [n, k])?,
    };
    let scales = HostScales::F32(scale.floats()?);
    let weight = Fp8Tensor::from_codes(&codes.bytes()?, &scales, layout, device)?;
    let bias = bias.map(|bias| bias.on(device)).transpose()?;
    let activations = ActivationScaling::new(activations.source(), device).with_format(format);
    let linear = Linear::from_fp8(weight, bias)?.with_activations(activations)?;
    let y = linear.forward(x.on::<2>(device)?)?;
    Ok(vec![download("y", y).await?])
}
