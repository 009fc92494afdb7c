//! Attention over a cache.

fn main() {
    moebius_conformance::run(moebius_conformance::KV_CACHE);
}
