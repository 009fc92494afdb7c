//! Mixtral (Jiang et al. 2024).

use super::keys::Keys;
use super::parts::{attention, experts, layer, layers, model, softmax};
use super::rule::{ATTENTION, FRAME, INVERSE_FREQUENCIES, Rule, STACKED};
use super::{Extra, Family};
use crate::decoder::{AttentionSpec, FeedForwardSpec, ModelSpec, Slot};

pub(super) const FAMILY: Family = Family {
    name: "mixtral",
    read,
    layouts: &[&[FRAME, ATTENTION, RULES], &[FRAME, ATTENTION, STACKED]],
    ignored: &[INVERSE_FREQUENCIES],
    extra: Extra::None,
};

const RULES: &[Rule] = &[
    Rule::whole(
        "model.layers.{l}.block_sparse_moe.gate.weight",
        Slot::Router,
    ),
    Rule::gate(
        "model.layers.{l}.block_sparse_moe.experts.{e}.w1.weight",
        Slot::ExpertsIn,
    ),
    Rule::up(
        "model.layers.{l}.block_sparse_moe.experts.{e}.w3.weight",
        Slot::ExpertsIn,
    ),
    Rule::whole(
        "model.layers.{l}.block_sparse_moe.experts.{e}.w2.weight",
        Slot::ExpertsOut,
    ),
];

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let window = keys.optional_size("sliding_window");
    let attention = AttentionSpec {
        window: window.filter(|&window| window > 0),
        ..attention(keys, 1_000_000.0)
    };
    keys.only("hidden_act", "silu");
    let route = softmax(keys, true);
    let counts = ["num_local_experts", "num_experts"];
    let experts = experts(keys, &counts, "intermediate_size", route);
    model(
        keys,
        vec![layer(attention, FeedForwardSpec::Experts(experts)); count],
    )
}
