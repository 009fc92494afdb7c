//! Cases of attention over a key-value cache.

fn main() {
    moebius_conformance::run(moebius_conformance::KV_CACHE);
}
