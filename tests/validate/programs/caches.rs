//! Validates the kernels of attention over caches and within the rows of each expert.

fn main() -> std::io::Result<()> {
    moebius_validate::run(moebius_validate::caches, Vec::new)
}
