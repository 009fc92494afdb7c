//! A checkpoint becomes FP8 on disk: matrices turn into codes and scales that a layer takes as they are, all else stays byte for byte.

use std::collections::BTreeMap;
use std::error::Error;

use burn::tensor::{Device, Distribution, Tensor, TensorData};
use moebius::fp8::{Fp8Format, Fp8Layout, Fp8Scheme, Fp8Tensor, Granularity};
use moebius::nn::{Linear, linear};
use moebius_ops::distance;
use moebius_weights::{
    ConvertOptions, Dtype, Reader, TensorSpec, Unscaled, Writer, convert, host_quantizer,
};

const MATRIX: &str = "model.layers.0.self_attn.q_proj.weight";
const NORM: &str = "model.layers.0.input_layernorm.weight";
const SIZE: usize = 256;

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let [before, after] = ["f32.safetensors", "fp8.safetensors"].map(|at| folder.path().join(at));
    let tensors = [(MATRIX, vec![SIZE, SIZE]), (NORM, vec![SIZE])];
    let specs = tensors.map(|(name, shape)| TensorSpec {
        name: name.to_owned(),
        dtype: Dtype::F32,
        shape,
    });
    let mut writer = Writer::file(&before, &specs, &BTreeMap::new())?;
    for spec in &specs {
        let count: usize = spec.shape.iter().product();
        let values = (0..count).map(|at| (at as f32).sin());
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        writer.append(&spec.name, &bytes)?;
    }
    writer.finish()?;

    let scheme = Fp8Scheme {
        format: Fp8Format::E4M3,
        granularity: Granularity::Row,
    };
    let (source, options) = (Reader::open(&before)?, ConvertOptions::new(scheme));
    let mut quantize = host_quantizer(scheme);
    let report = convert(&source, &after, &options, &mut quantize, &mut |_, _, _| ())?;

    let converted = Reader::open(&after)?;
    let weight = converted.fp8_weight(&converted.fp8_layout(MATRIX, Unscaled::Refuse)?)?;
    let layout = Fp8Layout {
        shape: weight.extents(),
        scheme,
    };
    let codes = Fp8Tensor::from_codes(&weight.codes, &weight.scales, layout, device)?;
    device.seed(1);
    let x = Tensor::<2>::random([8, SIZE], Distribution::Default, device);
    let by_codes = Linear::from_fp8(codes, None)?.forward(x.clone())?;
    let decoded = TensorData::new(weight.dequantize()?, [SIZE, SIZE]);
    let by_values = linear(x, Tensor::from_data(decoded, device), None)?;
    let by_codes: Vec<f32> = by_codes.try_into_vec_as()?;
    let by_values: Vec<f32> = by_values.try_into_vec_as()?;

    let apart = distance(&by_codes, &by_values);
    let share = 100 * report.bytes_after / report.bytes_before;
    let same = converted.read(NORM)? == source.read(NORM)?;
    let error = 100.0 * report.layers.first().ok_or("no matrix")?.relative_rms;
    let figures = format!(
        "the file takes {share} % of the bytes\nerror of the matrix: {error:.1} %\nnorm as it was: {same}"
    );
    let fact =
        format!("a product with the file's codes is {apart:.0e} apart from that with their values");
    Ok((figures, fact, same && share < 30 && apart <= 1e-5))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
