//! Llama, and the families whose layers differ from Llama's in few numbers: Mixtral, OLMoE and Granite 3, all with experts.

use super::Family;
use super::keys::Keys;
use super::parts::{attention, dense, experts, layer, layers, model, softmax, softmax_of_chosen};
use super::rule::{ATTENTION, DENSE, EXPERTS, FRAME, Rule, STACKED, SWITCHED, rules};
use crate::decoder::{AttentionSpec, FeedForwardSpec, HeadNorm, LayerSpec, ModelSpec, Projection};

/// Llama (Touvron et al. 2023; Llama 3, 2024), and models derived from it, such as SmolLM2.
pub(super) const LLAMA: Family = Family::new("llama", llama, &[&[FRAME, ATTENTION, DENSE]]);

fn llama(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = attention(keys, 10_000.0);
    let bias = keys.flag_or("mlp_bias", false);
    let dense = dense(keys, bias);
    model(keys, vec![layer(attention, dense); count])
}

/// Mixtral (Jiang et al. 2024).
pub(super) const MIXTRAL: Family = Family::new(
    "mixtral",
    mixtral,
    &[
        &[FRAME, ATTENTION, MIXTRAL_EXPERTS],
        &[FRAME, ATTENTION, STACKED],
    ],
);

const MIXTRAL_EXPERTS: &[Rule] = rules! { "model.layers.{l}.block_sparse_moe.":
    "gate.weight" => Router;
    "experts.{e}.w1.weight" => ExpertsIn, Gate;
    "experts.{e}.w3.weight" => ExpertsIn, Up;
    "experts.{e}.w2.weight" => ExpertsOut;
};

fn mixtral(keys: &mut Keys<'_>) -> ModelSpec {
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
    let layer = layer(attention, FeedForwardSpec::Experts(experts));
    model(keys, vec![layer; count])
}

/// OLMoE (Muennighoff et al. 2024).
pub(super) const OLMOE: Family = Family::new(
    "olmoe",
    olmoe,
    &[
        &[FRAME, ATTENTION, EXPERTS],
        &[FRAME, ATTENTION, STACKED],
        &[FRAME, ATTENTION, SWITCHED],
    ],
);

fn olmoe(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = attention(keys, 10_000.0);
    let attention = AttentionSpec {
        projection: Projection::Direct {
            bias: attention.out_bias,
            norm: HeadNorm::All,
            clip: keys.optional_number("clip_qkv"),
        },
        ..attention
    };
    keys.only("hidden_act", "silu");
    let renormalize = keys.flag_or("norm_topk_prob", false);
    let route = softmax(keys, renormalize);
    let counts = ["num_experts", "num_local_experts"];
    let experts = experts(keys, &counts, "intermediate_size", route);
    let layer = layer(attention, FeedForwardSpec::Experts(experts));
    model(keys, vec![layer; count])
}

/// Granite 3 with experts (IBM, 2024).
pub(super) const GRANITEMOE: Family = Family::new(
    "granitemoe",
    granitemoe,
    &[&[FRAME, ATTENTION, GRANITEMOE_EXPERTS]],
);

const GRANITEMOE_EXPERTS: &[Rule] = rules! { "model.layers.{l}.block_sparse_moe.":
    "router.layer.weight" => Router;
    "input_linear.weight" => ExpertsIn;
    "output_linear.weight" => ExpertsOut;
};

fn granitemoe(keys: &mut Keys<'_>) -> ModelSpec {
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
        residual: keys.number_or("residual_multiplier", 1.0),
        ..layer(attention, FeedForwardSpec::Experts(experts))
    };
    ModelSpec {
        embedding_scale: keys.number_or("embedding_multiplier", 1.0),
        logits_scale: 1.0 / keys.positive_or("logits_scaling", 1.0),
        ..model(keys, vec![layer; count])
    }
}
