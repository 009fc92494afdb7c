//! dots.llm1 (rednote, 2025).

use super::Family;
use super::corrected::{LAYOUTS, after_dense, experts};
use super::keys::Keys;
use super::parts::{attention, layers, model, normed, windows};
use crate::decoder::{HeadNorm, ModelSpec};

pub(super) const FAMILY: Family = Family::new("dots1", read, LAYOUTS);

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = normed(attention(keys, 10_000.0), HeadNorm::Head);
    let experts = experts(keys);
    let mut layers = after_dense(keys, count, &attention, experts);
    let sliding = keys.get("sliding_window").is_some();
    let first = keys.size_or("max_window_layers", 62);
    let windows = windows(keys, count, 4096, |layer| sliding && layer >= first);
    for (layer, window) in layers.iter_mut().zip(windows) {
        if let Some(attention) = layer.attention_mut() {
            attention.window = window.filter(|_| sliding);
        }
    }
    model(keys, layers)
}
