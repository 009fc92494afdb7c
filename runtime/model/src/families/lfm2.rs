//! LFM2 (Liquid AI, 2025) with and without experts: most layers have a short convolution in place of attention.

use moebius::moe::{MoeConfig, RouteConfig, Score};

use super::Family;
use super::corrected::router;
use super::keys::{Keys, MAX_SIZE};
use super::parts::{
    FULL, attention, biased, experts, layer, layers, model, normed, softmax, swiglu,
};
use super::rule::{Rule, rules};
use crate::decoder::{ConvolutionSpec, FeedForwardSpec, HeadNorm, LayerSpec, Mixer, ModelSpec};

/// LFM2 without experts.
pub(super) const LFM2: Family = Family::new("lfm2", lfm2, &[&[OUTER, MIXERS, DENSE]]);

/// LFM2 with experts.
pub(super) const LFM2_MOE: Family = Family::new(
    "lfm2_moe",
    lfm2_moe,
    &[
        &[OUTER, MIXERS, DENSE, ROUTER, APART],
        &[OUTER, MIXERS, DENSE, ROUTER, STACKED],
    ],
);

/// Type of a layer with a convolution.
pub(super) const CONVOLUTION: &str = "conv";

/// The most tokens that a convolution is over; published models have 3.
const MOST_TAPS: usize = 64;

/// Tensors outside of the layers, and the norms of the layers.
const OUTER: &[Rule] = rules! { "":
    "model.embed_tokens.weight" => Embedding;
    "model.embedding_norm.weight" => Norm;
    "lm_head.weight" => Head;
    "model.layers.{l}.operator_norm.weight" => AttentionNorm;
    "model.layers.{l}.ffn_norm.weight" => FeedForwardNorm;
};

const MIXERS: &[Rule] = rules! { "model.layers.{l}.":
    "self_attn.q_proj.weight" => Query;
    "self_attn.k_proj.weight" => Key;
    "self_attn.v_proj.weight" => Value;
    "self_attn.out_proj.weight" => Out;
    "self_attn.q_layernorm.weight" => QueryNorm;
    "self_attn.k_layernorm.weight" => KeyNorm;
    "conv.in_proj.weight" => ConvolutionIn;
    "conv.in_proj.bias" => ConvolutionInBias;
    "conv.conv.weight" => ConvolutionFactors, Channels;
    "conv.conv.bias" => ConvolutionBias;
    "conv.out_proj.weight" => ConvolutionOut;
    "conv.out_proj.bias" => ConvolutionOutBias;
};

const DENSE: &[Rule] = rules! { "model.layers.{l}.feed_forward.":
    "w1.weight" => DenseIn, Gate;
    "w3.weight" => DenseIn, Up;
    "w2.weight" => DenseOut;
};

const ROUTER: &[Rule] = rules! { "model.layers.{l}.feed_forward.":
    "gate.weight" => Router;
    "expert_bias" => Correction;
};

const APART: &[Rule] = rules! { "model.layers.{l}.feed_forward.experts.{e}.":
    "w1.weight" => ExpertsIn, Gate;
    "w3.weight" => ExpertsIn, Up;
    "w2.weight" => ExpertsOut;
};

/// Stacked experts, as transformers 5 holds them in memory.
const STACKED: &[Rule] = rules! { "model.layers.{l}.feed_forward.experts.":
    "gate_up_proj" => ExpertsIn;
    "down_proj" => ExpertsOut;
};

fn lfm2(keys: &mut Keys<'_>) -> ModelSpec {
    let dense = MoeConfig {
        inter: inter(keys),
        ..swiglu(keys, "intermediate_size", 1)
    };
    with(keys, |_| FeedForwardSpec::Dense(dense))
}

