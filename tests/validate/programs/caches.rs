//! Kernels of attention over caches and inside of experts.

use std::io;

use libtest_mimic::Trial;
use moebius_validate::run;

fn checks() -> Vec<Trial> {
    let kernels = [
        moebius_shaders::kv_cache::entries(),
        moebius_shaders::segment_attention::entries(),
    ];
    moebius_validate::trials(kernels.into_iter().flatten().collect())
}

fn main() -> io::Result<()> {
    run(checks)
}
