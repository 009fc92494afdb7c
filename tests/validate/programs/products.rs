//! Products of the experts, their gradients, and what is done to their rows.

fn main() -> std::io::Result<()> {
    moebius_validate::run(moebius_validate::products, Vec::new)
}
