//! Validates the experts' matrix products, their gradients, and the operations on their rows.

fn main() -> std::io::Result<()> {
    moebius_validate::run(moebius_validate::products, Vec::new)
}
