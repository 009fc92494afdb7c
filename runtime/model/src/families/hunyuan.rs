//! Hunyuan without and with experts (Tencent, 2025): norms of q and k after the rotation.

use moebius::moe::{MoeConfig, RouteConfig, SharedExpertConfig};
use serde_json::Value;

use super::Family;
use super::keys::Keys;
use super::parts::{attention, bounded_experts, dense, layer, layers, model, normed, swiglu};
use super::rule::{DENSE, FRAME, PROJECTIONS, Rule, rules};
use crate::decoder::{AttentionSpec, FeedForwardSpec, HeadNorm, ModelSpec, Rope};

/// Hunyuan without experts.
pub(super) const DENSE_V1: Family = Family::new(
    "hunyuan_v1_dense",
    without_experts,
    &[&[FRAME, PROJECTIONS, NORMS, DENSE]],
);

/// Hunyuan with experts.
pub(super) const MOE_V1: Family = Family::new(
    "hunyuan_v1_moe",
    with_experts,
    &[
        &[FRAME, PROJECTIONS, NORMS, AROUND, EXPERTS],
        &[FRAME, PROJECTIONS, NORMS, AROUND, STACKED],
    ],
);

const NORMS: &[Rule] = rules! { "model.layers.{l}.self_attn.":
    "query_layernorm.weight" => QueryNorm;
    "key_layernorm.weight" => KeyNorm;
};

/// The router and the shared expert.
const AROUND: &[Rule] = rules! { "model.layers.{l}.mlp.":
    "gate.wg.weight" => Router;
    "shared_mlp.gate_proj.weight" => SharedIn, Gate;
    "shared_mlp.up_proj.weight" => SharedIn, Up;
    "shared_mlp.down_proj.weight" => SharedOut;
};

const EXPERTS: &[Rule] = rules! { "model.layers.{l}.mlp.experts.":
    "{e}.gate_proj.weight" => ExpertsIn, Gate;
    "{e}.up_proj.weight" => ExpertsIn, Up;
    "{e}.down_proj.weight" => ExpertsOut;
};

/// Stacked experts, as transformers 5 holds them in memory.
const STACKED: &[Rule] = rules! { "model.layers.{l}.mlp.experts.":
    "gate_up_proj" => ExpertsIn;
    "down_proj" => ExpertsOut;
};

fn turned_attention(keys: &mut Keys<'_>) -> AttentionSpec {
    let attention = normed(attention(keys, 10_000.0), HeadNorm::Turned);
    let rope = attention.rope.map(|rope| stretched(keys, rope));
    AttentionSpec { rope, ..attention }
}

/// Rotary positions whose θ is multiplied by α^(d / (d − 2)) for d rotated elements, where dynamic scaling has an α.
fn stretched(keys: &Keys<'_>, rope: Rope) -> Rope {
    let Some((_, of)) = keys.rotation() else {
        return rope;
    };
    let text = |name: &str| of.get(name).and_then(Value::as_str);
    let kind = text("rope_type").or_else(|| text("type"));
    let d = rope.rotated as f64;
    match of.get("alpha").and_then(Value::as_f64) {
        Some(alpha) if kind == Some("dynamic") && alpha > 0.0 && d > 2.0 => Rope {
            theta: rope.theta * alpha.powf(d / (d - 2.0)),
            ..rope
        },
        _ => rope,
    }
}

fn without_experts(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = turned_attention(keys);
    let layer = layer(attention, dense(keys, false));
    model(keys, vec![layer; count])
}

/// A number of at least 1 under the first of the names that is there, which may be a list with the number of each layer.
fn of_all_layers(keys: &mut Keys<'_>, names: [&str; 2]) -> usize {
    let name = names.into_iter().find(|name| keys.get(name).is_some());
    let name = name.unwrap_or(names[0]);
    if !keys.get(name).is_some_and(Value::is_array) {
        return keys.size(&[name]);
    }
    let numbers = keys.sizes(name);
    let first = numbers.first().copied().unwrap_or(0);
    if first == 0 || numbers.iter().any(|&number| number != first) {
        let expected = "the same number of at least 1 for all layers";
        keys.lack(name, expected, format!("{numbers:?}"));
    }
    first.max(1)
}

fn experts(keys: &mut Keys<'_>) -> MoeConfig {
    keys.only("hidden_act", "silu");
    let names = ["num_experts", "num_local_experts"];
    let count = of_all_layers(keys, names);
    let count = bounded_experts(keys, names[0], count);
    let route = RouteConfig::new(of_all_layers(keys, ["moe_topk", "num_experts_per_tok"]));
    let experts = swiglu(keys, "intermediate_size", count).with_router(route);
    let shared = keys.size_or("shared_expert_intermediate_size", experts.inter);
    experts.with_shared(Some(SharedExpertConfig::new(shared)))
}

fn with_experts(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = turned_attention(keys);
    let layer = layer(attention, FeedForwardSpec::Experts(experts(keys)));
    model(keys, vec![layer; count])
}
