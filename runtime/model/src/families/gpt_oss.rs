//! gpt-oss (OpenAI, 2025).

use moebius::moe::{Activation, RouterConfig, TopKConfig};

use super::Family;
use super::keys::Keys;
use super::parts::{
    attention, biased, experts, layers, model, softmax_of_chosen, windowed, windows,
};
use super::rule::{ATTENTION, FRAME, Rule, rules};
use crate::decoder::{AttentionSpec, FeedForwardSpec, ModelSpec};

pub(super) const FAMILY: Family = Family::new(
    "gpt_oss",
    read,
    &[
        &[FRAME, ATTENTION, RULES, CODES],
        &[FRAME, ATTENTION, RULES, FLOATS],
    ],
);

const RULES: &[Rule] = rules! { "model.layers.{l}.":
    "self_attn.sinks" => Sinks;
    "mlp.router.weight" => Router;
    "mlp.router.bias" => RouterBias;
    "mlp.experts.gate_up_proj_bias" => ExpertsInBias, Pairs;
    "mlp.experts.down_proj_bias" => ExpertsOutBias;
};

/// Experts as published, in MXFP4 codes.
const CODES: &[Rule] = rules! { "model.layers.{l}.mlp.experts.":
    "gate_up_proj_blocks" => ExpertsIn, Mxfp4Pairs;
    "down_proj_blocks" => ExpertsOut, Mxfp4;
};

/// Experts decoded to floating point.
const FLOATS: &[Rule] = rules! { "model.layers.{l}.mlp.experts.":
    "gate_up_proj" => ExpertsIn, TransposedPairs;
    "down_proj" => ExpertsOut, Transposed;
};

/// Checks the values that [`Activation::Clamped`] assumes; `hidden_act` says `silu`, which means nothing here.
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
        sinks: true,
        ..biased(attention(keys, 150_000.0), bias)
    };
    let router = TopKConfig {
        route: softmax_of_chosen(keys),
        bias: true,
        ..TopKConfig::default()
    };
    let counts = ["num_local_experts", "num_experts"];
    let router = RouterConfig::TopK(router);
    let experts = experts(keys, &counts, "intermediate_size", router);
    let experts = experts.with_activation(Activation::Clamped).with_bias(true);
    let experts = FeedForwardSpec::Experts(experts);
    let windows = windows(keys, count, 128, |layer| layer % 2 == 0);
    let layers = windows.into_iter();
    let layers = layers.map(|window| windowed(&attention, window, &experts));
    model(keys, layers.collect())
}
