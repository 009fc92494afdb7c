//! Granite 3 with experts (IBM, 2024).

use super::keys::Keys;
use super::parts::{attention, experts, layers, model, softmax_of_chosen};
use super::rule::{ATTENTION, FRAME, Rule};
use super::{Extra, Family};
use crate::decoder::{AttentionSpec, FeedForwardSpec, LayerSpec, ModelSpec, Slot};

pub(super) const FAMILY: Family = Family {
    name: "granitemoe",
    read,
    layouts: &[&[FRAME, ATTENTION, RULES]],
    ignored: &[],
    extra: Extra::None,
};

const RULES: &[Rule] = &[
    Rule::whole(
        "model.layers.{l}.block_sparse_moe.router.layer.weight",
        Slot::Router,
    ),
    Rule::whole(
        "model.layers.{l}.block_sparse_moe.input_linear.weight",
        Slot::ExpertsIn,
    ),
    Rule::whole(
        "model.layers.{l}.block_sparse_moe.output_linear.weight",
        Slot::ExpertsOut,
    ),
];

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = AttentionSpec {
        scale: keys.number_or("attention_multiplier", 1.0),
        ..attention(keys, 10_000.0)
    };
    keys.only("hidden_act", "silu");
    let route = softmax_of_chosen(keys);
    let counts = ["num_local_experts", "num_experts"];
    let experts = experts(keys, &counts, "intermediate_size", route);
    let layer = LayerSpec {
        attention,
        feed_forward: FeedForwardSpec::Experts(experts),
        residual: keys.number_or("residual_multiplier", 1.0),
    };
    ModelSpec {
        embedding_scale: keys.number_or("embedding_multiplier", 1.0),
        logits_scale: 1.0 / keys.positive_or("logits_scaling", 1.0),
        ..model(keys, vec![layer; count])
    }
}
