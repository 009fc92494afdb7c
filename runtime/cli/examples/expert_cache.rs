//! Experts that don't fit on the device wait in main memory and come when a token needs them, which changes no output.

use std::error::Error;

use burn::tensor::{Device, Distribution, Tensor};
use moebius::moe::MoeConfig;
use moebius::moe::switching::HostLayer;
use moebius_ops::distance;

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    device.seed(1);
    let layer = MoeConfig::new(64, 128, 8).init(device)?;
    let x = Tensor::<2>::random([32, 64], Distribution::Default, device);
    let resident: Vec<f32> = layer.forward(x.clone())?.y.try_into_vec_as()?;

    let host = HostLayer::read(layer)?;
    let all: u64 = host.experts.iter().map(|expert| expert.bytes()).sum();
    // Half of the experts' bytes: three experts in place, and one on its way.
    let mut cached = host.switched(all / 2, device)?;
    let moved: Vec<f32> = cached.forward(x)?.y.try_into_vec_as()?;

    let (places, statistics) = (cached.cache().places(), cached.cache().statistics());
    let figures = format!(
        "places for experts: {places} of 8\nexperts moved to the device: {}\nbytes moved: {}",
        statistics.misses, statistics.moved_bytes
    );
    let apart = distance(&moved, &resident);
    let fact = format!("with places for {places} of 8 experts y differs by {apart:.0e} of itself");
    // XLA alone rounds where the rest of a program decides; all other devices give the same bits.
    Ok((figures, fact, places < 8 && apart <= 1e-5))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
