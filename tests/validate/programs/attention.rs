//! Validates the kernels of attention.

fn main() -> std::io::Result<()> {
    moebius_validate::run(moebius_validate::attention, Vec::new)
}
