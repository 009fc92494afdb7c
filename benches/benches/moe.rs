//! `cargo bench --bench moe [-- DEVICE...]`: the two sizes of the main job on every device.

use burn::tensor::DType;
use moebius_benches::moe::{MoeBench, run};
use moebius_device::{Device, discover};

fn main() {
    let names: Vec<String> = std::env::args()
        .skip(1)
        .filter(|name| name != "--bench")
        .collect();
    let devices: Vec<Device> = if names.is_empty() {
        discover()
            .into_iter()
            .filter(|found| found.status.is_ok())
            .map(|found| found.device)
            .collect()
    } else {
        names
            .iter()
            .filter_map(|name| name.parse().map_err(|error| eprintln!("{error}")).ok())
            .collect()
    };
    for device in devices {
        for hidden in [512, 1024] {
            let bench = MoeBench {
                hidden,
                inter: 4 * hidden,
                experts: 8,
                top_k: 2,
                batch: 32,
                seq: 128,
                dtype: DType::F32,
                gated: false,
                device,
                peer_torch: false,
            };
            match run(&bench, &mut |_| {}) {
                Ok(report) if report.verified => println!(
                    "{device:<8} hidden {hidden:>4}: {:>9.2} ms {:>9.0} tokens/s {:>8.1} GFLOP/s ({})",
                    report.median_ms, report.tokens_per_s, report.gflops, report.variant
                ),
                Ok(report) => println!(
                    "{device}: wrong result, relative L2 {:.1e}",
                    report.max_rel_l2
                ),
                Err(error) => println!("{device}: {error}"),
            }
        }
    }
}
