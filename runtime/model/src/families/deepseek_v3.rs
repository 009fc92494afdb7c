//! DeepSeek-V3 and R1 (DeepSeek-AI, 2024).

use moebius::moe::{
    Groups, MoeConfig, RouteConfig, RouterConfig, Score, SharedExpertConfig, SigmoidBiasConfig,
};

use super::keys::Keys;
use super::parts::{self, FULL, dense, layer, layers, model, rope, softmax};
use super::rule::{DENSE, EXPERTS, FRAME, LATENT, Rule, STACKED, rules};
use super::{Extra, Family};
use crate::decoder::{AttentionSpec, FeedForwardSpec, ModelSpec, Projection, Rope, yarn_attention};

pub(super) const FAMILY: Family = Family {
    // Layers that predict later tokens (multi-token prediction) are stored after the last layer.
    extra: Extra::Layers,
    ..Family::new(
        "deepseek_v3",
        read,
        &[
            &[FRAME, LATENT, EXPERTS, DENSE, BESIDE],
            &[FRAME, LATENT, STACKED, DENSE, BESIDE],
        ],
    )
};

const BESIDE: &[Rule] = rules! { "model.layers.{l}.mlp.":
    "gate.e_score_correction_bias" => Correction;
    "shared_experts.gate_proj.weight" => SharedIn, Gate;
    "shared_experts.up_proj.weight" => SharedIn, Up;
    "shared_experts.down_proj.weight" => SharedOut;
};

fn latent_attention(keys: &mut Keys<'_>) -> AttentionSpec {
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
    let named = ["rope_parameters", "rope_scaling"];
    let Some(rope) = named.iter().find_map(|name| keys.get(name)) else {
        return 1.0;
    };
    let kind = rope["rope_type"].as_str().or(rope["type"].as_str());
    match (
        kind,
        rope["mscale_all_dim"].as_f64(),
        rope["factor"].as_f64(),
    ) {
        (Some(kind), Some(m), Some(factor)) if kind != "default" && m != 0.0 => {
            yarn_attention(factor, m).powi(2)
        }
        _ => 1.0,
    }
}

fn experts(keys: &mut Keys<'_>) -> MoeConfig {
    let (count, chosen) = (keys.size_or("n_group", 1), keys.size_or("topk_group", 1));
    let groups = Groups {
        count,
        chosen,
        best: 2,
    };
    let shared = keys.size_or("n_shared_experts", 0);
    let renormalize = keys.flag_or("norm_topk_prob", true);
    keys.only("scoring_func", "sigmoid");
    keys.only("topk_method", "noaux_tc");
    let route = RouteConfig {
        score: Score::Sigmoid,
        groups: (count > 1).then_some(groups),
        scale: keys.number_or("routed_scaling_factor", 1.0) as f32,
        ..softmax(keys, renormalize)
    };
    let router = RouterConfig::SigmoidBias(SigmoidBiasConfig {
        route,
        ..SigmoidBiasConfig::default()
    });
    let counts = ["n_routed_experts", "num_local_experts", "num_experts"];
    let experts = parts::experts(keys, &counts, "moe_intermediate_size", router);
    let shared = (shared > 0).then(|| SharedExpertConfig::new(experts.inter * shared));
    experts.with_shared(shared)
}

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = latent_attention(keys);
    let experts = FeedForwardSpec::Experts(experts(keys));
    let dense = dense(keys, false);
    let first = keys.size_or("first_k_dense_replace", 0);
    let layers = (0..count).map(|at| {
        let network = if at < first { &dense } else { &experts };
        layer(attention.clone(), network.clone())
    });
    model(keys, layers.collect())
}
