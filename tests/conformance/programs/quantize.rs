//! Cases of FP8 codes and the rounding to them.

fn main() {
    moebius_conformance::run(moebius_conformance::QUANTIZE);
}
