//! Validates the kernels of routing and permutation.

fn main() -> std::io::Result<()> {
    moebius_validate::run(moebius_validate::routing, Vec::new)
}
