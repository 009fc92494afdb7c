//! Cases of moving token rows to their experts and back.

fn main() {
    moebius_conformance::run(moebius_conformance::PERMUTE);
}
