//! Layers with experts, their routers and losses.

fn main() {
    moebius_conformance::run(moebius_conformance::MOE);
}
