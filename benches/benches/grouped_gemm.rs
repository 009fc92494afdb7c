//! `cargo bench --bench grouped_gemm [-- DEVICE]`: the tiled variants against the naive one, and the
//! gradients of a product against the product.

use moebius_benches::gradient::backward;
use moebius_benches::naive::compare;
use moebius_device::Device;
use moebius_shaders::grouped_gemm::Variant;

fn main() {
    let name = std::env::args().skip(1).find(|name| name != "--bench");
    let device: Device = match name.unwrap_or("wgpu".into()).parse() {
        Ok(device) => device,
        Err(error) => return eprintln!("{error}"),
    };
    let variants: &[Variant] = match device {
        Device::Cpu => &[Variant::Cpu],
        _ => &[Variant::Unit, Variant::Gemv],
    };
    for sizes in [[1024, 4, 256, 256], [512, 8, 512, 512], [16, 8, 512, 512]] {
        match compare(&device, variants, sizes) {
            Ok(times) => times.iter().for_each(|time| {
                println!(
                    "{device} {sizes:?} {:<12} {:>9.2} ms {:>8.2} GFLOP/s {:>5.2} x naive{}",
                    time.variant.name(),
                    time.median_ms,
                    time.gflops,
                    time.over_naive,
                    if time.verified { "" } else { "  WRONG RESULT" },
                );
            }),
            Err(error) => println!("{device} {sizes:?}: {error}"),
        }
    }
    gradients(&device);
}

/// A software adapter would take minutes for the sizes of the main job.
fn gradients(device: &Device) {
    let sizes = match device {
        Device::Cpu => [[8192, 8, 2048, 512], [8192, 8, 4096, 1024]],
        _ => [[1024, 4, 256, 256], [512, 8, 512, 512]],
    };
    for sizes in sizes {
        match backward(device, sizes) {
            Ok(times) => times.iter().for_each(|time| {
                println!(
                    "{device} {sizes:?} {:<16} {:>9.2} ms {:>8.2} GFLOP/s {:>5.2} of the product{}",
                    time.what,
                    time.median_ms,
                    time.gflops,
                    time.of_product,
                    if time.verified { "" } else { "  WRONG RESULT" },
                );
            }),
            Err(error) => println!("{device} {sizes:?}: {error}"),
        }
    }
}
