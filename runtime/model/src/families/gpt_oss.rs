//! gpt-oss (OpenAI, 2025).

use moebius::moe::{Activation, RouterConfig, TopKConfig};

use super::keys::Keys;
use super::parts::{attention, experts, layer, layers, model, softmax_of_chosen, windows};
use super::rule::{ATTENTION, FRAME, Form, Rule};
use super::{Extra, Family};
use crate::decoder::{AttentionSpec, FeedForwardSpec, HeadNorm, ModelSpec, Projection, Slot};

pub(super) const FAMILY: Family = Family {
    name: "gpt_oss",
    read,
    layouts: &[
        &[FRAME, ATTENTION, RULES, CODES],
        &[FRAME, ATTENTION, RULES, FLOATS],
    ],
    ignored: &[],
    extra: Extra::None,
};

const RULES: &[Rule] = &[
    Rule::whole("model.layers.{l}.self_attn.sinks", Slot::Sinks),
    Rule::whole("model.layers.{l}.mlp.router.weight", Slot::Router),
    Rule::whole("model.layers.{l}.mlp.router.bias", Slot::RouterBias),
    Rule::formed(
        "model.layers.{l}.mlp.experts.gate_up_proj_bias",
        Slot::ExpertsInBias,
        Form::Pairs,
    ),
    Rule::whole(
        "model.layers.{l}.mlp.experts.down_proj_bias",
        Slot::ExpertsOutBias,
    ),
];

/// As it was published.
const CODES: &[Rule] = &[
    Rule::formed(
        "model.layers.{l}.mlp.experts.gate_up_proj_blocks",
        Slot::ExpertsIn,
        Form::Mxfp4Pairs,
    ),
    Rule::formed(
        "model.layers.{l}.mlp.experts.down_proj_blocks",
        Slot::ExpertsOut,
        Form::Mxfp4,
    ),
];

/// Decoded.
const FLOATS: &[Rule] = &[
    Rule::formed(
        "model.layers.{l}.mlp.experts.gate_up_proj",
        Slot::ExpertsIn,
        Form::TransposedPairs,
    ),
    Rule::formed(
        "model.layers.{l}.mlp.experts.down_proj",
        Slot::ExpertsOut,
        Form::Transposed,
    ),
];

/// The numbers of [`Activation::Clamped`]; `hidden_act` says `silu` and means nothing.
fn check_gate(keys: &mut Keys<'_>) {
    for (name, expected) in [("swiglu_alpha", 1.702), ("swiglu_limit", 7.0)] {
        let got = keys.number_or(name, expected);
        if got != expected {
            keys.lack(name, &expected.to_string(), got);
        }
    }
}

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    check_gate(keys);
    let bias = keys.flag_or("attention_bias", true);
    let attention = AttentionSpec {
        projection: Projection::Direct {
            bias,
            norm: HeadNorm::None,
            clip: None,
        },
        out_bias: bias,
        sinks: true,
        ..attention(keys, 150_000.0)
    };
    let router = TopKConfig {
        route: softmax_of_chosen(keys),
        bias: true,
        ..TopKConfig::default()
    };
    let counts = ["num_local_experts", "num_experts"];
    let experts = experts(
        keys,
        &counts,
        "intermediate_size",
        RouterConfig::TopK(router),
    )
    .with_activation(Activation::Clamped)
    .with_bias(true);
    let experts = FeedForwardSpec::Experts(experts);
    let windows = windows(keys, (count, 128), |layer| layer % 2 == 0);
    let of = |window| {
        let attention = attention.clone();
        layer(
            AttentionSpec {
                window,
                ..attention
            },
            experts.clone(),
        )
    };
    let layers = windows.into_iter().map(of).collect();
    model(keys, layers)
}
