//! The check before the numbers: some tokens of the benchmark's batch through the f64 oracle.

use burn::tensor::{DType, Int, Tensor};
use moebius::Error;
use moebius::moe::{MoeLayer, MoeOutput};
use moebius_shaders::{ShapeError, moe, routing};

/// Tokens checked, spread over the batch; a dropless token doesn't depend on the others.
const SAMPLES: usize = 16;

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().convert::<f32>().iter::<f32>().collect()
}

fn indices(tensor: Tensor<2, Int>) -> Vec<u32> {
    tensor
        .into_data()
        .iter::<i64>()
        .map(|index| index as u32)
        .collect()
}

/// The larger relative L2 error of the sampled tokens' router logits and outputs; infinite when a
/// token was routed elsewhere than its logits say.
pub(crate) fn relative_error(
    layer: &MoeLayer,
    x: &Tensor<2>,
    out: &MoeOutput<2>,
) -> Result<f64, Error> {
    let [tokens, hidden] = x.dims();
    let samples = SAMPLES.min(tokens);
    let rows: Vec<i64> = (0..samples)
        .map(|i| (i * (tokens - 1) / (samples - 1).max(1)) as i64)
        .collect();
    let rows = Tensor::<1, Int>::from_data(rows.as_slice(), &x.device());
    let pick = |tensor: &Tensor<2>| floats(tensor.clone().select(0, rows.clone()));

    let problem = moe::Problem {
        capacity: None,
        ..layer.problem(samples, DType::F32)?
    };
    let (x, logits) = (pick(x), pick(&out.routing.logits));
    let Some(weights) = layer.weights() else {
        let got = format!("{:?}", layer.config());
        return Err(
            ShapeError::new("layer", "a router matrix and feed-forward experts", got).into(),
        );
    };
    let router = floats(weights.router);
    let mut wanted = Vec::with_capacity(logits.len());
    for row in x.chunks(hidden) {
        wanted.extend(router.chunks(hidden).map(|column| {
            let products = row
                .iter()
                .zip(column)
                .map(|(a, b)| f64::from(*a) * f64::from(*b));
            products.sum::<f64>()
        }));
    }
    let router_error = distance(&logits, &wanted);
    let routed = routing::reference(&problem.routing, &logits, None);
    if indices(out.routing.indices.clone().select(0, rows.clone())) != routed.indices {
        return Ok(f64::INFINITY);
    }
    let (b_in, b_out) = (weights.b_in.map(floats), weights.b_out.map(floats));
    let inputs = moe::ReferenceInputs {
        x: &x,
        indices: &routed.indices,
        weights: &routed.weights,
        w_in: &floats(weights.w_in),
        b_in: b_in.as_deref(),
        w_out: &floats(weights.w_out),
        b_out: b_out.as_deref(),
    };
    let (want, _) = moe::reference(&problem, &inputs)?;
    Ok(router_error.max(distance(&pick(&out.y), &want)))
}

/// ‖got − want‖ / ‖want‖, infinite when it isn't a number.
pub(crate) fn distance(got: &[f32], want: &[f64]) -> f64 {
    let (mut error, mut norm) = (0.0, 0.0);
    for (got, want) in got.iter().zip(want) {
        error += (f64::from(*got) - want).powi(2);
        norm += want.powi(2);
    }
    let relative = (error / norm).sqrt();
    if relative.is_nan() {
        f64::INFINITY
    } else {
        relative
    }
}
