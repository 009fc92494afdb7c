//! A mixture of experts runs as one fused layer, and computes what its definition says: y_t = Σ_k w_tk · expert(x_t).

use std::error::Error;

use burn::tensor::activation::silu;
use burn::tensor::{Device, Distribution, Tensor};
use moebius::moe::{Activation, LoadStatistics, MoeConfig, MoeOutput, MoeWeights};
use moebius::nn::linear;
use moebius_ops::distance;

const HIDDEN: usize = 64;
const WIDTH: usize = 128;
const EXPERTS: usize = 4;

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    device.seed(1);
    let layer = config().init(device)?;
    let x = Tensor::<2>::random([32, HIDDEN], Distribution::Default, device);
    let fused = layer.forward(x.clone())?;
    let weights = layer.weights().ok_or("the layer has other weights")?;
    compare(fused, &weights, x)
}

/// The layer: each token takes two of four gated experts.
pub(crate) fn config() -> MoeConfig {
    MoeConfig::new(HIDDEN, WIDTH, EXPERTS)
        .with_activation(Activation::Silu)
        .with_gated(true)
}

/// Compares the fused layer's output for x with that of its experts one by one, each computed for all tokens and weighted with what the
/// router gave it: 0 for the tokens that went elsewhere.
pub(crate) fn compare(
    fused: MoeOutput<2>,
    weights: &MoeWeights,
    x: Tensor<2>,
) -> Result<(String, String, bool), Box<dyn Error>> {
    let routing = &fused.routing;
    let mut composed = x.zeros_like();
    for expert in 0..EXPERTS {
        let of = |stack: &Tensor<3>| stack.clone().narrow(0, expert, 1).squeeze_dim::<2>(0);
        // The rows of the gate come before those of the up projection.
        let both = linear(x.clone(), of(&weights.w_in), None)?;
        let gate = both.clone().narrow(1, 0, WIDTH);
        let up = both.narrow(1, WIDTH, WIDTH);
        let out = linear(silu(gate) * up, of(&weights.w_out), None)?;
        let chosen = routing.indices.clone().equal_elem(expert as i64).float();
        composed = composed + out * (chosen * routing.weights.clone()).sum_dim(1);
    }
    let slots = LoadStatistics::read(routing.load()?)?.counts;
    let fused: Vec<f32> = fused.y.try_into_vec_as()?;
    let composed: Vec<f32> = composed.try_into_vec_as()?;
    let apart = distance(&fused, &composed);
    let figures = format!("slots of each expert: {slots:?}");
    let fact = format!("the fused layer and its experts one by one differ by {apart:.0e} of y");
    Ok((figures, fact, apart <= 1e-5))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
