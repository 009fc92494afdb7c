//! Mistral without experts (Jiang et al. 2023) and Ministral 3 (2025), by themselves and in models that also see.

use serde_json::Value;

use super::keys::Keys;
use super::parts::{attention, dense, layer, layers, model, window};
use super::rule::{ATTENTION, DENSE, FRAME};
use super::{BESIDE_TEXT, Family};
use crate::decoder::{AttentionSpec, LayerSpec, ModelSpec, Temperature};

/// Mistral without experts, and the text model of Mistral Small 3.1 and later.
pub(super) const MISTRAL: Family = Family {
    ignored: BESIDE_TEXT,
    ..Family::new("mistral", mistral, &[&[FRAME, ATTENTION, DENSE]])
};

pub(super) fn mistral(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = AttentionSpec {
        window: window(keys),
        ..attention(keys, 10_000.0)
    };
    let dense = dense(keys, false);
    model(keys, vec![layer(attention, dense); count])
}

/// Ministral 3.
pub(super) const MINISTRAL3: Family = Family {
    ignored: BESIDE_TEXT,
    ..Family::new("ministral3", ministral3, &[&[FRAME, ATTENTION, DENSE]])
};

fn ministral3(keys: &mut Keys<'_>) -> ModelSpec {
    let temperature = temperature(keys);
    let mut spec = mistral(keys);
    let layers = spec.layers.iter_mut();
    for attention in layers.filter_map(LayerSpec::attention_mut) {
        attention.temperature = temperature;
    }
    spec
}

/// The temperature of attention, which stands among the rotary positions.
fn temperature(keys: &mut Keys<'_>) -> Option<Temperature> {
    let Some((_, rope)) = keys.rotation() else {
        // The key is null: one that is left out has the family's default.
        keys.lack("rope_parameters", "an object", "none");
        return None;
    };
    let scale = rope.get("llama_4_scaling_beta").and_then(Value::as_f64)?;
    let original = "original_max_position_embeddings";
    let inner = rope.get(original).and_then(Value::as_f64);
    let longest = keys.positive_or("max_position_embeddings", 1.0);
    let span = keys.optional_number(original).or(inner).unwrap_or(longest);
    let offset = 0.0;
    (span > 0.0 && scale != 0.0).then_some(Temperature {
        scale,
        span,
        offset,
    })
}
