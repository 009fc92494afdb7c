//! Llama 4 (Meta, 2025), its text model: attention in chunks, layers without positions, and one expert for each token.

use moebius::moe::{MoeConfig, RouteConfig, Score, SharedExpertConfig};
use serde_json::Value;

use super::keys::Keys;
use super::parts::{FULL, attention, experts, layer, layers, model, normed, swiglu};
use super::rule::{ATTENTION, FRAME, Rule, rules};
use super::{BESIDE_TEXT, Family};
use crate::decoder::{AttentionSpec, FeedForwardSpec, HeadNorm, ModelSpec, Rope, Temperature};

pub(super) const FAMILY: Family = Family {
    ignored: BESIDE_TEXT,
    ..Family::new(
        "llama4_text",
        read,
        &[
            &[FRAME, ATTENTION, AROUND, STACKED],
            &[FRAME, ATTENTION, AROUND, APART],
        ],
    )
};

/// Dense networks, routers and shared experts.
const AROUND: &[Rule] = rules! { "model.layers.{l}.feed_forward.":
    "gate_proj.weight" => DenseIn, Gate;
    "up_proj.weight" => DenseIn, Up;
    "down_proj.weight" => DenseOut;
    "router.weight" => Router;
    "shared_expert.gate_proj.weight" => SharedIn, Gate;
    "shared_expert.up_proj.weight" => SharedIn, Up;
    "shared_expert.down_proj.weight" => SharedOut;
};

/// Stacked experts, as published.
const STACKED: &[Rule] = rules! { "model.layers.{l}.feed_forward.experts.":
    "gate_up_proj" => ExpertsIn, Transposed;
    "down_proj" => ExpertsOut, Transposed;
};

/// Experts with a tensor for each expert's matrix, as published in FP8.
const APART: &[Rule] = rules! { "model.layers.{l}.feed_forward.experts.":
    "{e}.gate_proj.weight" => ExpertsIn, Gate;
    "{e}.up_proj.weight" => ExpertsIn, Up;
    "{e}.down_proj.weight" => ExpertsOut;
};

/// Type of a layer whose queries see the keys of their own chunk.
const CHUNKED: &str = "chunked_attention";

/// Whether each layer has rotary positions: by the list `no_rope_layers`, whose entries are 1 for a layer with positions, or in all layers
/// but every `no_rope_layer_interval`-th.
fn with_positions(keys: &mut Keys<'_>, count: usize) -> Vec<bool> {
    let list = keys.sizes("no_rope_layers");
    if !list.is_empty() && list.len() < count {
        let expected = format!("a list of {count} numbers");
        keys.lack("no_rope_layers", &expected, list.len());
    }
    let interval = keys.size_or("no_rope_layer_interval", 4).max(1);
    let regular = |layer: usize| !(layer + 1).is_multiple_of(interval);
    let of = |layer: usize| list.get(layer).map_or(regular(layer), |&has| has != 0);
    (0..count).map(of).collect()
}

/// The chunk of each layer: that of `attention_chunk_size` where `layer_types` says so, or without that key in layers with positions. All
/// layers see all keys where both are null.
fn chunks(keys: &mut Keys<'_>, positions: &[bool]) -> Vec<Option<usize>> {
    let size = keys.optional_size("attention_chunk_size");
    let kinds = keys.texts("layer_types", positions.len());
    let mut chunks = Vec::with_capacity(positions.len());
    for (layer, &turned) in positions.iter().enumerate() {
        let chunked = match kinds.as_ref().map(|kinds| kinds[layer]) {
            None => turned && size.is_some(),
            Some(kind) => {
                if ![FULL, CHUNKED].contains(&kind) {
                    let expected = format!("`{FULL}` or `{CHUNKED}`");
                    keys.lack("layer_types", &expected, kind);
                }
                kind == CHUNKED
            }
        };
        if chunked && size.is_none_or(|size| size == 0) {
            keys.lack("attention_chunk_size", "at least 1 token", "none");
        }
        chunks.push(size.filter(|&size| chunked && size > 0));
    }
    chunks
}

/// Whether each layer has experts: those that the list `moe_layers` names, or else every `interleave_moe_layer_step`-th.
fn sparse(keys: &mut Keys<'_>, count: usize) -> Vec<bool> {
    let listed = keys.get("moe_layers").is_some();
    let list = keys.sizes("moe_layers");
    let step = keys.size_or("interleave_moe_layer_step", 1).max(1);
    let of = |layer: usize| {
        if listed {
            list.contains(&layer)
        } else {
            (layer + 1).is_multiple_of(step)
        }
    };
    (0..count).map(of).collect()
}

/// The temperature of layers without positions; the key that turns it on may be a number.
fn temperature(keys: &mut Keys<'_>) -> Option<Temperature> {
    let name = "attn_temperature_tuning";
    let tuned = match keys.get(name) {
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        _ => keys.flag_or(name, true),
    };
    let temperature = Temperature {
        scale: keys.number_or("attn_scale", 0.1),
        span: keys.positive_or("floor_scale", 8192.0),
        offset: 1.0,
    };
    tuned.then_some(temperature)
}

fn mixture(keys: &mut Keys<'_>) -> MoeConfig {
    let chosen = keys.size_or("num_experts_per_tok", 1);
    if chosen != 1 {
        keys.lack("num_experts_per_tok", "1", chosen);
    }
    let route = RouteConfig {
        score: Score::Sigmoid,
        renormalize: false,
        ..RouteConfig::new(1)
    };
    let counts = ["num_local_experts", "num_experts"];
    let experts = experts(keys, &counts, "intermediate_size", route);
    let shared = SharedExpertConfig::new(experts.inter);
    experts.with_shared(Some(shared)).with_weighted_input(true)
}

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    keys.only("hidden_act", "silu");
    let still = attention(keys, 500_000.0);
    let unit = keys.flag_or("use_qk_norm", true);
    let norm = if unit { HeadNorm::Unit } else { HeadNorm::None };
    let rope = still.rope.clone().map(|rope| Rope {
        interleaved: true,
        ..rope
    });
    let turned = AttentionSpec {
        rope,
        ..normed(still.clone(), norm)
    };
    let still = AttentionSpec {
        rope: None,
        temperature: temperature(keys),
        ..still
    };
    let positions = with_positions(keys, count);
    let chunks = chunks(keys, &positions);
    let sparse = sparse(keys, count);
    let experts = FeedForwardSpec::Experts(mixture(keys));
    let dense = FeedForwardSpec::Dense(swiglu(keys, "intermediate_size_mlp", 1));
    let layers = (0..count).map(|at| {
        let attention = if positions[at] { &turned } else { &still };
        let attention = AttentionSpec {
            chunk: chunks[at],
            ..attention.clone()
        };
        let network = if sparse[at] { &experts } else { &dense };
        layer(attention, network.clone())
    });
    let layers = layers.collect();
    model(keys, layers)
}
