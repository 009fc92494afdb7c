//! The check before the timing: sampled tokens of the benchmark's batch against the f64 oracle.

mod gradients;

pub(crate) use gradients::{GradientOracle, Gradients};

use burn::tensor::{DType, Int, Tensor};
use moebius::Error;
use moebius::moe::{MoeLayer, MoeOutput, MoeWeights};
use moebius_ops::{Fault, experts, routing};

pub(crate) use moebius_ops::distance;

/// Number of tokens that are checked, spread over the batch; a dropless token doesn't depend on the others.
const SAMPLES: usize = 16;

pub(crate) fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().convert::<f32>().iter::<f32>().collect()
}

pub(crate) fn wide(values: impl IntoIterator<Item = f32>) -> Vec<f64> {
    values.into_iter().map(f64::from).collect()
}

fn indices(tensor: Tensor<2, Int>) -> Vec<u32> {
    tensor
        .into_data()
        .iter::<i64>()
        .map(|index| index as u32)
        .collect()
}

/// Copy of `d` \[.., n\] with 0 in all rows but `rows`.
pub(crate) fn only<const D: usize>(
    d: &Tensor<D>,
    rows: impl IntoIterator<Item = usize>,
) -> Tensor<D> {
    let (dims, width) = (d.dims(), d.dims()[D - 1]);
    let mut keep = vec![0.0f32; dims[..D - 1].iter().product()];
    rows.into_iter().for_each(|row| keep[row] = 1.0);
    let count = keep.len();
    let keep = Tensor::<1>::from_floats(keep.as_slice(), &d.device()).cast(d.dtype());
    let kept = d.clone().reshape([count, width]) * keep.reshape([count, 1]);
    kept.reshape(dims)
}

/// Up to `samples` of `len` indices, spread evenly from the first to the last.
pub(crate) fn spread(samples: usize, len: usize) -> impl Iterator<Item = usize> {
    let samples = samples.min(len);
    let last = samples.saturating_sub(1).max(1);
    (0..samples).map(move |i| i * (len - 1) / last)
}

/// Largest relative L2 error that verifies: enough for f32 sums of up to 4096 products, and for twice the rounding of
/// f16 and bf16 activations.
pub(crate) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        _ => 1e-5,
    }
}

/// Rounding of a gradient as a multiple of that of an output, since a gradient is a product of products.
pub(crate) const GRADIENTS_OVER_OUTPUTS: f64 = 2.0;

/// The weights of a layer with a router matrix and feed-forward experts, the kind that the oracle computes.
fn weights(layer: &MoeLayer) -> Result<MoeWeights, Error> {
    layer.weights().ok_or_else(|| {
        let got = format!("{:?}", layer.config());
        Fault::Config
            .error("layer", "a router matrix and feed-forward experts", got)
            .into()
    })
}

/// Largest relative L2 error of the sampled tokens' router logits and outputs; infinite when a token was routed
/// otherwise than its logits say.
pub(crate) fn relative_error(
    layer: &MoeLayer,
    x: &Tensor<2>,
    out: &MoeOutput<2>,
) -> Result<f64, Error> {
    let [tokens, hidden] = x.dims();
    let rows: Vec<i64> = spread(SAMPLES, tokens).map(|row| row as i64).collect();
    // Detached from the autodiff graph, since the check isn't part of it.
    let rows = Tensor::<1, Int>::from_data(rows.as_slice(), &x.device().inner());
    let pick = |tensor: &Tensor<2>| floats(tensor.clone().inner().select(0, rows.clone()));

    let (x, logits) = (pick(x), pick(&out.routing.logits));
    let router = floats(weights(layer)?.router);
    let wanted = routing::logits_reference(&x, &router, hidden);
    let router_error = distance(&logits, &wanted);
    let (routed, want) = forward(layer, &x, &logits)?;
    let chosen = out.routing.indices.clone().inner();
    if indices(chosen.select(0, rows.clone())) != routed {
        return Ok(f64::INFINITY);
    }
    Ok(router_error.max(distance(&pick(&out.y), &want)))
}

/// The experts \[T,K\] chosen for tokens x \[T,H\] by `logits` \[T,E\], and the dropless output y \[T,H\].
fn forward(layer: &MoeLayer, x: &[f32], logits: &[f32]) -> Result<(Vec<u32>, Vec<f64>), Error> {
    let weights = weights(layer)?;
    let [_, hidden] = weights.router.dims();
    let problem = experts::Problem {
        capacity: None,
        ..layer.problem(x.len() / hidden, DType::F32)?
    };
    let routed = routing::reference(&problem.routing, logits, None);
    let (b_in, b_out) = (weights.b_in.map(floats), weights.b_out.map(floats));
    let inputs = experts::ReferenceInputs {
        x,
        indices: &routed.indices,
        weights: &routed.weights,
        w_in: &floats(weights.w_in),
        b_in: b_in.as_deref(),
        w_out: &floats(weights.w_out),
        b_out: b_out.as_deref(),
    };
    let (y, _) = experts::reference(&problem, &inputs)?;
    Ok((routed.indices, y))
}
