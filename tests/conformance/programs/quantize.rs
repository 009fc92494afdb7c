//! Codes of FP8 and what rounds to them.

fn main() {
    moebius_conformance::run(moebius_conformance::QUANTIZE);
}
