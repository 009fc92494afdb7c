//! `cargo bench --bench grouped_gemm [-- DEVICE]`: the tiled variants against the naive one.

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
}
