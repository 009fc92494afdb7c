//! Validates the kernels with the same bits on every device.

fn main() -> std::io::Result<()> {
    moebius_validate::run(moebius_validate::exact, Vec::new)
}
