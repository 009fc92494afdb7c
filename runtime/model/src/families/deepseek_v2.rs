//! DeepSeek-V2 (DeepSeek-AI, 2024).

use moebius::moe::{Groups, MoeConfig, RouteConfig};

use super::Family;
use super::corrected::{COUNTS, after_dense, shared};
use super::deepseek_v3::{LAYOUTS, latent_attention};
use super::keys::Keys;
use super::parts::{self, layers, model, softmax};
use crate::decoder::{AttentionSpec, ModelSpec, Rope};

pub(super) const FAMILY: Family = Family::new("deepseek_v2", read, LAYOUTS);

/// The groups that a token's experts come from, which go by their best expert; `None` where any experts can be chosen.
fn groups(keys: &mut Keys<'_>) -> Option<Groups> {
    match keys.text("topk_method") {
        None | Some("greedy") => None,
        Some("group_limited_greedy") => {
            let (count, chosen) = (keys.size(&["n_group"]), keys.size(&["topk_group"]));
            let groups = Groups {
                count,
                chosen,
                best: 1,
            };
            (count > 1).then_some(groups)
        }
        Some(other) => {
            let expected = "`greedy` or `group_limited_greedy`";
            keys.lack("topk_method", expected, other);
            None
        }
    }
}

/// Experts weighted by their probabilities among all; `norm_topk_prob` has no effect.
fn experts(keys: &mut Keys<'_>) -> MoeConfig {
    keys.only("scoring_func", "softmax");
    let route = RouteConfig {
        groups: groups(keys),
        scale: keys.number_or("routed_scaling_factor", 1.0) as f32,
        ..softmax(keys, false)
    };
    let experts = parts::experts(keys, &COUNTS, "moe_intermediate_size", route);
    shared(keys, "n_shared_experts", experts)
}

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = latent_attention(keys);
    // The class has no `rope_interleave`.
    let rope = attention.rope.map(|rope| Rope {
        interleaved: true,
        ..rope
    });
    let attention = AttentionSpec { rope, ..attention };
    let experts = experts(keys);
    let bias = keys.flag_or("mlp_bias", false);
    if bias {
        keys.lack("mlp_bias", "false", bias);
    }
    let layers = after_dense(keys, count, &attention, experts);
    model(keys, layers)
}
