//! Cases of attention over a sequence.

fn main() {
    moebius_conformance::run(moebius_conformance::ATTENTION);
}
