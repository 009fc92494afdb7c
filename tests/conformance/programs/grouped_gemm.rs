//! Cases of the experts' matrix products, their gradients, and the operations on their rows.

fn main() {
    moebius_conformance::run(moebius_conformance::GROUPED_GEMM);
}
