//! Gemma 2 (Google, 2024), and the text model of Gemma 3 (2025).

use moebius::moe::Activation;

use super::keys::Keys;
use super::parts::{attention, layer, layers, local_rope, model, normed, softcap, swiglu, windows};
use super::rule::{DENSE, PROJECTIONS, Rule, rules};
use super::{BESIDE_TEXT, Family};
use crate::decoder::{AttentionSpec, FeedForwardSpec, HeadNorm, LayerSpec, ModelSpec, Norms};

pub(super) const GEMMA2: Family = Family::new("gemma2", gemma2, &[&[NORMS, PROJECTIONS, DENSE]]);

pub(super) const GEMMA3: Family = Family {
    ignored: BESIDE_TEXT,
    ..Family::new("gemma3_text", gemma3, &[&[NORMS, PROJECTIONS, DENSE]])
};

/// Tensors outside of the layers, and all norms.
const NORMS: &[Rule] = rules! { "":
    "model.embed_tokens.weight" => Embedding;
    "model.norm.weight" => Norm, LessOne;
    "lm_head.weight" => Head;
    "model.layers.{l}.input_layernorm.weight" => AttentionNorm, LessOne;
    "model.layers.{l}.post_attention_layernorm.weight" => AttentionOutNorm, LessOne;
    "model.layers.{l}.pre_feedforward_layernorm.weight" => FeedForwardNorm, LessOne;
    "model.layers.{l}.post_feedforward_layernorm.weight" => FeedForwardOutNorm, LessOne;
    "model.layers.{l}.self_attn.q_norm.weight" => QueryNorm, LessOne;
    "model.layers.{l}.self_attn.k_norm.weight" => KeyNorm, LessOne;
};

/// Attention whose scores have a scale of their own.
fn scaled(keys: &mut Keys<'_>, theta: f64) -> AttentionSpec {
    if keys.flag_or("use_bidirectional_attention", false) {
        keys.lack("use_bidirectional_attention", "false", true);
    }
    AttentionSpec {
        scale: keys.positive_or("query_pre_attn_scalar", 256.0).powf(-0.5),
        ..attention(keys, theta)
    }
}

/// The model with these attentions of its layers.
fn with(keys: &mut Keys<'_>, attentions: impl Iterator<Item = AttentionSpec>) -> ModelSpec {
    keys.only("hidden_activation", "gelu_pytorch_tanh");
    let dense = swiglu(keys, "intermediate_size", 1).with_activation(Activation::GeluTanh);
    let layers = attentions.map(|attention| LayerSpec {
        norms: Norms::Both,
        ..layer(attention, FeedForwardSpec::Dense(dense))
    });
    let layers = layers.collect();
    ModelSpec {
        embedding_scale: (keys.size(&["hidden_size"]) as f64).sqrt(),
        logits_softcap: softcap(keys, "final_logit_softcapping"),
        ..model(keys, layers)
    }
}

fn gemma2(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = AttentionSpec {
        softcap: softcap(keys, "attn_logit_softcapping"),
        ..scaled(keys, 10_000.0)
    };
    let windows = windows(keys, count, 4096, |layer| layer % 2 == 0);
    let attentions = windows.into_iter().map(|window| AttentionSpec {
        window,
        ..attention.clone()
    });
    with(keys, attentions)
}

/// As in transformers, `attn_logit_softcapping` means nothing.
fn gemma3(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = normed(scaled(keys, 1_000_000.0), HeadNorm::Head);
    let theta = keys.positive_or("rope_local_base_freq", 10_000.0);
    let local = local_rope(keys, attention.head_dim, theta);
    let pattern = keys.size_or("sliding_window_pattern", 6).max(1);
    let windows = windows(keys, count, 4096, |layer| {
        !(layer + 1).is_multiple_of(pattern)
    });
    let attentions = windows.into_iter().map(|window| {
        let global = || attention.rope.clone();
        AttentionSpec {
            rope: window.map_or_else(global, |_| Some(local.clone())),
            window,
            ..attention.clone()
        }
    });
    with(keys, attentions)
}
