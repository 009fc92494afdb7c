//! Experts whose selection a bias corrects, as in DeepSeek-V3 and the families that follow it.

use moebius::moe::{
    Groups, MoeConfig, RouteConfig, RouterConfig, Score, SharedExpertConfig, SigmoidBiasConfig,
};

use super::keys::Keys;
use super::parts::{self, dense, layer, softmax};
use super::rule::{ATTENTION, DENSE, EXPERTS, FRAME, Rule, STACKED, rules};
use crate::decoder::{AttentionSpec, FeedForwardSpec, LayerSpec};

/// Names of the key for the number of experts.
pub(super) const COUNTS: [&str; 3] = ["n_routed_experts", "num_local_experts", "num_experts"];

/// The correction of the scores.
pub(super) const CORRECTION: &[Rule] = rules! { "model.layers.{l}.mlp.gate.":
    "e_score_correction_bias" => Correction;
};

/// The shared experts, which are one network.
pub(super) const SHARED: &[Rule] = rules! { "model.layers.{l}.mlp.shared_experts.":
    "gate_proj.weight" => SharedIn, Gate;
    "up_proj.weight" => SharedIn, Up;
    "down_proj.weight" => SharedOut;
};

/// Layouts of models with separate matrices for q, k and v.
pub(super) const LAYOUTS: &[&[&[Rule]]] = &[
    &[FRAME, ATTENTION, EXPERTS, DENSE, CORRECTION, SHARED],
    &[FRAME, ATTENTION, STACKED, DENSE, CORRECTION, SHARED],
];

/// A router that adds a bias to the scores for the selection alone.
pub(super) fn router(route: RouteConfig) -> RouterConfig {
    RouterConfig::SigmoidBias(SigmoidBiasConfig {
        route,
        ..SigmoidBiasConfig::default()
    })
}

/// Experts with sigmoid scores, a correction of the selection, and shared experts; the groups that the selection is limited to go by their
/// two best experts.
pub(super) fn experts(keys: &mut Keys<'_>) -> MoeConfig {
    let (count, chosen) = (keys.size_or("n_group", 1), keys.size_or("topk_group", 1));
    let groups = Groups {
        count,
        chosen,
        best: 2,
    };
    let renormalize = keys.flag_or("norm_topk_prob", true);
    let route = RouteConfig {
        score: Score::Sigmoid,
        groups: (count > 1).then_some(groups),
        scale: keys.number_or("routed_scaling_factor", 1.0) as f32,
        ..softmax(keys, renormalize)
    };
    let experts = parts::experts(keys, &COUNTS, "moe_intermediate_size", router(route));
    shared(keys, "n_shared_experts", experts)
}

/// The experts with as many shared ones as the key `count` says, in one network.
pub(super) fn shared(keys: &mut Keys<'_>, count: &str, experts: MoeConfig) -> MoeConfig {
    let count = keys.size_or(count, 0);
    let shared = (count > 0).then(|| SharedExpertConfig::new(experts.inter * count));
    experts.with_shared(shared)
}

/// `count` layers of which the first `first_k_dense_replace` have dense networks, and the others experts.
pub(super) fn after_dense(
    keys: &mut Keys<'_>,
    count: usize,
    attention: &AttentionSpec,
    experts: MoeConfig,
) -> Vec<LayerSpec> {
    let experts = FeedForwardSpec::Experts(experts);
    let dense = dense(keys, false);
    let first = keys.size_or("first_k_dense_replace", 0);
    let layers = (0..count).map(|at| {
        let network = if at < first { &dense } else { &experts };
        layer(attention.clone(), network.clone())
    });
    layers.collect()
}
