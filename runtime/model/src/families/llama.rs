//! Llama, and the families whose layers differ from Llama's in few numbers: Mixtral and OLMoE with experts, Granite 3 with and without,
//! Seed-OSS and SmolLM3.

use super::Family;
use super::keys::Keys;
use super::parts::{
    attention, dense, experts, layer, layers, model, softmax, softmax_of_chosen, window, windowed,
    windows,
};
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

pub(super) const MIXTRAL_EXPERTS: &[Rule] = rules! { "model.layers.{l}.block_sparse_moe.":
    "gate.weight" => Router;
    "experts.{e}.w1.weight" => ExpertsIn, Gate;
    "experts.{e}.w3.weight" => ExpertsIn, Up;
    "experts.{e}.w2.weight" => ExpertsOut;
};

fn mixtral(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = AttentionSpec {
        window: window(keys),
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
    &[
        &[FRAME, ATTENTION, GRANITEMOE_EXPERTS],
        &[FRAME, ATTENTION, GRANITEMOE_STACKED],
    ],
);

const GRANITEMOE_EXPERTS: &[Rule] = rules! { "model.layers.{l}.block_sparse_moe.":
    "router.layer.weight" => Router;
    "input_linear.weight" => ExpertsIn;
    "output_linear.weight" => ExpertsOut;
};

/// Stacked experts, as transformers 5 holds them in memory.
const GRANITEMOE_STACKED: &[Rule] = rules! { "model.layers.{l}.block_sparse_moe.":
    "router.weight" => Router;
    "experts.gate_up_proj" => ExpertsIn;
    "experts.down_proj" => ExpertsOut;
};

fn granitemoe(keys: &mut Keys<'_>) -> ModelSpec {
    keys.only("hidden_act", "silu");
    let route = softmax_of_chosen(keys);
    let counts = ["num_local_experts", "num_experts"];
    let experts = experts(keys, &counts, "intermediate_size", route);
    multiplied(keys, FeedForwardSpec::Experts(experts))
}

/// Granite 3 without experts (IBM, 2024).
pub(super) const GRANITE: Family = Family::new("granite", granite, &[&[FRAME, ATTENTION, DENSE]]);

fn granite(keys: &mut Keys<'_>) -> ModelSpec {
    let bias = keys.flag_or("mlp_bias", false);
    let dense = dense(keys, bias);
    multiplied(keys, dense)
}

/// A model with Granite's factors on embeddings, scores, the output of layers, and logits.
fn multiplied(keys: &mut Keys<'_>, feed_forward: FeedForwardSpec) -> ModelSpec {
    let count = layers(keys);
    let attention = AttentionSpec {
        scale: keys.number_or("attention_multiplier", 1.0),
        ..attention(keys, 10_000.0)
    };
    let layer = LayerSpec {
        residual: keys.number_or("residual_multiplier", 1.0),
        ..layer(attention, feed_forward)
    };
    ModelSpec {
        embedding_scale: keys.number_or("embedding_multiplier", 1.0),
        logits_scale: 1.0 / keys.positive_or("logits_scaling", 1.0),
        ..model(keys, vec![layer; count])
    }
}

/// Seed-OSS (ByteDance, 2025).
pub(super) const SEED_OSS: Family =
    Family::new("seed_oss", seed_oss, &[&[FRAME, ATTENTION, DENSE]]);

fn seed_oss(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = AttentionSpec {
        out_bias: keys.flag_or("attention_out_bias", false),
        ..attention(keys, 10_000.0)
    };
    let bias = keys.flag_or("mlp_bias", false);
    let dense = dense(keys, bias);
    model(keys, vec![layer(attention, dense); count])
}

/// SmolLM3 (Hugging Face, 2025), in which some layers have no positions.
pub(super) const SMOLLM3: Family = Family::new("smollm3", smollm3, &[&[FRAME, ATTENTION, DENSE]]);

fn smollm3(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = attention(keys, 2_000_000.0);
    let bias = keys.flag_or("mlp_bias", false);
    let dense = dense(keys, bias);
    let step = keys.size_or("no_rope_layer_interval", 4).max(1);
    // Despite the name of the key, 1 stands for a layer that rotates.
    let listed = keys.sizes("no_rope_layers");
    if !listed.is_empty() && listed.len() < count {
        let expected = format!("a number for each of {count} layers");
        keys.lack("no_rope_layers", &expected, listed.len());
    }
    let rotates = |at: usize| {
        let plain = !(at + 1).is_multiple_of(step);
        listed.get(at).map_or(plain, |&flag| flag != 0)
    };
    let stated = keys.get("sliding_window").is_some();
    let sliding = keys.flag_or("use_sliding_window", false) && stated;
    // Layers that `layer_types` names have a window also where `use_sliding_window` is false.
    let windows = windows(keys, count, 0, |at| sliding && !rotates(at));
    let layers = windows.into_iter().enumerate().map(|(at, window)| {
        let rope = attention.rope.clone().filter(|_| rotates(at));
        let attention = AttentionSpec {
            rope,
            ..attention.clone()
        };
        windowed(&attention, window, &dense)
    });
    model(keys, layers.collect())
}
