//! Qwen1.5-MoE, and Qwen2 (2024) and Qwen3 (2025) without and with experts.

use moebius::moe::{MoeConfig, SharedExpertConfig};

use super::Family;
use super::keys::Keys;
use super::parts::{
    attention, dense, experts, layer, layers, model, normed, softmax, sparse, window, windowed,
    windows,
};
use super::rule::{ATTENTION, DENSE, EXPERTS, FRAME, Rule, STACKED, SWITCHED, rules};
use crate::decoder::{AttentionSpec, FeedForwardSpec, HeadNorm, ModelSpec, Projection};

/// Qwen1.5-MoE and Qwen2 with experts.
pub(super) const QWEN2_MOE: Family = Family::new(
    "qwen2_moe",
    qwen2_moe,
    &[
        &[FRAME, ATTENTION, EXPERTS, DENSE, SHARED],
        &[FRAME, ATTENTION, STACKED, DENSE, SHARED],
        &[FRAME, ATTENTION, SWITCHED, DENSE, SHARED],
    ],
);

const SHARED: &[Rule] = rules! { "model.layers.{l}.mlp.":
    "shared_expert.gate_proj.weight" => SharedIn, Gate;
    "shared_expert.up_proj.weight" => SharedIn, Up;
    "shared_expert.down_proj.weight" => SharedOut;
    "shared_expert_gate.weight" => SharedGate;
};

fn qwen2_moe(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = AttentionSpec {
        projection: Projection::Direct {
            bias: keys.flag_or("qkv_bias", true),
            norm: HeadNorm::None,
            clip: None,
        },
        out_bias: false,
        ..attention(keys, 10_000.0)
    };
    let routed = routed(keys);
    let shared = SharedExpertConfig::new(keys.size(&["shared_expert_intermediate_size"]));
    let experts = routed.with_shared(Some(shared.with_sigmoid_gate(true)));
    let experts = FeedForwardSpec::Experts(experts);
    let dense = dense(keys, false);
    let sliding = keys.flag_or("use_sliding_window", false);
    let last = keys.size_or("max_window_layers", 28);
    let windows = windows(keys, count, 4096, |layer| {
        sliding && layer % 2 == 0 && layer < last
    });
    let layers = sparse(keys, count).into_iter().zip(windows);
    let layers = layers.map(|(sparse, window)| {
        let network = if sparse { &experts } else { &dense };
        windowed(&attention, window.filter(|_| sliding), network)
    });
    model(keys, layers.collect())
}

/// Qwen2 and 2.5 without experts.
pub(super) const QWEN2: Family = Family::new("qwen2", qwen2, &[&[FRAME, ATTENTION, DENSE]]);

fn qwen2(keys: &mut Keys<'_>) -> ModelSpec {
    let attention = AttentionSpec {
        projection: Projection::Direct {
            bias: true,
            norm: HeadNorm::None,
            clip: None,
        },
        out_bias: false,
        ..attention(keys, 10_000.0)
    };
    last_windowed(keys, &attention)
}

/// Qwen3 without experts.
pub(super) const QWEN3: Family = Family::new("qwen3", qwen3, &[&[FRAME, ATTENTION, DENSE]]);

fn qwen3(keys: &mut Keys<'_>) -> ModelSpec {
    let attention = normed(attention(keys, 10_000.0), HeadNorm::Head);
    last_windowed(keys, &attention)
}

/// A model with dense networks in which the last layers see a window of keys, if the configuration says so.
fn last_windowed(keys: &mut Keys<'_>, attention: &AttentionSpec) -> ModelSpec {
    let count = layers(keys);
    let dense = dense(keys, false);
    let sliding = keys.flag_or("use_sliding_window", false);
    let first = keys.size_or("max_window_layers", 28);
    let last = sliding && !keys.is_null("sliding_window");
    let windows = windows(keys, count, 4096, |layer| last && layer >= first);
    let windows = windows.into_iter().map(|window| window.filter(|_| sliding));
    let layers = windows.map(|window| windowed(attention, window, &dense));
    model(keys, layers.collect())
}

/// Qwen3 with experts.
pub(super) const QWEN3_MOE: Family = Family::new(
    "qwen3_moe",
    qwen3_moe,
    &[
        &[FRAME, ATTENTION, EXPERTS, DENSE],
        &[FRAME, ATTENTION, STACKED, DENSE],
        &[FRAME, ATTENTION, SWITCHED, DENSE],
    ],
);

fn qwen3_moe(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = normed(attention(keys, 10_000.0), HeadNorm::Head);
    let sliding = keys.flag_or("use_sliding_window", false);
    let window = window(keys).filter(|_| sliding);
    let attention = AttentionSpec {
        window,
        ..attention
    };
    let experts = FeedForwardSpec::Experts(routed(keys));
    let dense = dense(keys, false);
    let layers = sparse(keys, count).into_iter().map(|sparse| {
        let network = if sparse { &experts } else { &dense };
        layer(attention.clone(), network.clone())
    });
    model(keys, layers.collect())
}

/// Experts routed by the softmax of all logits; `norm_topk_prob` says whether the chosen ones are divided by their sum.
fn routed(keys: &mut Keys<'_>) -> MoeConfig {
    let renormalize = keys.flag_or("norm_topk_prob", false);
    let route = softmax(keys, renormalize);
    let counts = ["num_experts", "num_local_experts"];
    experts(keys, &counts, "moe_intermediate_size", route)
}
