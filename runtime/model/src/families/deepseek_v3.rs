//! DeepSeek-V3 and R1 (DeepSeek-AI, 2024), and models with the same layers.

use serde_json::Value;

use super::corrected::{CORRECTION, SHARED, after_dense, experts};
use super::keys::Keys;
use super::parts::{FULL, dense, layer, layers, model, rope};
use super::rule::{DENSE, EXPERTS, FRAME, LATENT, Rule, STACKED};
use super::{Extra, Family};
use crate::decoder::{AttentionSpec, FeedForwardSpec, ModelSpec, Projection, Rope, yarn_attention};

pub(super) const FAMILY: Family = Family {
    // Layers that predict later tokens (multi-token prediction) are stored after the last layer.
    extra: Extra::Layers,
    ..Family::new("deepseek_v3", read, LAYOUTS)
};

/// GLM-4.7-Flash (Z.ai, 2026).
pub(super) const GLM4_MOE_LITE: Family = Family {
    extra: Extra::Layers,
    ..Family::new("glm4_moe_lite", lite, LAYOUTS)
};

pub(super) const LAYOUTS: &[&[&[Rule]]] = &[
    &[FRAME, LATENT, EXPERTS, DENSE, CORRECTION, SHARED],
    &[FRAME, LATENT, STACKED, DENSE, CORRECTION, SHARED],
];

pub(super) fn latent_attention(keys: &mut Keys<'_>) -> AttentionSpec {
    let heads = keys.size(&["num_attention_heads"]);
    let rotated = keys.size(&["qk_rope_head_dim"]);
    let head_dim = rotated + keys.size_or("qk_nope_head_dim", 128);
    let bias = keys.flag_or("attention_bias", false);
    let rope = Rope {
        interleaved: keys.flag_or("rope_interleave", true),
        ..rope(keys, FULL, rotated, 10_000.0)
    };
    AttentionSpec {
        heads,
        kv_heads: heads,
        head_dim,
        value_dim: keys.size(&["v_head_dim"]),
        scale: (head_dim as f64).powf(-0.5) * stretched(keys),
        projection: Projection::Latent {
            query_rank: keys.optional_size("q_lora_rank"),
            rank: keys.size(&["kv_lora_rank"]),
            rotated,
            bias,
            epsilon: 1e-6,
        },
        out_bias: bias,
        rope: Some(rope),
        window: None,
        chunk: None,
        softcap: None,
        temperature: None,
        sinks: false,
        fp8: None,
    }
}

/// Factor on the scores of a stretched context: the square of YaRN's attention factor by `mscale_all_dim`.
fn stretched(keys: &Keys<'_>) -> f64 {
    let Some((_, rope)) = keys.rotation() else {
        return 1.0;
    };
    let text = |name: &str| rope.get(name).and_then(Value::as_str);
    let number = |name: &str| rope.get(name).and_then(Value::as_f64);
    let kind = text("rope_type").or_else(|| text("type"));
    match (kind, number("mscale_all_dim"), number("factor")) {
        (Some(kind), Some(m), Some(factor)) if kind != "default" && m != 0.0 => {
            yarn_attention(factor, m).powi(2)
        }
        _ => 1.0,
    }
}

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    keys.only("scoring_func", "sigmoid");
    keys.only("topk_method", "noaux_tc");
    let count = layers(keys);
    let attention = latent_attention(keys);
    let experts = experts(keys);
    let layers = after_dense(keys, count, &attention, experts);
    model(keys, layers)
}

fn lite(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = latent_attention(keys);
    let experts = FeedForwardSpec::Experts(experts(keys));
    let dense = dense(keys, false);
    let kinds = keys.texts("mlp_layer_types", count);
    let layers = (0..count).map(|at| {
        let is_dense = kinds.as_ref().map_or(at == 0, |kinds| kinds[at] == "dense");
        let network = if is_dense { &dense } else { &experts };
        layer(attention.clone(), network.clone())
    });
    let layers = layers.collect();
    model(keys, layers)
}
