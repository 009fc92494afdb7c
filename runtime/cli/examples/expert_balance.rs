//! A bias that follows the load spreads tokens over all experts without any loss, as DeepSeek-V3 balances its own.

use std::error::Error;

use burn::tensor::{Device, Distribution, Tensor};
use moebius::moe::{LoadStatistics, MoeConfig, SigmoidBiasConfig};

const FORWARDS: usize = 100;

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    // The bias moves in training, which is a forward on a device that records gradients.
    let device = device.clone().autodiff();
    device.seed(1);
    let router = SigmoidBiasConfig {
        rate: 0.01,
        ..SigmoidBiasConfig::default()
    };
    let layer = MoeConfig::new(16, 16, 8)
        .with_router(router)
        .init(&device)?;
    // All tokens point in much the same direction, so that most of them want the same experts.
    let x = Tensor::<2>::random([256, 16], Distribution::Normal(1.0, 1.0), &device);
    let mut figures = String::from("forward  busiest / mean  slots of each expert");
    let mut busiest = Vec::new();
    for forward in 0..=FORWARDS {
        let routing = layer.forward(x.clone())?.routing;
        if forward % 20 == 0 {
            let load = LoadStatistics::read(routing.load()?)?;
            let times_mean = load.balance.ok_or("no slots")?.max_over_mean;
            figures += &format!("\n{forward:7}  {times_mean:14.2}  {:?}", load.counts);
            busiest.push(times_mean);
        }
    }
    let (before, after) = (busiest[0], busiest[busiest.len() - 1]);
    let fact = format!(
        "the busiest expert has {before:.2} times the mean load at first, and {after:.2} times after {FORWARDS} forwards"
    );
    Ok((figures, fact, before > 1.5 && after < 1.25))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
