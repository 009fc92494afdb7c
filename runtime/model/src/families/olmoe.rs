//! OLMoE (Muennighoff et al. 2024).

use super::keys::Keys;
use super::names::{ATTENTION, EXPERTS, FRAME, STACKED};
use super::parts::{attention, expert_count, layer, layers, model, softmax_router};
use super::{Extra, Family};
use crate::decoder::{
    AttentionSpec, ExpertsSpec, FeedForwardSpec, Gate, HeadNorm, ModelSpec, Projection,
};

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
    let experts = FeedForwardSpec::Experts(ExpertsSpec {
        experts: expert_count(keys, &["num_experts", "num_local_experts"]),
        inter: keys.size(&["intermediate_size"]),
        router: softmax_router(keys, renormalize),
        gate: Gate::Silu,
        bias: false,
        shared: None,
    });
    model(keys, vec![layer(attention, experts); count])
}
