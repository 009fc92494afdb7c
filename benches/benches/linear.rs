//! `cargo bench --bench linear [-- DEVICE...]`: a linear layer with FP8 weights against float ones on
//! every device, for one token, a few and a long prompt; on wgpu also a small product, which a
//! software adapter can finish.

use burn::tensor::DType;
use moebius::fp8::{Activations, Fp8Format, Granularity};
use moebius_benches::devices;
use moebius_benches::linear::{LinearBench, LinearReport, run};
use moebius_device::Device;

/// Rows, outputs and inputs.
const SIZES: [[usize; 3]; 4] = [
    [1, 4096, 4096],
    [4, 4096, 4096],
    [8, 4096, 4096],
    [512, 4096, 4096],
];
const SMALL: [usize; 3] = [512, 512, 512];

const GRANULARITIES: [(&str, Granularity); 2] = [
    ("row", Granularity::Row),
    (
        "block128",
        Granularity::Block {
            rows: 128,
            columns: 128,
        },
    ),
];

fn main() {
    for device in devices::asked_for() {
        let small: &[[usize; 3]] = match device {
            Device::Wgpu(_) => &[SMALL],
            _ => &[],
        };
        for [m, n, k] in small.iter().chain(&SIZES).copied() {
            for (scales, granularity) in GRANULARITIES {
                let bench = LinearBench {
                    m,
                    n,
                    k,
                    format: Fp8Format::E4M3,
                    granularity,
                    dtype: DType::F32,
                    activations: Activations::Float,
                    device,
                    peer_torch: false,
                };
                let title = format!("{device:<8} {m:>3} x {n} x {k} e4m3 {scales:<8}");
                match run(&bench, &mut |_| {}) {
                    Ok(report) => print(&title, &report),
                    Err(error) => println!("{title}: {error}"),
                }
            }
        }
    }
}

fn print(title: &str, report: &LinearReport) {
    if !report.verified {
        let error = report.max_rel_l2;
        return println!("{title}: wrong result, relative L2 {error:.1e}");
    }
    for path in std::iter::once(&report.fp8).chain(&report.own) {
        println!(
            "{title}: {:<32} {:>9.3} ms {:>8.1} GFLOP/s {:>7.1} GB/s of weights, FP8 at {:.2} x",
            path.name, path.median_ms, path.gflops, path.weights_gb_per_s, path.ratio
        );
    }
    println!(
        "{title}: memory {:.3} x f32, weights differ by {:.1e}",
        report.layer_bytes.ratio, report.weights_rel_l2
    );
}
