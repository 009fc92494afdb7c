//! One layer computes the same on every device of this machine, whoever made it.

use std::error::Error;

use burn::tensor::{Device, Distribution, Tensor};
use moebius::moe::{Activation, MoeConfig, MoeWeights};
use moebius_ops::distance;

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    device.seed(1);
    let config = MoeConfig::new(64, 128, 8)
        .with_activation(Activation::Silu)
        .with_gated(true);
    let layer = config.init(device)?;
    let x = Tensor::<2>::random([32, 64], Distribution::Default, device);
    let here: Vec<f32> = layer.forward(x.clone())?.y.try_into_vec_as()?;
    let weights = layer.weights().ok_or("the layer has other weights")?;

    let mut figures = String::from("device        apart");
    let (mut devices, mut most) = (0, 0.0f64);
    // XLA takes seconds to compile a layer: its devices are left out here, but may be the one asked for.
    for found in moebius_device::discover() {
        if found.status.is_err() {
            continue;
        }
        let other = moebius::open(&found.device)?;
        let weights = MoeWeights {
            router: moved(&weights.router, &other)?,
            w_in: moved(&weights.w_in, &other)?,
            b_in: None,
            w_out: moved(&weights.w_out, &other)?,
            b_out: None,
        };
        let y = config.with_weights(weights)?.forward(moved(&x, &other)?)?.y;
        let there: Vec<f32> = y.try_into_vec_as()?;
        let apart = distance(&there, &here);
        let name = found.device.to_string();
        figures += &format!("\n{name:12}  {apart:.0e}");
        (devices, most) = (devices + 1, most.max(apart));
    }
    let fact = format!("on {devices} devices y differs by {most:.0e} of itself at most");
    Ok((figures, fact, devices > 0 && most <= 1e-5))
}

/// A copy of a tensor on another device.
fn moved<const D: usize>(tensor: &Tensor<D>, device: &Device) -> Result<Tensor<D>, Box<dyn Error>> {
    Ok(Tensor::from_data(tensor.try_to_data()?, device))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
