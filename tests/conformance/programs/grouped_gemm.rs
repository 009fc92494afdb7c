//! Products of the experts, their gradients, and what is done to their rows.

fn main() {
    moebius_conformance::run(moebius_conformance::GROUPED_GEMM);
}
