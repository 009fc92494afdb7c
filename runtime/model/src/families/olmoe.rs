//! OLMoE (Muennighoff et al. 2024).

use super::keys::Keys;
use super::parts::{attention, experts, layer, layers, model, softmax};
use super::rule::{ATTENTION, EXPERTS, FRAME, STACKED};
use super::{Extra, Family};
use crate::decoder::{AttentionSpec, FeedForwardSpec, HeadNorm, ModelSpec, Projection};

pub(super) const FAMILY: Family = Family {
    name: "olmoe",
    read,
    layouts: &[&[FRAME, ATTENTION, EXPERTS], &[FRAME, ATTENTION, STACKED]],
    ignored: &[],
    extra: Extra::None,
};

fn read(keys: &mut Keys<'_>) -> ModelSpec {
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
    model(
        keys,
        vec![layer(attention, FeedForwardSpec::Experts(experts)); count],
    )
}
