//! Qwen3 without experts (2025).

use super::keys::Keys;
use super::parts::{attention, dense, layer, layers, model, normed, windows};
use super::rule::{ATTENTION, DENSE, FRAME};
use super::{Extra, Family};
use crate::decoder::{AttentionSpec, HeadNorm, ModelSpec};

pub(super) const FAMILY: Family = Family {
    name: "qwen3",
    read,
    layouts: &[&[FRAME, ATTENTION, DENSE]],
    ignored: &[],
    extra: Extra::None,
};

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = normed(attention(keys, 10_000.0), HeadNorm::Head);
    let dense = dense(keys, false);
    let sliding = keys.flag_or("use_sliding_window", false);
    let first = keys.size_or("max_window_layers", 28);
    let windows = windows(keys, (count, 4096), |layer| sliding && layer >= first);
    let of = |window| {
        let window = if sliding { window } else { None };
        let attention = attention.clone();
        layer(
            AttentionSpec {
                window,
                ..attention
            },
            dense.clone(),
        )
    };
    let layers = windows.into_iter().map(of).collect();
    model(keys, layers)
}
