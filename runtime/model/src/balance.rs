//! The losses that keep the experts in use.

use burn::tensor::Tensor;
use moebius::moe::Routing;

use crate::config::TrainConfig;
use crate::error::Error;

/// \[1\]: balance · E · Σ_e (A_e/S) · mean_t p_te + z · mean_t lse_t² of one layer, where A_e of the
/// S slots went to expert e.
pub(crate) fn auxiliary(routing: &Routing, config: &TrainConfig) -> Result<Tensor<1>, Error> {
    let [tokens, top_k] = routing.indices.dims();
    let experts = routing.experts();
    let load = routing.load()?.float() / (tokens * top_k) as f64;
    let mean = routing.probs.clone().mean_dim(0).reshape([experts]);
    let switch = (load * mean).sum() * experts as f64;
    let z = routing.logsumexp.clone().square().mean();
    Ok(switch * config.balance + z * config.z)
}
