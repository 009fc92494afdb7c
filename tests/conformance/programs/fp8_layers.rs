//! Cases of FP8 tensors and layers.

fn main() {
    moebius_conformance::run(moebius_conformance::FP8_LAYERS);
}
