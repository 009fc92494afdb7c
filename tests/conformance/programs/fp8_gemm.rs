//! Cases of matrix products with FP8 weights.

fn main() {
    moebius_conformance::run(moebius_conformance::FP8_GEMM);
}
