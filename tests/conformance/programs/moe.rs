//! Cases of mixture-of-experts layers, their routers and their losses.

fn main() {
    moebius_conformance::run(moebius_conformance::MOE);
}
