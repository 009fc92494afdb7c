//! Products of the experts and their gradients.

use std::io;

use libtest_mimic::Trial;
use moebius_validate::run;

fn checks() -> Vec<Trial> {
    let kernels = [
        moebius_shaders::grouped_gemm::entries(),
        moebius_shaders::fp8_mma::entries(),
        moebius_shaders::grouped_gemm::weight_gradient::entries(),
        moebius_shaders::grouped_gemm::bias_gradient::entries(),
        moebius_shaders::expert_activation::entries(),
    ];
    moebius_validate::trials(kernels.into_iter().flatten().collect())
}

fn main() -> io::Result<()> {
    run(checks)
}
