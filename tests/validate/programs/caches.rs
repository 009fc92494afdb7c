//! Kernels of attention over caches and inside of experts.

fn main() -> std::io::Result<()> {
    moebius_validate::run(moebius_validate::caches, Vec::new)
}
