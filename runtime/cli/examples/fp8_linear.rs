//! A linear layer keeps its weights as FP8 codes in a quarter of the bytes, and no weight moves by more than half a step of E4M3.

use std::error::Error;

use burn::tensor::{Device, Distribution, Tensor};
use moebius::fp8::{Fp8Format, Granularity, Quantizer};
use moebius::nn::LinearConfig;
use moebius_ops::distance;

/// Half a step of E4M3 as a share of a number: it keeps three bits after the first.
const HALF_STEP: f32 = 1.0 / 16.0;

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    device.seed(1);
    let layer = LinearConfig::new(512, 256).init(device)?;
    let small = layer.quantize(&Quantizer::new(Fp8Format::E4M3, Granularity::Tensor))?;

    let weights: Vec<f32> = layer.weight.values()?.try_into_vec_as()?;
    let decoded: Vec<f32> = small.weight.values()?.try_into_vec_as()?;
    // The largest weight becomes 448. Steps don't shrink any more below 2⁻⁶ of what is then 1.
    let largest = weights.iter().fold(0.0f32, |most, w| most.max(w.abs()));
    let least = largest / 448.0 / 64.0;
    let pairs = weights.iter().zip(&decoded);
    let moved = pairs.map(|(w, code)| (w - code).abs() / w.abs().max(least));
    let moved = moved.max_by(f32::total_cmp).ok_or("no weights")?;

    let x = Tensor::<2>::random([16, 512], Distribution::Normal(0.0, 1.0), device);
    let y: Vec<f32> = layer.forward(x.clone())?.try_into_vec_as()?;
    let y_of_codes: Vec<f32> = small.forward(x)?.try_into_vec_as()?;
    let figures = format!(
        "bytes in f32: {}\nbytes in FP8: {}\ny moved by {:.1} % of itself",
        layer.bytes(),
        small.bytes(),
        100.0 * distance(&y_of_codes, &y)
    );
    let share = 100 * small.bytes() / layer.bytes();
    let fact = format!(
        "weights take {share} % of the bytes, and none moved by more than {:.2} % of itself; half a step is {} %",
        100.0 * moved,
        100.0 * HALF_STEP
    );
    // Scales and quotients are rounded to f32.
    let holds = share <= 26 && moved <= HALF_STEP * 1.0001;
    Ok((figures, fact, holds))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
