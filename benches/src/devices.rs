//! The devices a `cargo bench` runs on.

use moebius::discover;
use moebius_device::Device;

/// The argument that asks for JAX beside ours.
pub const PEER_JAX: &str = "--peer-jax";

/// The argument that asks for PyTorch beside ours.
pub const PEER_TORCH: &str = "--peer-torch";

/// Whether the command line has this argument.
pub fn has(argument: &str) -> bool {
    std::env::args().any(|given| given == argument)
}

/// Those of the command line, `cargo bench --bench NAME -- DEVICE...`, or all that can be opened.
pub fn asked_for() -> Vec<Device> {
    let names = std::env::args().skip(1);
    let names: Vec<String> = names.filter(|name| !name.starts_with("--")).collect();
    if names.is_empty() {
        let usable = discover().into_iter().filter(|found| found.status.is_ok());
        return usable.map(|found| found.device).collect();
    }
    names
        .iter()
        .filter_map(|name| name.parse().map_err(|error| eprintln!("{error}")).ok())
        .collect()
}
