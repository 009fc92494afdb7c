//! OLMo 2 (OLMo team, 2024) and OLMo 3 (2025): norms of what attention and the feed-forward part give, not of what they read.

use super::Family;
use super::keys::Keys;
use super::parts::{attention, dense, layer, layers, local_rope, model, normed, windows};
use super::rule::{ATTENTION, DENSE, Rule, rules};
use crate::decoder::{AttentionSpec, HeadNorm, LayerSpec, ModelSpec, Norms};

pub(super) const OLMO2: Family = Family::new("olmo2", olmo2, &[&[FRAME, ATTENTION, DENSE]]);
pub(super) const OLMO3: Family = Family::new("olmo3", olmo3, &[&[FRAME, ATTENTION, DENSE]]);

/// Tensors outside of the layers, and the norms of the layers.
const FRAME: &[Rule] = rules! { "":
    "model.embed_tokens.weight" => Embedding;
    "model.norm.weight" => Norm;
    "lm_head.weight" => Head;
    "model.layers.{l}.post_attention_layernorm.weight" => AttentionOutNorm;
    "model.layers.{l}.post_feedforward_layernorm.weight" => FeedForwardOutNorm;
};

fn olmo2(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = normed(attention(keys, 10_000.0), HeadNorm::All);
    let layer = LayerSpec {
        norms: Norms::After,
        ..layer(attention, dense(keys, false))
    };
    model(keys, vec![layer; count])
}

fn olmo3(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = normed(attention(keys, 500_000.0), HeadNorm::All);
    let theta = keys.positive_or("rope_theta", 500_000.0);
    let local = local_rope(keys, attention.head_dim, theta);
    let dense = dense(keys, false);
    let windows = windows(keys, count, 4096, |layer| !(layer + 1).is_multiple_of(4));
    let layers = windows.into_iter().map(|window| {
        let global = || attention.rope.clone();
        let attention = AttentionSpec {
            rope: window.map_or_else(global, |_| Some(local.clone())),
            window,
            ..attention.clone()
        };
        LayerSpec {
            norms: Norms::After,
            ..layer(attention, dense.clone())
        }
    });
    let layers = layers.collect();
    model(keys, layers)
}
