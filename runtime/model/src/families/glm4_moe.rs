//! GLM-4.5 to 4.7 with experts (Z.ai, 2025), and Solar Open, which has experts in all layers.

use super::corrected::{LAYOUTS, after_dense, experts};
use super::keys::Keys;
use super::parts::{attention, layer, layers, model, normed};
use super::{Extra, Family};
use crate::decoder::{AttentionSpec, FeedForwardSpec, HeadNorm, ModelSpec};

/// GLM-4.5 to 4.7.
pub(super) const GLM4_MOE: Family = Family {
    // Layers that predict later tokens (multi-token prediction) are stored after the last layer.
    extra: Extra::Layers,
    ..Family::new("glm4_moe", glm4_moe, LAYOUTS)
};

fn glm4_moe(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let norm = if keys.flag_or("use_qk_norm", false) {
        HeadNorm::Head
    } else {
        HeadNorm::None
    };
    let attention = AttentionSpec {
        out_bias: false,
        ..normed(attention(keys, 10_000.0), norm)
    };
    let experts = experts(keys);
    let layers = after_dense(keys, count, &attention, experts);
    model(keys, layers)
}

/// Solar Open (Upstage, 2026).
pub(super) const SOLAR_OPEN: Family = Family::new("solar_open", solar_open, LAYOUTS);

fn solar_open(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = AttentionSpec {
        out_bias: false,
        ..attention(keys, 1_000_000.0)
    };
    keys.only("hidden_act", "silu");
    let experts = FeedForwardSpec::Experts(experts(keys));
    model(keys, vec![layer(attention, experts); count])
}
