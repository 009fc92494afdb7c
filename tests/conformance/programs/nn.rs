//! Cases of Burn's own modules on our kernels.

fn main() {
    moebius_conformance::run(moebius_conformance::NN);
}
