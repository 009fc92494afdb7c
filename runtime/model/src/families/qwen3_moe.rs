//! Qwen3 with experts (2025).

use super::keys::Keys;
use super::parts::{attention, dense, experts, layer, layers, model, normed, softmax, sparse};
use super::rule::{ATTENTION, DENSE, EXPERTS, FRAME, STACKED};
use super::{Extra, Family};
use crate::decoder::{AttentionSpec, FeedForwardSpec, HeadNorm, ModelSpec};

pub(super) const FAMILY: Family = Family {
    name: "qwen3_moe",
    read,
    layouts: &[
        &[FRAME, ATTENTION, EXPERTS, DENSE],
        &[FRAME, ATTENTION, STACKED, DENSE],
    ],
    ignored: &[],
    extra: Extra::None,
};

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = normed(attention(keys, 10_000.0), HeadNorm::Head);
    let sliding = keys.flag_or("use_sliding_window", false);
    let window = keys.optional_size("sliding_window");
    let window = window.filter(|&window| sliding && window > 0);
    let attention = AttentionSpec {
        window,
        ..attention
    };
    let renormalize = keys.flag_or("norm_topk_prob", false);
    let route = softmax(keys, renormalize);
    let counts = ["num_experts", "num_local_experts"];
    let experts = experts(keys, &counts, "moe_intermediate_size", route);
    let experts = FeedForwardSpec::Experts(experts);
    let dense = dense(keys, false);
    let of = |sparse| {
        let network = if sparse { &experts } else { &dense };
        layer(attention.clone(), network.clone())
    };
    let layers = sparse(keys, count).into_iter().map(of).collect();
    model(keys, layers)
}
