//! Kernels of attention.

use std::io;

use libtest_mimic::Trial;
use moebius_validate::run;

fn checks() -> Vec<Trial> {
    moebius_validate::trials(moebius_shaders::attention::entries())
}

fn main() -> io::Result<()> {
    run(checks)
}
