//! Kernels of quantisation.

use crate::ops::call::{Buffers, Kernels};
use cubecl::client::Client;
use moebius_device::Capability;
use moebius_ops::Quantization;
use moebius_ops::quantize::{AmaxProblem, Problem};
use moebius_shaders::Unsupported;
use moebius_shaders::quantize::{self, Plan};

/// Of any operation on the matrices of `problem`.
pub(super) fn matrices(
    operation: &Quantization,
    problem: Problem,
    device: &Capability,
) -> Result<Kernels, Unsupported> {
    let plan = quantize::plan(problem, device)?;
    Ok(match operation {
        Quantization::Quantize(_) => Kernels::of(plan, quantize::launch),
        Quantization::QuantizeBy(_) => Kernels::new(move |client, b| {
            quantize::launch_by(client, &plan, b.get("x"), b.get("scales"), b.get("codes"));
        }),
        Quantization::Dequantize(_) => Kernels::new(move |client, b| {
            quantize::launch_dequantize(client, &plan, b.get("codes"), b.get("scales"), b.get("y"));
        }),
        _ => Kernels::new(move |client, b| faked(client, &plan, b)),
    })
}

/// x as its codes have it. A kernel of both halves would save the words, 2 bytes of 10 for each f32, and read as much
/// of x.
fn faked(client: &Client, plan: &Plan, b: &Buffers) {
    let words = |len: usize| client.empty(4 * len.max(1));
    let p = &plan.problem;
    let codes = words(p.words());
    let given = b.maybe("scales");
    let scales = given.clone().unwrap_or_else(|| words(p.scales()));
    match given {
        Some(scales) => quantize::launch_by(client, plan, b.get("x"), scales, codes.clone()),
        None => {
            let buffers = quantize::Buffers {
                x: b.get("x"),
                words: codes.clone(),
                scales: scales.clone(),
            };
            quantize::launch(client, plan, buffers);
        }
    }
    quantize::launch_dequantize(client, plan, codes, scales, b.get("y"));
}

pub(super) fn amax(problem: AmaxProblem, device: &Capability) -> Result<Kernels, Unsupported> {
    let plan = quantize::plan_amax(problem, device)?;
    Ok(Kernels::new(move |client, b| {
        quantize::launch_amax(client, &plan, b.get("x"), b.get("amax"));
    }))
}