/// Width of a dense network: where `block_auto_adjust_ff_dim` says so, two thirds of the width that is stated, rounded up to a multiple.
fn inter(keys: &mut Keys<'_>) -> usize {
    let stated = keys.size(&["block_ff_dim", "intermediate_size"]);
    if !keys.flag_or("block_auto_adjust_ff_dim", true) {
        return stated;
    }
    let mut width = (2 * stated / 3) as f64;
    let mut multiple = 1;
    if !keys.is_null("block_ffn_dim_multiplier") {
        width *= keys.positive_or("block_ffn_dim_multiplier", 1.0);
        multiple = keys.size_or("block_multiple_of", 256).max(1);
    }
    let most = MAX_SIZE as f64;
    if !(1.0..=most).contains(&width) {
        let expected = format!("an adjusted width of 1 to {most}");
        keys.lack("intermediate_size", &expected, width);
    }
    (width.clamp(1.0, most) as usize).next_multiple_of(multiple)
}

fn lfm2_moe(keys: &mut Keys<'_>) -> ModelSpec {
    let dense = FeedForwardSpec::Dense(swiglu(keys, "intermediate_size", 1));
    let renormalize = keys.flag_or("norm_topk_prob", true);
    // transformers divides by the sum of the chosen scores and 10⁻⁶, which is at most 10⁻⁶ of the result.
    let route = RouteConfig {
        score: Score::Sigmoid,
        scale: keys.number_or("routed_scaling_factor", 1.0) as f32,
        ..softmax(keys, renormalize)
    };
    let corrected = keys.flag_or("use_expert_bias", true);
    let route = if corrected {
        router(route)
    } else {
        route.into()
    };
    let experts = experts(
        keys,
        &["num_experts", "num_local_experts"],
        "moe_intermediate_size",
        route,
    );
    let experts = FeedForwardSpec::Experts(experts);
    let first = keys.size_or("num_dense_layers", 2);
    with(keys, |at| {
        if at < first {
            dense.clone()
        } else {
            experts.clone()
        }
    })
}

/// The model whose layers have these feed-forward parts.
fn with(keys: &mut Keys<'_>, feed_forward: impl Fn(usize) -> FeedForwardSpec) -> ModelSpec {
    let count = layers(keys);
    let attention = biased(attention(keys, 1_000_000.0), false);
    let attention = normed(attention, HeadNorm::Head);
    let convolution = ConvolutionSpec {
        taps: taps(keys),
        bias: keys.flag_or("conv_bias", false),
        fp8: None,
    };
    let has_attention = attentive(keys, count);
    let layers = has_attention.into_iter().enumerate().map(|(at, attends)| {
        let layer = layer(attention.clone(), feed_forward(at));
        if attends {
            return layer;
        }
        LayerSpec {
            mixer: Mixer::Convolution(convolution.clone()),
            ..layer
        }
    });
    let layers = layers.collect();
    let tied = keys.flag_or("tie_word_embeddings", true);
    ModelSpec {
        epsilon: keys.positive_or("norm_eps", 1e-5),
        tied: keys.flag_or("tie_embedding", tied),
        ..model(keys, layers)
    }
}

/// Number of tokens of a convolution.
fn taps(keys: &mut Keys<'_>) -> usize {
    let taps = keys.size_or("conv_L_cache", 3);
    if !(2..=MOST_TAPS).contains(&taps) {
        let expected = format!("2 to {MOST_TAPS} tokens");
        keys.lack("conv_L_cache", &expected, taps);
    }
    taps.clamp(2, MOST_TAPS)
}

/// Whether each layer has attention: by `layer_types`, or else by `full_attn_idxs`, or else all do.
fn attentive(keys: &mut Keys<'_>, count: usize) -> Vec<bool> {
    if let Some(kinds) = keys.texts("layer_types", count) {
        let known = |kind: &&str| ![FULL, CONVOLUTION].contains(kind);
        if let Some(other) = kinds.iter().copied().find(known) {
            let expected = format!("`{FULL}` or `{CONVOLUTION}`");
            keys.lack("layer_types", &expected, other);
        }
        return kinds.into_iter().map(|kind| kind == FULL).collect();
    }
    let listed = keys.sizes("full_attn_idxs");
    let all = keys.get("full_attn_idxs").is_none();
    (0..count).map(|at| all || listed.contains(&at)).collect()
}
