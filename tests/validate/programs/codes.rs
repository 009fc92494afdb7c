//! Kernels of FP8 codes; and the tools themselves.

use std::io;

use libtest_mimic::Trial;
use moebius_validate::{run, trials, trials_of_tools};

fn checks() -> Vec<Trial> {
    let kernels = [
        moebius_shaders::fp8::entries(),
        moebius_shaders::quantize::entries(),
    ];
    let mut trials = trials(kernels.into_iter().flatten().collect());
    trials.extend(trials_of_tools(moebius_shaders::peak::entry()));
    trials
}

fn main() -> io::Result<()> {
    run(checks)
}
