//! `cargo bench --bench training_step [-- DEVICE... [--peer-jax]]`: steps of training a small transformer in
//! ordinary Burn modules, the loss read every tenth.
//!
//! The peer needs a `python3` with JAX first on the path; `JAX_PLATFORMS=xla_cpu` and
//! `PJRT_NAMES_AND_LIBRARY_PATHS=xla_cpu:FILE` give both sides the same plugin.

use moebius::discover;
use moebius_benches::training_step::{READ_EVERY, Sizes, TrainingReport, run};
use moebius_device::Device;

fn main() {
    let (options, names): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    let peer = options.iter().any(|option| option == "--peer-jax");
    for device in devices(&names) {
        for (layers, batch) in [(1, 4), (2, 8)] {
            let sizes = Sizes {
                layers,
                batch,
                ..Sizes::default()
            };
            match run(&device, &sizes, peer) {
                Ok(report) => print(&sizes, &report),
                Err(error) => println!("{device}: {error}"),
            }
        }
    }
}

/// Those of these names, or all that can be opened.
fn devices(names: &[String]) -> Vec<Device> {
    if names.is_empty() {
        let usable = discover().into_iter().filter(|found| found.status.is_ok());
        return usable.map(|found| found.device).collect();
    }
    let named = names.iter().map(|name| name.parse::<Device>());
    let named = named.map(|device| device.map_err(|error| eprintln!("{error}")));
    named.flatten().collect()
}

fn print(sizes: &Sizes, report: &TrainingReport) {
    let TrainingReport { device, .. } = report;
    let difference = report.largest_difference;
    if !report.verified {
        return println!("{device}: wrong result, losses differ by {difference:.1e}");
    }
    println!(
        "{device:<8} {} blocks of {}, {} x {} tokens, {} parameters: {:>7.2} ms a step (best {:.2}, host alone {:.2}, first {:.0}), \
         loss {:.4} -> {:.4}, differs by {difference:.1e}, read every {READ_EVERY}",
        sizes.layers,
        sizes.hidden,
        sizes.batch,
        sizes.seq,
        report.parameters,
        report.median_ms,
        report.best_ms,
        report.host_ms,
        report.first_ms,
        report.losses[0],
        report.losses[1],
    );
    if let Some(peer) = &report.peer {
        println!(
            "{:<8} {:>7.2} ms a step (best {:.2}); ours takes {:.2} x as long",
            peer.name, peer.median_ms, peer.best_ms, peer.ratio
        );
    }
}
