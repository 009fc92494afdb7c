//! Cases of choosing experts for tokens.

fn main() {
    moebius_conformance::run(moebius_conformance::ROUTING);
}
