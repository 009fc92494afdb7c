//! ERNIE 4.5, with and without experts (Baidu, 2025).

use moebius::moe::{MoeConfig, RouteConfig};

use super::Family;
use super::corrected::{SHARED, router, shared};
use super::keys::Keys;
use super::parts::{self, attention, biased, dense, layer, layers, model};
use super::rule::{ATTENTION, DENSE, EXPERTS, FRAME, Rule, STACKED, rules};
use crate::decoder::{AttentionSpec, FeedForwardSpec, ModelSpec};

/// ERNIE 4.5 with experts.
pub(super) const ERNIE4_5_MOE: Family = Family {
    // Of layers that predict later tokens (multi-token prediction).
    ignored: &["model.mtp_*"],
    ..Family::new(
        "ernie4_5_moe",
        mixture,
        &[
            &[FRAME, ATTENTION, EXPERTS, DENSE, SHARED, CORRECTION],
            &[FRAME, ATTENTION, STACKED, DENSE, SHARED, STACKED_CORRECTION],
        ],
    )
};

const CORRECTION: &[Rule] = rules! { "model.layers.{l}.mlp.":
    "moe_statics.e_score_correction_bias" => Correction, Row;
};

const STACKED_CORRECTION: &[Rule] = rules! { "model.layers.{l}.mlp.":
    "gate.moe_statics.e_score_correction_bias" => Correction, Row;
};

/// Experts with softmax scores, a correction of the selection, and shared experts.
fn experts(keys: &mut Keys<'_>) -> MoeConfig {
    let route = RouteConfig::new(keys.size(&["num_experts_per_tok", "moe_k"]));
    let counts = ["num_experts", "moe_num_experts", "num_local_experts"];
    let experts = parts::experts(keys, &counts, "moe_intermediate_size", router(route));
    shared(keys, "moe_num_shared_experts", experts)
}

/// Whether each layer has experts.
fn sparse(keys: &mut Keys<'_>, count: usize) -> Vec<bool> {
    let first = keys.size_or("moe_layer_start_index", 1);
    // −1 stands for the last layer.
    let last = keys.number_or("moe_layer_end_index", -1.0);
    let step = keys.size_or("moe_layer_interval", 1).max(1);
    let is_sparse = |layer: usize| {
        let before_end = last < 0.0 || layer as f64 <= last;
        (layer + 1).is_multiple_of(step) && layer >= first && before_end
    };
    (0..count).map(is_sparse).collect()
}

/// Attention whose rotated pairs are neighbours.
fn interleaved(keys: &mut Keys<'_>) -> AttentionSpec {
    let mut attention = attention(keys, 500_000.0);
    if let Some(rope) = &mut attention.rope {
        rope.interleaved = true;
    }
    attention
}

fn mixture(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = interleaved(keys);
    let bias = keys.flag_or("use_bias", false);
    if bias {
        keys.lack("use_bias", "false", bias);
    }
    let experts = FeedForwardSpec::Experts(experts(keys));
    let dense = dense(keys, false);
    let layers = sparse(keys, count).into_iter().map(|sparse| {
        let network = if sparse { &experts } else { &dense };
        layer(attention.clone(), network.clone())
    });
    let layers = layers.collect();
    model(keys, layers)
}

/// ERNIE 4.5 without experts.
pub(super) const ERNIE4_5: Family =
    Family::new("ernie4_5", without_experts, &[&[FRAME, ATTENTION, DENSE]]);

fn without_experts(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let bias = keys.flag_or("use_bias", false);
    let attention = biased(interleaved(keys), bias);
    let dense = dense(keys, bias);
    model(keys, vec![layer(attention, dense); count])
}
