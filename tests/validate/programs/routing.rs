//! Routing, permutation, and the instrument of the benchmarks.

use std::io;

use libtest_mimic::Trial;
use moebius_validate::run;

fn checks() -> Vec<Trial> {
    let kernels = [
        moebius_shaders::routing::entries(),
        moebius_shaders::permute::entries(),
        vec![moebius_shaders::peak::entry()],
    ];
    moebius_validate::trials(kernels.into_iter().flatten().collect())
}

fn main() -> io::Result<()> {
    run(checks)
}
