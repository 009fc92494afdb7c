//! Qwen1.5-MoE and Qwen2 with experts (2024).

use moebius::moe::SharedExpertConfig;

use super::keys::Keys;
use super::parts::{attention, dense, experts, layer, layers, model, softmax, sparse, windows};
use super::rule::{ATTENTION, DENSE, EXPERTS, FRAME, Rule, STACKED};
use super::{Extra, Family};
use crate::decoder::{AttentionSpec, FeedForwardSpec, HeadNorm, ModelSpec, Projection, Slot};

pub(super) const FAMILY: Family = Family {
    name: "qwen2_moe",
    read,
    layouts: &[
        &[FRAME, ATTENTION, EXPERTS, DENSE, SHARED],
        &[FRAME, ATTENTION, STACKED, DENSE, SHARED],
    ],
    ignored: &[],
    extra: Extra::None,
};

const SHARED: &[Rule] = &[
    Rule::gate(
        "model.layers.{l}.mlp.shared_expert.gate_proj.weight",
        Slot::SharedIn,
    ),
    Rule::up(
        "model.layers.{l}.mlp.shared_expert.up_proj.weight",
        Slot::SharedIn,
    ),
    Rule::whole(
        "model.layers.{l}.mlp.shared_expert.down_proj.weight",
        Slot::SharedOut,
    ),
    Rule::whole(
        "model.layers.{l}.mlp.shared_expert_gate.weight",
        Slot::SharedGate,
    ),
];

fn read(keys: &mut Keys<'_>) -> ModelSpec {
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
    let renormalize = keys.flag_or("norm_topk_prob", false);
    let route = softmax(keys, renormalize);
    let counts = ["num_experts", "num_local_experts"];
    let routed = experts(keys, &counts, "moe_intermediate_size", route);
    let shared = SharedExpertConfig::new(keys.size(&["shared_expert_intermediate_size"]));
    let experts = routed.with_shared(Some(shared.with_sigmoid_gate(true)));
    let experts = FeedForwardSpec::Experts(experts);
    let dense = dense(keys, false);
    let sliding = keys.flag_or("use_sliding_window", false);
    let last = keys.size_or("max_window_layers", 28);
    let windows = windows(keys, (count, 4096), |layer| {
        sliding && layer % 2 == 0 && layer < last
    });
    let of = |(sparse, window): (bool, Option<usize>)| {
        let network = if sparse { &experts } else { &dense };
        let window = window.filter(|_| sliding);
        let attention = attention.clone();
        layer(
            AttentionSpec {
                window,
                ..attention
            },
            network.clone(),
        )
    };
    let layers = sparse(keys, count).into_iter().zip(windows).map(of);
    let layers = layers.collect();
    model(keys, layers)
}
