//! `cargo bench --bench grouped_gemm [-- DEVICE]`: the tiled variants against the naive one, and the
//! gradients of a product against the product.

use moebius_benches::BenchError;
use moebius_benches::grouped_gemm::{KernelTime, gradients, variants};
use moebius_device::Device;
use moebius_shaders::grouped_gemm::Variant;

fn main() {
    let name = std::env::args().skip(1).find(|name| name != "--bench");
    let device: Device = match name.unwrap_or("wgpu".into()).parse() {
        Ok(device) => device,
        Err(error) => return eprintln!("{error}"),
    };
    // A software adapter would take minutes for gradients of the sizes of the main job.
    let (tiled, large): (&[Variant], _) = match device {
        Device::Cpu => (
            &[Variant::Cpu],
            [[8192, 8, 2048, 512], [8192, 8, 4096, 1024]],
        ),
        _ => (
            &[Variant::Unit, Variant::Gemv],
            [[1024, 4, 256, 256], [512, 8, 512, 512]],
        ),
    };
    for sizes in [[1024, 4, 256, 256], [512, 8, 512, 512], [16, 8, 512, 512]] {
        let times = variants(&device, tiled, sizes);
        print(&format!("{device} {sizes:?}"), times, "x naive");
    }
    for sizes in large {
        let times = gradients(&device, sizes);
        print(&format!("{device} {sizes:?}"), times, "of the product");
    }
}

fn print(title: &str, times: Result<Vec<KernelTime>, BenchError>, of: &str) {
    match times {
        Ok(times) => times.iter().for_each(|time| {
            println!(
                "{title} {:<16} {:>9.2} ms {:>8.2} GFLOP/s {:>5.2} {of}{}",
                time.what,
                time.median_ms,
                time.gflops,
                time.ratio,
                if time.verified { "" } else { "  WRONG RESULT" },
            );
        }),
        Err(error) => println!("{title}: {error}"),
    }
}
