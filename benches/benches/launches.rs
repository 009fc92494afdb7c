//! `cargo bench --bench launches [-- DEVICE]`: what launches of next to no work cost, and one byte through the small byte model.

use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius_benches::BenchError;
use moebius_benches::timing::median;
use moebius_model::{TrainConfig, VOCABULARY};
use std::error::Error;

/// Launches in a row: as many as one to some tens of layers take.
const ROWS: [usize; 4] = [8, 32, 64, 256];
/// After how many launches the host waits for the device, where it does.
const PACE: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().skip(1).find(|name| name != "--bench");
    let name: moebius::Device = name.unwrap_or("cpu".into()).parse()?;
    let device = moebius::open(&name)?;
    for row in ROWS {
        let [free, paced] = [row, PACE].map(|pace| additions(row, pace, &device));
        let [free, paced] = [free?, paced?].map(|seconds| seconds / row as f64 * 1e6);
        println!(
            "{name} {row:>3} additions: {free:>6.1} µs each, {paced:>6.1} where the host waits after every {PACE}"
        );
    }
    let ms = byte(&device)? * 1e3;
    println!("{name} one byte through the byte model: {ms:.3} ms");
    Ok(())
}

/// Median seconds of `count` additions of 1 to one number; the host waits after every `pace` of them.
fn additions(count: usize, pace: usize, device: &Device) -> Result<f64, Box<dyn Error>> {
    let mut x = Tensor::<1>::zeros([1], device);
    let mut expected = 0;
    let seconds = median(|| {
        for done in 1..=count {
            x = x.clone().add_scalar(1.0);
            if done % pace == 0 {
                moebius::keep_pace(device)?;
            }
        }
        expected += count;
        finish(device)
    })?;
    let sum: f32 = x.into_scalar();
    if sum != expected as f32 {
        return Err(format!("expected {expected}, got {sum}").into());
    }
    Ok(seconds)
}

/// Median seconds of one forward of the model that `moebius train` begins with, for one byte.
fn byte(device: &Device) -> Result<f64, Box<dyn Error>> {
    let decoder = TrainConfig::default().decoder.init(0, device)?;
    let byte = Tensor::<2, Int>::from_data(TensorData::from([[i32::from(b'a')]]), device);
    let forward = || decoder.forward(byte.clone());
    let logits = forward()?.logits;
    let numbers = logits.to_data();
    let finite = numbers.iter::<f32>().all(f32::is_finite);
    if logits.dims() != [1, VOCABULARY] || !finite {
        return Err(format!("expected 256 finite logits, got {logits}").into());
    }
    let seconds = median(|| {
        forward().map_err(|error| BenchError::Device(error.to_string()))?;
        finish(device)
    })?;
    Ok(seconds)
}

fn finish(device: &Device) -> Result<(), BenchError> {
    device
        .sync()
        .map_err(|error| BenchError::Device(error.to_string()))
}
