//! Cases of operations with the same bits on every device.

fn main() {
    moebius_conformance::run(moebius_conformance::EXACT);
}
