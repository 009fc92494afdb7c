//! Tensors and layers in FP8.

fn main() {
    moebius_conformance::run(moebius_conformance::FP8_LAYERS);
}
