//! Cases of attention within the rows of each expert.

fn main() {
    moebius_conformance::run(moebius_conformance::SEGMENT_ATTENTION);
}
