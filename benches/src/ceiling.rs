//! The peak a result is compared with, measured on the device in the same run.

use crate::BenchError;
use crate::timing::fastest;
use burn::tensor::{Device, Distribution, Tensor};
use cubecl::client::Client;
use moebius_device::{Capability, Opened};
use moebius_shaders::peak;

/// Waits for everything enqueued on `client`.
pub(crate) fn wait(client: &Client) -> Result<(), BenchError> {
    cubecl::future::block_on(client.sync()).map_err(BenchError::device)
}

/// Waits for everything enqueued on a Burn device.
pub(crate) fn finish(device: &Device) -> Result<(), BenchError> {
    device.sync().map_err(BenchError::device)
}

/// [`finish`] for what gives `results`, which are held until then: a device that records operations leaves
/// out those whose results are dropped.
pub(crate) fn finish_with<T>(results: T, device: &Device) -> Result<(), BenchError> {
    let finished = finish(device);
    drop(results);
    finished
}

/// FLOP/s of what a result is compared with, and what that is.
pub(crate) fn peak(opened: &Opened, device: &Device) -> Result<(f64, &'static str), BenchError> {
    Ok(match opened.client() {
        Some(client) => {
            let rate = multiply_adds(&client, &opened.capability)?;
            (rate, "f32 multiply-adds")
        }
        None => (matmul(device)?, "a 1024³ f32 matmul"),
    })
}

/// Bytes per second at which as many threads as there are processors read memory, each a part of far more than a cache holds.
pub(crate) fn read_rate() -> Result<f64, BenchError> {
    const WORDS: usize = 1 << 25;
    let words: Vec<u64> = (0..WORDS as u64).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let seconds = fastest(|| {
        std::thread::scope(|scope| {
            for part in words.chunks(WORDS.div_ceil(threads)) {
                scope.spawn(|| {
                    let sum = part.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
                    std::hint::black_box(sum)
                });
            }
        });
        Ok(())
    })?;
    Ok((8 * WORDS) as f64 / seconds)
}

/// FLOP/s of independent f32 multiply-adds in registers.
fn multiply_adds(client: &Client, device: &Capability) -> Result<f64, BenchError> {
    let plan = peak::plan(device);
    let out = client.empty(plan.bytes());
    let seconds = fastest(|| {
        peak::launch(client, &plan, out.clone());
        wait(client)
    })?;
    Ok(plan.flops() as f64 / seconds)
}

/// FLOP/s of Burn's own 1024³ product: the peak of a backend without kernels of ours.
fn matmul(device: &Device) -> Result<f64, BenchError> {
    const EDGE: usize = 1024;
    let random = || Tensor::<2>::random([EDGE, EDGE], Distribution::Default, device);
    let (a, b) = (random(), random());
    let seconds = fastest(|| {
        let _product = a.clone().matmul(b.clone());
        finish(device)
    })?;
    Ok(2.0 * (EDGE as f64).powi(3) / seconds)
}
