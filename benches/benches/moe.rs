//! `cargo bench --bench moe [-- DEVICE... [--peer-torch]]`: the two sizes of the main job on every device, forward and
//! backward, and many small experts against few large ones.

use moebius::moe::Keep;
use moebius_benches::devices;
use moebius_benches::moe::{MoeBench, backward, fine, run};

fn main() {
    for device in devices::asked_for() {
        for hidden in [512, 1024] {
            let bench = MoeBench {
                peer_torch: devices::has(devices::PEER_TORCH),
                ..MoeBench::standard(hidden, device)
            };
            print_forward(&bench);
            print_backward(&bench);
            print_fine(&bench);
        }
    }
}

fn print_forward(bench: &MoeBench) {
    let MoeBench { device, hidden, .. } = bench;
    match run(bench, &mut |_| {}) {
        Ok(report) if report.verified => {
            println!(
                "{device:<8} hidden {hidden:>4}: {:>9.2} ms {:>9.0} tokens/s {:>8.1} GFLOP/s ({})",
                report.median_ms, report.tokens_per_s, report.gflops, report.variant
            );
            if let Some(peer) = &report.peer {
                let (name, ratio) = (&peer.name, peer.ratio);
                println!(
                    "{name}: {:>9.2} ms; ours is {ratio:.2} x as fast",
                    peer.median_ms
                );
            }
        }
        Ok(report) => wrong(bench, report.max_rel_l2),
        Err(error) => println!("{device}: {error}"),
    }
}

fn print_backward(bench: &MoeBench) {
    let MoeBench { device, hidden, .. } = bench;
    match backward::run(bench, &[Keep::Inputs, Keep::FirstProduct], &mut |_| {}) {
        Ok(report) => report.runs.iter().for_each(|run| match run.verified {
            true => println!(
                "{device:<8} hidden {hidden:>4}, both ways, keeps {:?}: {:>9.2} ms {:>8.1} GFLOP/s {}",
                run.keep,
                run.median_ms,
                run.gflops,
                run.device_bytes
                    .map_or(String::new(), |bytes| format!("{} MiB", bytes >> 20))
            ),
            false => wrong(bench, run.max_rel_l2),
        }),
        Err(error) => println!("{device}: {error}"),
    }
}

fn print_fine(bench: &MoeBench) {
    let MoeBench { device, hidden, .. } = bench;
    match fine::compare(bench, &mut |_| {}) {
        Ok(report) if report.coarse.verified && report.fine.verified => println!(
            "{device:<8} hidden {hidden:>4}: 64 small experts at {:.2} x the speed of 8 large ones; router, sort, combine {:.1} %",
            report.tokens_ratio,
            100.0 * report.fine.overhead_share
        ),
        Ok(report) => wrong(bench, report.coarse.max_rel_l2.max(report.fine.max_rel_l2)),
        Err(error) => println!("{device}: {error}"),
    }
}

fn wrong(bench: &MoeBench, error: f64) {
    println!("{}: wrong result, relative L2 {error:.1e}", bench.device);
}
