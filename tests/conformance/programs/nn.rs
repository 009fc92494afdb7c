//! Burn's own modules through our kernels.

fn main() {
    moebius_conformance::run(moebius_conformance::NN);
}
