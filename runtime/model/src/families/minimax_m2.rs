//! MiniMax-M2 (MiniMax, 2025).

use moebius::moe::{RouteConfig, Score};

use super::Family;
use super::corrected::router;
use super::keys::Keys;
use super::llama::MIXTRAL_EXPERTS;
use super::parts::{attention, experts, layer, layers, model, normed, softmax};
use super::rule::{ATTENTION, FRAME, Rule, STACKED, rules};
use crate::decoder::{AttentionSpec, FeedForwardSpec, HeadNorm, ModelSpec, Rope};

pub(super) const FAMILY: Family = Family::new(
    "minimax_m2",
    read,
    &[
        &[FRAME, ATTENTION, MIXTRAL_EXPERTS, CORRECTION],
        &[FRAME, ATTENTION, STACKED, STACKED_CORRECTION],
    ],
);

const CORRECTION: &[Rule] = rules! { "model.layers.{l}.":
    "block_sparse_moe.e_score_correction_bias" => Correction;
};

const STACKED_CORRECTION: &[Rule] = rules! { "model.layers.{l}.":
    "mlp.e_score_correction_bias" => Correction;
};

/// The number of rotated elements of a head by the key that the published configurations have for it; `None` where a factor says it.
fn rotated(keys: &mut Keys<'_>) -> Option<usize> {
    let factor = "partial_rotary_factor";
    let within = keys.rotation().and_then(|(_, rope)| rope.get(factor));
    let stated = keys.get(factor).is_some() || within.is_some_and(|factor| !factor.is_null());
    if stated {
        None
    } else {
        keys.optional_size("rotary_dim")
    }
}

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let mut attention: AttentionSpec = normed(attention(keys, 5_000_000.0), HeadNorm::All);
    if let Some(rotated) = rotated(keys) {
        let most = attention.head_dim;
        if rotated.is_multiple_of(2) && (1..=most).contains(&rotated) {
            let rope = attention.rope.take();
            attention.rope = rope.map(|rope| Rope { rotated, ..rope });
        } else {
            let expected = format!("an even number of at most {most} elements");
            keys.lack("rotary_dim", &expected, rotated);
        }
    }
    keys.only("hidden_act", "silu");
    let route = RouteConfig {
        score: Score::Sigmoid,
        ..softmax(keys, true)
    };
    let counts = ["num_local_experts", "num_experts"];
    let experts = experts(keys, &counts, "intermediate_size", router(route));
    let layer = layer(attention, FeedForwardSpec::Experts(experts));
    model(keys, vec![layer; count])
}
